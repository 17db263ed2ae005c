//! A client whose connections come to the test as bytes.

use std::sync::Arc;
use std::time::Duration;

use steadfast_tokio::{ConnectionSettings, Http2Settings, NeverOpen, Settings, TokioClient};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tonic::Status;

use crate::carts::cart_service_client::CartServiceClient;
use crate::carts::{AddItemRequest, AddItemResponse};
use crate::script::PATIENCE;
use crate::world::{PipeHost, driven};
use crate::{Raw, item, unary};

/// A client, and the peer's ends of the connections it dials.
#[derive(Debug)]
pub struct Wire {
    /// The client under test.
    pub client: TokioClient,
    /// What it dialed, in order.
    pub connections: UnboundedReceiver<DuplexStream>,
}

/// A unary call under way.
pub type Call = JoinHandle<Result<AddItemResponse, Status>>;

impl Wire {
    /// A client that tries once, has ten minutes for it, and whose breaker stays out of it.
    #[must_use]
    pub fn new(connection: ConnectionSettings) -> Self {
        Self::with(
            Settings {
                max_attempts: 1,
                timeout: Duration::from_secs(600),
                breaker_policy: Arc::new(NeverOpen),
                ..Settings::default()
            },
            connection,
        )
    }

    /// A client with these settings.
    ///
    /// # Panics
    ///
    /// On invalid settings.
    #[must_use]
    pub fn with(settings: Settings, connection: ConnectionSettings) -> Self {
        let (host, connections) = PipeHost::new();
        let (client, driver) = driven(host, settings, connection, Http2Settings::default(), |_| {});
        tokio::spawn(driver);
        Self {
            client,
            connections,
        }
    }

    /// The next connection, with the handshake done.
    ///
    /// # Panics
    ///
    /// If nothing is dialed, or what is does not begin with HTTP/2's preface.
    pub async fn accept(&mut self) -> Raw {
        let dialed = tokio::time::timeout(PATIENCE, self.connections.recv()).await;
        Raw::accept(dialed.expect("dialed").expect("the client lives")).await
    }

    /// Begins a call.
    #[must_use]
    pub fn call(&self) -> Call {
        self.call_with(unary(item(b"x")))
    }

    /// Begins a call with this request.
    #[must_use]
    pub fn call_with(&self, request: tonic::Request<AddItemRequest>) -> Call {
        let mut carts = CartServiceClient::new(self.client.clone());
        tokio::spawn(async move { Ok(carts.add_item(request).await?.into_inner()) })
    }
}

/// Lets every task do what it can without time passing.
pub async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

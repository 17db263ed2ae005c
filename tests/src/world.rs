//! A client and a real tonic server in one runtime, joined by pipes in memory.
//!
//! With the runtime's clock paused nothing but timers moves time, and only when client and
//! server both have nothing to do: waits are exact and cost nothing.

use std::sync::{Arc, Mutex, PoisonError};

use steadfast_tokio::{
    Address, Client, ConnectionSettings, DialError, Driver, Host, Http2Settings, Settings,
    TokioClient, TokioTimer, Transition, channel,
};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::carts::cart_service_client::CartServiceClient;
use crate::script::Script;

/// A [`Host`] whose connections are pipes.
#[derive(Clone, Debug)]
pub struct PipeHost(mpsc::UnboundedSender<DuplexStream>);

impl PipeHost {
    /// The host, and the server's ends of the connections it makes.
    #[must_use]
    pub fn new() -> (Self, mpsc::UnboundedReceiver<DuplexStream>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }
}

impl Host for PipeHost {
    type Stream = DuplexStream;

    fn dial(
        &self,
        _: &Address,
    ) -> impl Future<Output = Result<DuplexStream, DialError>> + Send + 'static {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let sent = self.0.send(theirs);
        async move {
            let refused = std::io::ErrorKind::ConnectionRefused;
            sent.map(|()| ours)
                .map_err(|_| DialError::Connect(refused.into()))
        }
    }
}

/// A client, its server's script, and what was heard of its breaker.
#[derive(Debug)]
pub struct World {
    /// What the server does.
    pub script: Script,
    /// The client under test.
    pub client: TokioClient,
    transitions: Arc<Mutex<Vec<Transition>>>,
}

impl World {
    /// A client with these settings; its address is a name for the pipe.
    ///
    /// # Panics
    ///
    /// On invalid settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::heard(settings, |_| {})
    }

    /// The same, with somebody else who hears of transitions, after they were noted.
    ///
    /// # Panics
    ///
    /// On invalid settings.
    #[must_use]
    pub fn heard(
        settings: Settings,
        listener: impl Fn(&Transition) + Send + Sync + 'static,
    ) -> Self {
        let script = Script::new();
        let (host, connections) = PipeHost::new();
        let incoming = UnboundedReceiverStream::new(connections).map(Ok::<_, std::io::Error>);
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(script.service())
                .serve_with_incoming(incoming),
        );
        let transitions = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&transitions);
        let client = piped(host, settings, move |transition| {
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(*transition);
            listener(transition);
        });
        Self {
            script,
            client,
            transitions,
        }
    }

    /// The generated client, on the client under test.
    #[must_use]
    pub fn carts(&self) -> CartServiceClient<TokioClient> {
        CartServiceClient::new(self.client.clone())
    }

    /// The breaker's transitions so far.
    #[must_use]
    pub fn transitions(&self) -> Vec<Transition> {
        self.transitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A client whose connections this host dials, seeded with 7.
///
/// # Panics
///
/// On invalid settings.
pub fn piped(
    host: impl Host,
    settings: Settings,
    listener: impl Fn(&Transition) + Send + Sync + 'static,
) -> TokioClient {
    let connection = ConnectionSettings::default();
    let (client, driver) = driven(
        host,
        settings,
        connection,
        Http2Settings::default(),
        listener,
    );
    tokio::spawn(driver);
    client
}

/// The same, with a connection of other settings, and its driver not running yet.
///
/// # Panics
///
/// On invalid settings.
pub fn driven<H: Host>(
    host: H,
    mut settings: Settings,
    connection: ConnectionSettings,
    http2: Http2Settings,
    listener: impl Fn(&Transition) + Send + Sync + 'static,
) -> (TokioClient, Driver<H, TokioTimer>) {
    const SEED: u64 = 7;
    if settings.addr.is_empty() {
        settings.addr = "carts.test:1".to_owned();
    }
    let address = settings.parse().expect("valid settings");
    let timer = TokioTimer::new();
    let (channel, driver) = channel(address, host, timer, connection, http2, SEED);
    let client = Client::with_listener(channel, timer, &settings, SEED, listener);
    (client.expect("valid settings"), driver)
}

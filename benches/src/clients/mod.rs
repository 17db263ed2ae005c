//! The clients that are measured, each on a connection of its own.

mod bare;
mod connection;
mod raw;
mod stub;

use std::net::SocketAddr;

use crate::carts::cart_service_client::CartServiceClient;
use steadfast_tokio::{CallKind, Settings, TokioClient};
use tonic::transport::Channel;

use self::bare::Bare;
use self::raw::Raw;
use self::stub::Stub;
use crate::Failure;
use crate::payload::Payload;

/// Makes one unary call after the other.
pub(crate) trait Caller: Clone + Send + 'static {
    /// One call: the number of bytes that its answer carried.
    fn call(&mut self, payload: &Payload) -> impl Future<Output = Result<usize, Failure>> + Send;
}

/// Which client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The h2 crate alone, no gRPC: the limit.
    Raw,
    /// A tonic stub on a service that hands its request to h2: the floor for any client that
    /// takes tonic's stubs.
    Bare,
    /// A tonic stub on tonic's own channel.
    Tonic,
    /// A tonic stub on Steadfast with its default settings.
    Steadfast,
    /// The same, told that its calls are unary: the timeout covers the whole call, and the
    /// response is held until its trailers.
    SteadfastUnary,
}

impl Which {
    pub(crate) const ALL: [Self; 5] = [
        Self::Raw,
        Self::Bare,
        Self::Tonic,
        Self::Steadfast,
        Self::SteadfastUnary,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw-h2",
            Self::Bare => "bare",
            Self::Tonic => "tonic",
            Self::Steadfast => "steadfast",
            Self::SteadfastUnary => "steadfast-unary",
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, Failure> {
        let which = Self::ALL.into_iter().find(|which| which.name() == name);
        which.ok_or_else(|| format!("no client is called {name:?}").into())
    }
}

/// A connected client.
pub(crate) enum Client {
    Raw(Raw),
    Bare(Stub<Bare>),
    Tonic(Stub<Channel>),
    Steadfast(Stub<TokioClient>),
}

impl Client {
    pub(crate) async fn connect(which: Which, address: SocketAddr) -> Result<Self, Failure> {
        Ok(match which {
            Which::Raw => Self::Raw(Raw::connect(address).await?),
            Which::Bare => {
                let service = Bare::connect(address).await?;
                Self::Bare(Stub::new(CartServiceClient::new(service), None))
            }
            Which::Tonic => {
                let endpoint = Channel::from_shared(format!("http://{address}"))?;
                let service = endpoint.connect().await?;
                Self::Tonic(Stub::new(CartServiceClient::new(service), None))
            }
            Which::Steadfast => Self::Steadfast(Stub::new(steadfast(address)?, None)),
            Which::SteadfastUnary => {
                Self::Steadfast(Stub::new(steadfast(address)?, Some(CallKind::Unary)))
            }
        })
    }
}

fn steadfast(address: SocketAddr) -> Result<CartServiceClient<TokioClient>, Failure> {
    let client = steadfast_tokio::connect(Settings {
        addr: address.to_string(),
        ..Settings::default()
    })?;
    Ok(CartServiceClient::new(client))
}

//! Steadfast on tokio: a gRPC client that keeps calling well when the other side doesn't
//! answer well.
//!
//! ```no_run
//! use std::time::Duration;
//! use steadfast_tokio::Settings;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = steadfast_tokio::connect(Settings {
//!     addr: "carts.internal:50051".to_owned(),
//!     timeout: Duration::from_secs(2),
//!     ..Settings::default()
//! })?;
//! // let carts = CartServiceClient::new(client);
//! # let _ = client;
//! # Ok(())
//! # }
//! ```
//!
//! A peer that is gone without a word is found by keepalive pings, and a job that has time
//! waits for a connection instead of failing with the last connection error:
//!
//! ```no_run
//! use std::time::Duration;
//! use steadfast_tokio::{
//!     CallKind, ConnectionSettings, KeepaliveSettings, Settings, WaitForReady,
//! };
//!
//! # async fn run(settings: Settings) -> Result<(), Box<dyn std::error::Error>> {
//! let client = steadfast_tokio::builder(settings)
//!     .connection(ConnectionSettings {
//!         // Pings after 30 quiet seconds of a call; lost without an answer 20 s later.
//!         keepalive: Some(KeepaliveSettings::new(Duration::from_secs(30))),
//!         ..ConnectionSettings::default()
//!     })
//!     .connect()?;
//!
//! let mut request = CallKind::Unary.mark("a message");
//! request.extensions_mut().insert(WaitForReady);
//!
//! // The network is back, and somebody knows: not a second more of backoff.
//! client.transport().connect_now();
//! # Ok(())
//! # }
//! ```
//!
//! The one crate a service on tokio depends on: it brings the [`TokioHost`] that dials and
//! the [`TokioTimer`] that waits, and re-exports the rest.

mod builder;
mod host;
mod timer;

pub use self::builder::{Builder, TokioClient, around, builder, connect};
pub use self::host::TokioHost;
pub use self::timer::TokioTimer;

pub use steadfast_client::*;
pub use steadfast_h2::{
    Attempt, Channel, ConnectError, ConnectErrorKind, ConnectionSettings, DialError, Driver, Host,
    Http2Settings, KeepaliveSettings, ResponseStream, channel,
};

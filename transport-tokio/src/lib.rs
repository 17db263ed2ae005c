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
//! The one crate a service on tokio depends on: it brings the [`TokioHost`] that dials and
//! the [`TokioTimer`] that waits, and re-exports the rest.

mod builder;
mod host;
mod timer;

pub use self::builder::{Builder, TokioClient, builder, connect};
pub use self::host::TokioHost;
pub use self::timer::TokioTimer;

pub use steadfast_client::*;
pub use steadfast_h2::{
    Attempt, Channel, ConnectError, ConnectErrorKind, ConnectionSettings, DialError, Driver, Host,
    ResponseStream, channel,
};

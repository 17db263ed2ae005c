//! gRPC attempts over HTTP/2, on any byte stream.
//!
//! A connection is what many calls share, and so what they lose together. This crate keeps
//! one: dials when a call needs it, holds off after failures with gRPC's backoff, moves on
//! when the server says GOAWAY, and tells of each attempt that failed how far its request
//! got. What to do when is decided by [`steadfast_core::Connection`]; the bytes are h2's.
//!
//! It knows no runtime. [`channel`] answers a [`Channel`], which is a [`Transport`], and a
//! [`Driver`], which is a future for any executor. What the operating system does comes in
//! through a [`Host`] that dials and a [`Timer`](steadfast_core::Timer).
//!
//! The way of an attempt: [`Channel`] starts an [`Attempt`], which waits for a ready
//! connection, gives the request to h2, and answers with the response's headers and a
//! [`ResponseStream`]. A request body that is not wholly in hand is sent by the driver.
//!
//! [`Transport`]: steadfast_core::Transport

mod attempt;
mod channel;
mod driver;
mod error;
mod host;
mod http2;
mod link;
mod live;
mod pump;
mod shared;
mod tap;

pub use self::attempt::{Attempt, ResponseStream};
pub use self::channel::{Channel, channel};
pub use self::driver::Driver;
pub use self::error::{ConnectError, ConnectErrorKind};
pub use self::host::{DialError, Host};
pub use self::http2::Http2Settings;

pub use steadfast_core::{ConnectionSettings, KeepaliveSettings};

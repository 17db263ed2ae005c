//! The only way out of the process.

use std::fmt;
use std::io;

use steadfast_client::Address;
use tokio::io::{AsyncRead, AsyncWrite};

/// Dials: an address in, a byte stream out.
///
/// Nothing else in Steadfast resolves a name or opens a socket. The stream needs tokio's I/O
/// traits, which need no tokio runtime.
///
/// # Cancel safety
///
/// The dial future is dropped when an attempt takes too long or the client closes; whatever
/// it holds must be released then.
pub trait Host: Send + 'static {
    /// A connected byte stream.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Dials `address`, as written by the user.
    fn dial(
        &self,
        address: &Address,
    ) -> impl Future<Output = Result<Self::Stream, DialError>> + Send + 'static;
}

/// Why a [`Host`] has no stream to give.
#[derive(Debug)]
#[non_exhaustive]
pub enum DialError {
    /// The name could not be resolved.
    Resolve(io::Error),
    /// No address of it could be connected to.
    Connect(io::Error),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "the name can't be resolved: {error}"),
            Self::Connect(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve(error) | Self::Connect(error) => Some(error),
        }
    }
}

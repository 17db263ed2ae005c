//! What a transport hands up about one attempt.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http_body::Body;
use steadfast_core::{Progress, Transport, Unprocessed};
use tonic::{Code, Status};

use crate::outcome::Origin;
use crate::request::RequestBody;

/// An attempt that brought no gRPC answer: no connection, or a stream that was reset or cut.
///
/// A transport maps its own failures on a status (`UNAVAILABLE` for a connection that can't
/// be had, PROTOCOL-HTTP2's table for a reset) and adds what the status can't say.
#[derive(Debug)]
pub struct AttemptError {
    status: Status,
    progress: Progress,
    unprocessed: Option<Unprocessed>,
    http2_code: Option<u32>,
    origin: Origin,
}

impl AttemptError {
    /// A failure with this status; give it a source with [`Status::set_source`] beforehand.
    #[must_use]
    pub fn new(status: Status, progress: Progress) -> Self {
        Self {
            status,
            progress,
            unprocessed: None,
            http2_code: None,
            origin: Origin::Server,
        }
    }

    /// Nothing was tried, and nothing can be for at least `after`, such as while a connection
    /// backs off.
    ///
    /// It says nothing new about the server, so the breaker ignores it and the budget pays
    /// nothing: one refused connection told to a hundred calls is not a hundred failures. What
    /// is retried waits for that long, and then for the schedule's draw, so that the hundred
    /// don't come back together.
    #[must_use]
    pub fn untried(mut self, after: Duration) -> Self {
        self.origin = Origin::Untried { after };
        self
    }

    /// It is this side's doing, such as a request that can't be sent: not retried, and the
    /// breaker ignores it.
    #[must_use]
    pub fn own_fault(mut self) -> Self {
        self.origin = Origin::Own;
        self
    }

    /// Lets the client send the request again within the same attempt, as far as gRFC A6
    /// allows ("Transparent Retries").
    ///
    /// Only for a request that the server never processed. With [`Unprocessed::NotSent`] the
    /// transport promises that its next attempt waits for a connection event, so that the
    /// client can't spin.
    #[must_use]
    pub fn unprocessed(mut self, why: Unprocessed) -> Self {
        self.unprocessed = Some(why);
        self
    }

    /// Keeps the raw HTTP/2 error code.
    #[must_use]
    pub fn with_http2_code(mut self, code: u32) -> Self {
        self.http2_code = Some(code);
        self
    }

    /// The status this failure stands for.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// How far the request got.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The HTTP/2 error code of the reset or GOAWAY that ended the stream, if one did.
    #[must_use]
    pub fn http2_code(&self) -> Option<u32> {
        self.http2_code
    }

    pub(crate) fn retry_transparently(&self) -> Option<Unprocessed> {
        self.unprocessed
    }

    pub(crate) fn into_failure(self) -> Failure {
        Failure {
            status: self.status,
            progress: self.progress,
            http2_code: self.http2_code,
            origin: self.origin,
        }
    }
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (request {})", self.status.message(), self.progress)
    }
}

impl Error for AttemptError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.status.source()
    }
}

/// A failed attempt, whoever failed it: the server by its status, or the way to it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) progress: Progress,
    pub(crate) http2_code: Option<u32>,
    pub(crate) origin: Origin,
}

impl Failure {
    /// The server answered with this status, so it had the request.
    pub(crate) fn answered(status: Status) -> Self {
        Self::unanswered(status, Progress::MaybeProcessed)
    }

    /// Nothing came back by then.
    pub(crate) fn unanswered(status: Status, progress: Progress) -> Self {
        Self {
            status,
            progress,
            http2_code: None,
            origin: Origin::Server,
        }
    }
}

/// A [`Transport`] of gRPC requests: what a [`Client`](crate::Client) can be put around.
///
/// Nobody implements this trait by hand; a `Transport` with these types is one. The
/// response is the raw HTTP one: its head may be trailers-only or no gRPC at all, its body
/// ends in trailers, and the client makes a status of them.
pub trait GrpcTransport:
    Transport<
        http::Request<RequestBody>,
        Response = http::Response<<Self as GrpcTransport>::Body>,
        Error = AttemptError,
    >
{
    /// The response's body.
    type Body: Body<Data = bytes::Bytes, Error = AttemptError> + Unpin;
}

impl<T, B> GrpcTransport for T
where
    T: Transport<http::Request<RequestBody>, Response = http::Response<B>, Error = AttemptError>,
    B: Body<Data = bytes::Bytes, Error = AttemptError> + Unpin,
{
    type Body = B;
}

/// core's name for tonic's code.
pub(crate) fn core_code(code: Code) -> steadfast_core::Code {
    steadfast_core::Code::ALL[code as usize]
}

/// tonic's name for core's code.
pub(crate) fn tonic_code(code: steadfast_core::Code) -> Code {
    Code::from_i32(code as i32)
}

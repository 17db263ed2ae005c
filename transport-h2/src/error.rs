//! Why a connection or a stream failed, and the status that stands for it.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use steadfast_client::{Address, AttemptError, Progress, Unprocessed};
use steadfast_core::Code;
use tonic::Status;

use crate::host::DialError;

/// What kept a connection from being ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectErrorKind {
    /// The name could not be resolved.
    Resolve,
    /// No address could be connected to.
    Connect,
    /// The peer took the connection, and ended it or broke HTTP/2 before its SETTINGS.
    Handshake,
    /// Nothing of the above came to an end in time.
    Timeout,
}

/// A connection that could not be had. In the source chain of the status that calls fail
/// with meanwhile.
#[derive(Debug)]
pub struct ConnectError {
    address: Address,
    kind: ConnectErrorKind,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Dial(DialError),
    Http2(h2::Error),
    Ended,
    Timeout(Duration),
}

impl ConnectError {
    fn new(address: &Address, kind: ConnectErrorKind, cause: Cause) -> Arc<Self> {
        Arc::new(Self {
            address: address.clone(),
            kind,
            cause,
        })
    }

    pub(crate) fn dial(address: &Address, error: DialError) -> Arc<Self> {
        let kind = match error {
            DialError::Resolve(_) => ConnectErrorKind::Resolve,
            DialError::Connect(_) => ConnectErrorKind::Connect,
        };
        Self::new(address, kind, Cause::Dial(error))
    }

    /// The peer's connection ended before its SETTINGS; with an error or without.
    pub(crate) fn handshake(address: &Address, error: Option<h2::Error>) -> Arc<Self> {
        let cause = match error {
            Some(error) if !error.get_io().is_some_and(is_end) => Cause::Http2(error),
            _ => Cause::Ended,
        };
        Self::new(address, ConnectErrorKind::Handshake, cause)
    }

    pub(crate) fn timeout(address: &Address, after: Duration) -> Arc<Self> {
        Self::new(address, ConnectErrorKind::Timeout, Cause::Timeout(after))
    }

    /// What kept the connection from being ready.
    #[must_use]
    pub fn kind(&self) -> ConnectErrorKind {
        self.kind
    }

    /// A call's failure for want of a connection: nothing was sent.
    pub(crate) fn attempt_error(self: &Arc<Self>) -> AttemptError {
        self.with_message(self.to_string())
    }

    /// The failure of a call that comes while the connection backs off, for `after` yet.
    pub(crate) fn untried(self: &Arc<Self>, after: Duration) -> AttemptError {
        // To the millisecond, and never to zero: a text is no place for nanoseconds.
        let message = match after.as_nanos().div_ceil(1_000_000) {
            0 => self.to_string(),
            millis => format!("{self}; not dialed again for another {millis}ms"),
        };
        self.with_message(message).untried(after)
    }

    fn with_message(self: &Arc<Self>, message: String) -> AttemptError {
        let mut status = Status::unavailable(message);
        status.set_source(Arc::clone(self) as Arc<dyn Error + Send + Sync>);
        AttemptError::new(status, Progress::NotSent)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't connect to {}: ", self.address)?;
        match &self.cause {
            Cause::Dial(error) => error.fmt(f),
            Cause::Http2(error) => match error.get_io() {
                Some(io) => write!(f, "lost before the peer's SETTINGS: {io}"),
                None if error.is_go_away() && error.is_remote() => {
                    write!(f, "the peer ended the connection: {error}")
                }
                None => write!(f, "the peer does not speak HTTP/2: {error}"),
            },
            Cause::Ended => {
                f.write_str("the peer closed the connection before its HTTP/2 SETTINGS")
            }
            Cause::Timeout(after) => write!(f, "no answer within {after:?}"),
        }
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Dial(error) => Some(error),
            Cause::Http2(error) => Some(error),
            Cause::Ended | Cause::Timeout(_) => None,
        }
    }
}

/// The driver of the connection was dropped: nothing will ever be sent again.
pub(crate) fn driver_gone(address: &Address) -> AttemptError {
    let message = format!(
        "the driver of the connection to {address} is gone: its executor has ended, or it panicked"
    );
    AttemptError::new(Status::unavailable(message), Progress::NotSent).own_fault()
}

/// The client is closed.
pub(crate) fn closed() -> AttemptError {
    AttemptError::new(
        Status::cancelled("the client is closing"),
        Progress::NotSent,
    )
}

/// The connection took no new stream: the request is still whole, and may go out on the next.
pub(crate) fn not_sent(address: &Address, error: h2::Error) -> AttemptError {
    let mut status = Status::unavailable(describe(address, &error));
    status.set_source(Arc::new(error));
    AttemptError::new(status, Progress::NotSent).unprocessed(Unprocessed::NotSent)
}

/// HTTP/2 does not allow such a request: the caller's mistake.
pub(crate) fn malformed(error: &h2::Error) -> AttemptError {
    let message = format!("the request's headers can't be sent over HTTP/2: {error}");
    AttemptError::new(Status::internal(message), Progress::NotSent).own_fault()
}

/// How far a stream's request got, as the connection knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamFacts {
    pub(crate) answered: bool,
    pub(crate) written: bool,
    /// A GOAWAY said that the server will not look at it.
    pub(crate) above_goaway: bool,
    /// The connection was given up, since a ping had no answer for so long.
    pub(crate) silent: Option<Duration>,
}

impl StreamFacts {
    pub(crate) fn progress(self) -> Progress {
        match self {
            Self { answered: true, .. } => Progress::MaybeProcessed,
            Self { written: false, .. } => Progress::NotSent,
            Self {
                above_goaway: true, ..
            } => Progress::NotProcessed,
            _ => Progress::MaybeProcessed,
        }
    }
}

/// A stream failed: PROTOCOL-HTTP2's mapping of its error, and what that says about the
/// request.
pub(crate) fn stream_error(
    address: &Address,
    error: h2::Error,
    facts: StreamFacts,
) -> AttemptError {
    let reason = error.reason();
    let refused =
        error.is_reset() && error.is_remote() && reason == Some(h2::Reason::REFUSED_STREAM);
    let progress = match facts.progress() {
        // A server that has begun to answer has processed it, whatever it says then.
        Progress::MaybeProcessed if refused && !facts.answered => Progress::NotProcessed,
        progress => progress,
    };
    let code = match reason {
        Some(reason) if error.is_reset() => Code::from_http2_error(reason.into()),
        // The connection is lost, whoever ended it.
        _ => Code::Unavailable,
    };
    let code = tonic::Code::from_i32(code as i32);
    let message = match facts.silent {
        Some(timeout) => format!(
            "the connection to {address} was lost: a keepalive ping had no answer within {timeout:?}"
        ),
        None => describe(address, &error),
    };
    let mut status = Status::new(code, message);
    status.set_source(Arc::new(error));
    let mut failure = AttemptError::new(status, progress);
    failure = match progress {
        Progress::NotSent => failure.unprocessed(Unprocessed::NotSent),
        // A connection that was ended for what was sent on it would be ended again.
        Progress::NotProcessed if refused || reason == Some(h2::Reason::NO_ERROR) => {
            failure.unprocessed(Unprocessed::Refused)
        }
        Progress::NotProcessed => failure,
        Progress::MaybeProcessed => failure,
    };
    if let Some(reason) = reason {
        failure = failure.with_http2_code(reason.into());
    }
    failure
}

fn describe(address: &Address, error: &h2::Error) -> String {
    if let Some(io) = error.get_io() {
        return format!("the connection to {address} was lost: {}", io_text(io));
    }
    let by = if error.is_remote() {
        "by the server"
    } else {
        "here"
    };
    match error.reason() {
        Some(reason) if error.is_reset() => format!(
            "the stream to {address} was reset {by} with {} ({:#x})",
            reason_name(reason),
            u32::from(reason)
        ),
        Some(reason) if error.is_go_away() => format!(
            "the connection to {address} was ended {by} with {} ({:#x})",
            reason_name(reason),
            u32::from(reason)
        ),
        _ => format!("the connection to {address} failed: {error}"),
    }
}

fn io_text(error: &io::Error) -> String {
    if is_end(error) {
        "the peer closed it".to_owned()
    } else {
        error.to_string()
    }
}

/// Whether the peer just closed: h2 makes a broken pipe of an end of file.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    )
}

/// The names of RFC 9113, section 7.
fn reason_name(reason: h2::Reason) -> &'static str {
    match reason {
        h2::Reason::NO_ERROR => "NO_ERROR",
        h2::Reason::PROTOCOL_ERROR => "PROTOCOL_ERROR",
        h2::Reason::INTERNAL_ERROR => "INTERNAL_ERROR",
        h2::Reason::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
        h2::Reason::SETTINGS_TIMEOUT => "SETTINGS_TIMEOUT",
        h2::Reason::STREAM_CLOSED => "STREAM_CLOSED",
        h2::Reason::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
        h2::Reason::REFUSED_STREAM => "REFUSED_STREAM",
        h2::Reason::CANCEL => "CANCEL",
        h2::Reason::COMPRESSION_ERROR => "COMPRESSION_ERROR",
        h2::Reason::CONNECT_ERROR => "CONNECT_ERROR",
        h2::Reason::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
        h2::Reason::INADEQUATE_SECURITY => "INADEQUATE_SECURITY",
        h2::Reason::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
        _ => "an unknown code",
    }
}

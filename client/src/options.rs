//! What a caller may ask for one call: its kind, its deadline, how much may be replayed.
//!
//! Generated code doesn't say whether a call is unary or a stream, and it matters: a unary
//! call's `timeout` covers all of it, a stream's must not. Tell it for all calls with the
//! services' descriptors (a [`MethodTable`]), or for one with a request extension, which
//! [`CallKind::mark`] sets.

use std::time::Duration;

use http::HeaderName;
use steadfast_core::{Instant, TIMEOUT_HEADER, decode_timeout};
use tonic::{GrpcMethod, Status};

use crate::methods::MethodTable;

pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static(TIMEOUT_HEADER);

/// A request extension: what kind of call this is.
///
/// It counts before the client's [`MethodTable`]. Without either the kind is unknown: `timeout` then runs until the response headers, and
/// only a deadline of the caller's is told to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// One request, one response: `timeout` covers the whole call, and the response is held
    /// until its trailers, so that a failure after the headers can still be retried.
    Unary,
    /// A stream in either direction, or both: `timeout` doesn't apply.
    Streaming,
}

impl CallKind {
    /// Marks a request as one of this kind.
    ///
    /// ```
    /// use steadfast_client::CallKind;
    ///
    /// let request = CallKind::Unary.mark("a message, or a tonic::Request of one");
    /// assert_eq!(request.extensions().get(), Some(&CallKind::Unary));
    /// ```
    pub fn mark<M>(self, request: impl tonic::IntoRequest<M>) -> tonic::Request<M> {
        let mut request = request.into_request();
        request.extensions_mut().insert(self);
        request
    }
}

/// A request extension: the call must be over by then, by the clock of the client's timer
/// ([`Client::now`](crate::Client::now)).
///
/// The earlier of this, a `grpc-timeout` set on the request, and, for a unary call, the
/// client's `timeout` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(pub Instant);

/// A request extension: how many bytes of this call's request, and of a unary call's
/// response, may be kept so that it can be retried. Default 256 KiB.
///
/// A larger request is sent once, as it comes; zero makes every call with a message such a
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplayLimit(pub usize);

impl Default for ReplayLimit {
    fn default() -> Self {
        Self(256 * 1024)
    }
}

/// A request extension, and the transport's: the call waits for a connection until its
/// deadline, also while connecting fails, where it would otherwise fail with the last
/// connection error.
///
/// For a job that has time. Give it a deadline: without one, a call to a server that never
/// comes waits for ever.
///
/// ```
/// use steadfast_client::{CallKind, WaitForReady};
///
/// let mut request = CallKind::Unary.mark("a message");
/// request.extensions_mut().insert(WaitForReady);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitForReady;

/// What one call's request asks of the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallOptions {
    pub(crate) kind: Option<CallKind>,
    /// Until the call has succeeded, or its stream has opened.
    pub(crate) opening: Option<Instant>,
    /// The caller's own deadline, which an open stream keeps.
    pub(crate) caller: Option<Instant>,
    pub(crate) replay_limit: ReplayLimit,
}

impl CallOptions {
    /// Takes them out of a request that starts `now`: they are the client's, no transport's.
    ///
    /// # Errors
    ///
    /// INVALID_ARGUMENT for a `grpc-timeout` that isn't one.
    pub(crate) fn take<B>(
        request: &mut http::Request<B>,
        methods: &MethodTable,
        timeout: Duration,
        now: Instant,
    ) -> Result<Self, Status> {
        // Asking for a header by its hash costs more than a look at the few there are.
        let told = request.headers().keys().any(|name| *name == TIMEOUT);
        let header = match told
            .then(|| request.headers_mut().remove(TIMEOUT))
            .flatten()
        {
            None => None,
            Some(value) => Some(decode_timeout(value.as_bytes()).map_err(|invalid| {
                Status::invalid_argument(format!("{TIMEOUT_HEADER} {value:?} {invalid}"))
            })?),
        };
        let extensions = request.extensions_mut();
        let (mut kind, mut deadline, mut limit) = (None, None, None);
        // Almost every request has tonic's own extension and no other.
        let tonics = usize::from(extensions.get::<GrpcMethod<'static>>().is_some());
        if extensions.len() > tonics {
            kind = extensions.remove::<CallKind>();
            deadline = extensions.remove::<Deadline>().map(|deadline| deadline.0);
            limit = extensions.remove::<ReplayLimit>();
        }
        let kind = kind.or_else(|| methods.kind(request.uri().path()));
        let caller = earlier(header.map(|timeout| now.saturating_add(timeout)), deadline);
        let opening = match kind {
            Some(CallKind::Streaming) => caller,
            Some(CallKind::Unary) | None => earlier(caller, Some(now.saturating_add(timeout))),
        };
        Ok(Self {
            kind,
            opening,
            caller,
            replay_limit: limit.unwrap_or_default(),
        })
    }

    /// The deadline that the server is told: the whole call's. An unknown kind may be a
    /// stream, which `timeout` must not end.
    pub(crate) fn told(&self) -> Option<Instant> {
        match self.kind {
            Some(_) => self.opening,
            None => self.caller,
        }
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

//! A request that can be sent more than once.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use http::uri::PathAndQuery;
use http::{Extensions, Method, Uri, Version, request};
use http_body::{Body, Frame, SizeHint};
use tonic::{GrpcMethod, Status};

use crate::options::{ReplayLimit, TIMEOUT};

const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

/// Message bytes in hand, one chunk in almost every call.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    first: Option<Bytes>,
    #[allow(
        clippy::box_collection,
        reason = "seldom there, and carried about by every call"
    )]
    rest: Option<Box<VecDeque<Bytes>>>,
}

impl Chunks {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if self.first.is_none() && self.rest.is_none() {
            self.first = Some(chunk);
        } else {
            self.rest.get_or_insert_default().push_back(chunk);
        }
    }

    /// Bytes in all.
    #[must_use]
    pub fn len(&self) -> usize {
        let rest = self.rest.iter().flat_map(|rest| rest.iter());
        self.first.iter().chain(rest).map(Bytes::len).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.first
            .take()
            .or_else(|| self.rest.as_mut()?.pop_front())
    }
}

/// The body of one attempt's request.
///
/// An [`http_body::Body`] for a transport that streams; one that can take a request wholly
/// in hand asks [`take_whole`](Self::take_whole) first.
#[derive(Debug, Default)]
pub struct RequestBody {
    chunks: Chunks,
    rest: Option<tonic::body::Body>,
}

impl RequestBody {
    /// The whole request, if it is in hand: nothing needs to be awaited to send it.
    ///
    /// Leaves the body empty. `None` for a stream, which is left as it is.
    pub fn take_whole(&mut self) -> Option<Chunks> {
        self.rest
            .is_none()
            .then(|| std::mem::take(&mut self.chunks))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(chunk) = self.chunks.next() {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            None => SizeHint::with_exact(self.chunks.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

/// A request's headers, kept for later attempts: those that every gRPC request has are not
/// worth a list.
enum Headers {
    Plain,
    List(Vec<(HeaderName, HeaderValue)>),
}

impl Headers {
    const PLAIN: [(HeaderName, HeaderValue); 2] = [
        (TE, HeaderValue::from_static("trailers")),
        (CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
    ];

    fn keep(headers: &HeaderMap) -> Self {
        let plain = Self::PLAIN;
        let is_plain = headers.len() == plain.len()
            && headers
                .iter()
                .all(|(name, value)| plain.iter().any(|own| own.0 == name && own.1 == value));
        if is_plain {
            return Self::Plain;
        }
        let mut list = Vec::with_capacity(headers.len());
        list.extend(
            headers
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        Self::List(list)
    }

    fn restore(&self) -> HeaderMap {
        match self {
            Self::Plain => Self::PLAIN.into_iter().collect(),
            Self::List(list) => list.iter().cloned().collect(),
        }
    }
}

/// A request's extensions, kept for later attempts. Almost every request has tonic's own
/// and no other, which costs nothing to keep; a map with others is cloned.
enum Kept {
    Method(Option<GrpcMethod<'static>>),
    All(Extensions),
}

impl Kept {
    fn new(extensions: &Extensions) -> Self {
        let method = extensions.get::<GrpcMethod<'static>>();
        match (method, extensions.len()) {
            (None, 0) | (Some(_), 1) => Self::Method(method.cloned()),
            _ => Self::All(extensions.clone()),
        }
    }

    fn restore(&self) -> Extensions {
        let mut extensions = Extensions::new();
        match self {
            Self::Method(None) => {}
            Self::Method(Some(method)) => {
                extensions.insert(method.clone());
            }
            Self::All(all) => extensions.clone_from(all),
        }
        extensions
    }
}

/// One call's request, from which each attempt gets its own.
///
/// The caller's own header map and extensions go out with the first attempt; what a later
/// one needs is kept beside them, so that a call which succeeds at once pays for no second
/// map.
pub(crate) struct Replay {
    uri: Uri,
    first: Option<request::Parts>,
    headers: Headers,
    extensions: Kept,
    chunks: Chunks,
    /// The part of a stream that was not in hand; it goes out once.
    rest: Option<tonic::body::Body>,
    replayable: bool,
}

impl Replay {
    /// Takes a request apart, and of its body what is there without waiting.
    ///
    /// # Errors
    ///
    /// The status that the body failed with; nothing was sent then.
    pub(crate) fn gather(
        request: http::Request<tonic::body::Body>,
        limit: ReplayLimit,
        cx: &mut Context<'_>,
    ) -> Result<Self, Status> {
        let (parts, mut body) = request.into_parts();
        let mut chunks = Chunks::default();
        let whole = gather_body(&mut body, &mut chunks, limit, cx)?;
        Ok(Self {
            uri: parts.uri.clone(),
            headers: Headers::Plain,
            extensions: Kept::new(&parts.extensions),
            first: Some(parts),
            chunks,
            rest: (!whole).then_some(body),
            replayable: whole,
        })
    }

    /// The method's path.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    pub(crate) fn path_and_query(&self) -> PathAndQuery {
        let path = self.uri.path_and_query().cloned();
        path.unwrap_or_else(|| PathAndQuery::from_static("/"))
    }

    /// Whether the request can be sent again.
    pub(crate) fn is_replayable(&self) -> bool {
        self.replayable
    }

    /// The request of attempt `number`, whose server is told `timeout`.
    pub(crate) fn attempt(
        &mut self,
        number: u32,
        timeout: Option<HeaderValue>,
    ) -> http::Request<RequestBody> {
        let mut parts = match self.first.take() {
            Some(parts) => {
                if self.replayable {
                    self.headers = Headers::keep(&parts.headers);
                }
                parts
            }
            None => self.parts(),
        };
        if let Some(timeout) = timeout {
            parts.headers.insert(TIMEOUT, timeout);
        }
        if number > 1 {
            let previous = HeaderValue::from(number - 1);
            parts.headers.insert(PREVIOUS_ATTEMPTS, previous);
        }
        let body = RequestBody {
            chunks: if self.replayable {
                self.chunks.clone()
            } else {
                std::mem::take(&mut self.chunks)
            },
            rest: self.rest.take(),
        };
        http::Request::from_parts(parts, body)
    }

    /// The head of the request once more.
    fn parts(&self) -> request::Parts {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.method = Method::POST;
        parts.version = Version::HTTP_2;
        parts.uri = self.uri.clone();
        parts.headers = self.headers.restore();
        parts.extensions = self.extensions.restore();
        parts
    }
}

/// Reads the body until it ends (`true`), makes the client wait, or outgrows the limit.
fn gather_body(
    body: &mut tonic::body::Body,
    chunks: &mut Chunks,
    limit: ReplayLimit,
    cx: &mut Context<'_>,
) -> Result<bool, Status> {
    let mut size = 0;
    loop {
        match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                // A gRPC request has no trailers; tonic makes none.
                if let Ok(data) = frame.into_data() {
                    size += data.len();
                    // h2 servers end a connection over too many empty frames.
                    if !data.is_empty() {
                        chunks.push(data);
                    }
                }
                if size > limit.0 {
                    return Ok(false);
                }
            }
            Poll::Ready(Some(Err(status))) => return Err(status),
            Poll::Ready(None) => return Ok(true),
            Poll::Pending => return Ok(false),
        }
    }
}

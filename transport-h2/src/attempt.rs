//! One attempt: a stream of the connection, from its HEADERS to the response's.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::header::{HeaderValue, USER_AGENT};
use http::uri::{PathAndQuery, Scheme};
use http::{Extensions, Uri, Version};
use http_body::{Body, Frame};
use steadfast_client::{Address, AttemptError, Chunks, Progress, RequestBody, Timer, WaitForReady};

use crate::error::stream_error;
use crate::live::{Place, StreamGuard};
use crate::pump::{Pump, PumpGuard};
use crate::shared::{Shared, Waiter};

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("grpc-rust-steadfast/", env!("CARGO_PKG_VERSION")));

/// An attempt under way.
///
/// Cancel safe: dropping it leaves the queue for a connection, or resets the stream with
/// CANCEL.
#[must_use = "futures do nothing unless polled"]
pub struct Attempt<C: Timer> {
    step: Step<C>,
}

enum Step<C: Timer> {
    /// Waits for a connection that takes streams.
    Connecting(Box<Connecting<C>>),
    /// The request is h2's; waits for the response's headers.
    Sent {
        response: ResponseFuture,
        stream: Option<Stream<C>>,
    },
    /// The connection broke as the request was given to it.
    Failed(Option<AttemptError>),
}

/// Boxed, so that an attempt which finds a ready connection carries no request about.
struct Connecting<C: Timer> {
    waiter: Waiter<C>,
    request: Request,
}

/// A request as h2 takes it.
struct Request {
    /// Taken when it is sent.
    head: Option<http::Request<()>>,
    /// The body, if it is wholly in hand.
    whole: Option<Chunks>,
    body: RequestBody,
    /// Waits for a connection through failures, too.
    for_ready: bool,
}

/// What belongs to one stream as long as somebody waits for its response.
struct Stream<C: Timer> {
    guard: StreamGuard<C>,
    upload: Upload,
}

/// Who sends the request's body.
enum Upload {
    /// h2, which has all of it.
    Given(SendStream<Bytes>),
    /// The driver, piece by piece.
    Pumped(PumpGuard),
}

impl<C: Timer> Attempt<C> {
    pub(crate) fn new(shared: &Arc<Shared<C>>, request: http::Request<RequestBody>) -> Self {
        let mut request = Request::new(request, &shared.address);
        let step = Step::send(shared, None, &mut request).unwrap_or_else(|| {
            Step::Connecting(Box::new(Connecting {
                waiter: Waiter::new(Arc::clone(shared), request.for_ready),
                request,
            }))
        });
        Self { step }
    }

    /// Why it has not been sent yet, if that is known.
    pub(crate) fn obstacle(&self) -> Option<AttemptError> {
        match &self.step {
            Step::Connecting(connecting) => connecting.waiter.obstacle(),
            Step::Sent { .. } | Step::Failed(_) => None,
        }
    }

    /// How far the request has got.
    pub(crate) fn progress(&self) -> Progress {
        match &self.step {
            Step::Sent {
                stream: Some(stream),
                ..
            } => stream.guard.facts().progress(),
            Step::Sent { stream: None, .. } => Progress::MaybeProcessed,
            Step::Connecting(_) | Step::Failed(_) => Progress::NotSent,
        }
    }
}

impl<C: Timer> Step<C> {
    /// Gives the request to h2, which queues it without waiting. `None`, and the request is
    /// whole, if there is no connection that takes streams.
    fn send(
        shared: &Arc<Shared<C>>,
        place: Option<Place<C>>,
        request: &mut Request,
    ) -> Option<Self> {
        let empty = request.whole.as_ref().is_some_and(Chunks::is_empty);
        let opened = match shared.open_stream(place, &mut request.head, empty) {
            Ok(opened) => opened?,
            Err(error) => return Some(Self::Failed(Some(error))),
        };
        let (response, mut stream, guard) = opened;
        let upload = match request.whole.take() {
            // It is kept in memory anyway: h2 may hold it until it can go out. A stream that
            // has failed by now says so through the response.
            Some(chunks) => {
                let mut chunks = chunks.peekable();
                while let Some(chunk) = chunks.next() {
                    let _ = stream.send_data(chunk, chunks.peek().is_none());
                }
                Upload::Given(stream)
            }
            None => {
                let (pump, guard) = Pump::new(std::mem::take(&mut request.body), stream);
                shared.send(pump);
                Upload::Pumped(guard)
            }
        };
        let stream = Stream { guard, upload };
        Some(Self::Sent {
            response,
            stream: Some(stream),
        })
    }
}

impl Request {
    fn new(request: http::Request<RequestBody>, address: &Address) -> Self {
        let (mut parts, mut body) = request.into_parts();
        parts.uri = absolute(parts.uri, address);
        parts.version = Version::HTTP_2;
        parts.headers.entry(USER_AGENT).or_insert(AGENT);
        let for_ready = parts.extensions.get::<WaitForReady>().is_some();
        // h2 has no use for them, and would hold them until the stream ends.
        parts.extensions = Extensions::new();
        Self {
            head: Some(http::Request::from_parts(parts, ())),
            whole: body.take_whole(),
            body,
            for_ready,
        }
    }
}

impl<C: Timer> Future for Attempt<C> {
    type Output = Result<http::Response<ResponseStream<C>>, AttemptError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut self.step {
                Step::Connecting(connecting) => {
                    let Connecting { waiter, request } = &mut **connecting;
                    let sent = waiter
                        .poll_open(cx, |shared, place| Step::send(shared, Some(place), request));
                    self.step = ready!(sent)?;
                }
                Step::Sent { response, stream } => {
                    let answer = ready!(Pin::new(response).poll(cx));
                    let mut stream = stream.take().expect("polled after it ended");
                    return Poll::Ready(match answer {
                        Ok(response) => {
                            stream.guard.on_answer();
                            Ok(response.map(|body| ResponseStream {
                                body,
                                ended: false,
                                stream,
                            }))
                        }
                        Err(error) => Err(stream.error(error)),
                    });
                }
                Step::Failed(error) => {
                    return Poll::Ready(Err(error.take().expect("polled after it ended")));
                }
            }
        }
    }
}

/// The request's target with the connection's scheme and authority.
fn absolute(uri: Uri, address: &Address) -> Uri {
    let mut parts = uri.into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(address.authority().clone());
    parts
        .path_and_query
        .get_or_insert_with(|| PathAndQuery::from_static("/"));
    Uri::from_parts(parts).expect("a scheme, an authority and a path make a URI")
}

impl<C: Timer> Stream<C> {
    fn error(&self, error: h2::Error) -> AttemptError {
        if let Upload::Pumped(pump) = &self.upload
            && let Some(status) = pump.body_failure()
        {
            // The caller's doing, whatever the server makes of it.
            return AttemptError::new(status, self.guard.facts().progress()).own_fault();
        }
        stream_error(self.guard.address(), error, self.guard.facts())
    }

    /// The response has ended. What of the request has not left by then never needs to: h2
    /// would hold it until the peer gives window for it, and some never do.
    fn end(&mut self) {
        if let Upload::Given(stream) = &mut self.upload
            && !self.guard.request_left()
        {
            stream.send_reset(Reason::CANCEL);
        }
    }
}

/// The body of a response, as it comes from the connection.
///
/// Cancel safe: dropping it resets a stream that has not ended, and gives back the
/// connection's window for what was not read.
pub struct ResponseStream<C: Timer> {
    body: RecvStream,
    /// The trailers came, or the end without them, or an error.
    ended: bool,
    stream: Stream<C>,
}

impl<C: Timer> Body for ResponseStream<C> {
    type Data = Bytes;
    type Error = AttemptError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AttemptError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let result = match ready!(self.body.poll_data(cx)) {
            Some(Ok(data)) => {
                // The caller has it now: the peer may send as much again.
                let _ = self.body.flow_control().release_capacity(data.len());
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            Some(Err(error)) => Err(error),
            None => ready!(self.body.poll_trailers(cx)),
        };
        self.ended = true;
        self.stream.end();
        Poll::Ready(match result {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => Some(Err(self.stream.error(error))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }
}

impl<C: Timer> Drop for ResponseStream<C> {
    fn drop(&mut self) {
        // One that has not ended is reset by h2 as the handles to it go.
        if !self.ended && self.body.is_end_stream() {
            self.stream.end();
        }
    }
}

impl<C: Timer> fmt::Debug for ResponseStream<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<C: Timer> fmt::Debug for Attempt<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.step {
            Step::Connecting(_) => "Attempt(connecting)",
            Step::Sent { .. } => "Attempt(sent)",
            Step::Failed(_) => "Attempt(failed)",
        })
    }
}

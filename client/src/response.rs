//! The response that a caller reads: held whole, or an open stream whose end settles the
//! breaker.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::uri::PathAndQuery;
use http_body::{Body, Frame};
use steadfast_core::{BreakerOutcome, Classification, End, Instant, Ticket, Timer, WaitReason};
use tonic::{Code, Status};

use crate::attempt::{AttemptError, Failure};
use crate::messages::MessageCount;
use crate::outcome::Outcome;
use crate::report::{AttemptReport, CallReport};
use crate::request::Chunks;
use crate::shared::Shared;
use crate::sleeper::Sleeper;
use crate::status;

/// A unary response on its way, held until its trailers say whether it counts.
pub(crate) struct Held<B> {
    pub(crate) parts: http::response::Parts,
    pub(crate) body: B,
    pub(crate) chunks: Chunks,
    size: usize,
    limit: usize,
    pub(crate) messages: MessageCount,
}

/// How holding a response ended.
pub(crate) enum HeldEnd {
    /// With an OK, and exactly one message.
    Succeeded(HeaderMap),
    /// By the server's status, or by what it sent instead of one message and a status.
    Failed(Status),
    /// Below gRPC: the stream broke.
    Broken(AttemptError),
    /// It is larger than may be held.
    Outgrown,
}

impl<B> Held<B>
where
    B: Body<Data = Bytes, Error = AttemptError> + Unpin,
{
    pub(crate) fn new(parts: http::response::Parts, body: B, limit: usize) -> Self {
        Self {
            parts,
            body,
            chunks: Chunks::default(),
            size: 0,
            limit,
            messages: MessageCount::default(),
        }
    }

    /// Reads on until the response is decided.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<HeldEnd> {
        loop {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(HeldEnd::Failed(status::missing())),
                Some(Err(error)) => return Poll::Ready(HeldEnd::Broken(error)),
                Some(Ok(frame)) => frame,
            };
            match frame.into_data() {
                Ok(data) => {
                    self.messages.push(&data);
                    self.size += data.len();
                    self.chunks.push(data);
                    if self.messages.begun() > 1 {
                        return Poll::Ready(HeldEnd::Failed(more_than_one_message()));
                    }
                    if self.size > self.limit {
                        return Poll::Ready(HeldEnd::Outgrown);
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return Poll::Ready(self.judge(trailers));
                }
            }
        }
    }

    fn judge(&self, trailers: HeaderMap) -> HeldEnd {
        match status::read_trailers(&trailers) {
            None => HeldEnd::Failed(status::missing()),
            Some(Err(status)) => HeldEnd::Failed(status),
            Some(Ok(())) => match one_message(&self.messages) {
                Ok(()) => HeldEnd::Succeeded(trailers),
                Err(status) => HeldEnd::Failed(status),
            },
        }
    }
}

/// An OK without a message, which a unary call can't be answered with.
pub(crate) fn no_message() -> Status {
    wrong_number_of_messages("none")
}

fn more_than_one_message() -> Status {
    wrong_number_of_messages("more than one")
}

/// Whether a unary response that ends here is one message.
fn one_message(messages: &MessageCount) -> Result<(), Status> {
    match messages.begun() {
        0 => Err(no_message()),
        1 if messages.is_complete() => Ok(()),
        1 => Err(wrong_number_of_messages("a part of one")),
        _ => Err(more_than_one_message()),
    }
}

fn wrong_number_of_messages(sent: &str) -> Status {
    Status::internal(format!(
        "a unary call is answered with one message; the server sent {sent}"
    ))
}

/// The body of a response.
///
/// A unary call's is complete when the caller gets it. A stream's is passed on as it comes;
/// its end, or its drop, settles the breaker.
pub struct ResponseBody<B, C: Timer> {
    chunks: Chunks,
    trailers: Option<HeaderMap>,
    /// Boxed once, since the body is moved about many times before it is read.
    stream: Option<Box<Open<B, C>>>,
}

impl<B, C: Timer> ResponseBody<B, C> {
    /// A response wholly in hand.
    pub(crate) fn whole(chunks: Chunks, mut trailers: HeaderMap) -> Self {
        status::mend_ok_trailers(&mut trailers);
        Self {
            chunks,
            trailers: Some(trailers),
            stream: None,
        }
    }

    /// A trailers-only OK: its status stands in the headers.
    pub(crate) fn empty() -> Self {
        Self {
            chunks: Chunks::default(),
            trailers: None,
            stream: None,
        }
    }

    /// An open stream, of which `chunks` have already come.
    pub(crate) fn open(chunks: Chunks, body: B, call: OpenCall<C>) -> Self {
        Self {
            chunks,
            trailers: None,
            stream: Some(Box::new(Open {
                body,
                call,
                deadline: None,
            })),
        }
    }
}

struct Open<B, C: Timer> {
    body: B,
    call: OpenCall<C>,
    /// The wait for the deadline, once a stream that has one makes its caller wait.
    deadline: Option<Pin<Box<Sleeper<C::Sleep>>>>,
}

/// What an open stream keeps of its call. Dropping it is the caller leaving.
pub(crate) struct OpenCall<C: Timer> {
    pub(crate) shared: Arc<Shared<C>>,
    pub(crate) path: PathAndQuery,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) deadline: Option<Instant>,
    /// Attempts that failed before the one that opened.
    pub(crate) earlier: Vec<AttemptReport>,
    /// When that one began, and what it had waited for.
    pub(crate) attempt: AttemptStart,
    /// Of a unary call, whose response must be one message.
    pub(crate) messages: Option<MessageCount>,
}

/// When an attempt began, and what it had waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptStart {
    pub(crate) at: Instant,
    pub(crate) waited: Duration,
    pub(crate) wait_reason: Option<WaitReason>,
}

impl AttemptStart {
    /// The report of the attempt, failed `now`.
    pub(crate) fn report(&self, failure: &Failure, now: Instant) -> AttemptReport {
        AttemptReport {
            code: failure.status.code(),
            message: failure.status.message().to_owned(),
            wait_reason: self.wait_reason,
            waited: self.waited,
            took: now.saturating_since(self.at),
            progress: failure.progress,
            http2_code: failure.http2_code,
        }
    }
}

impl<C: Timer> OpenCall<C> {
    /// More of the response came: whether it may be passed on. A stream that is read slowly
    /// ends at its deadline too, though it never makes its caller wait.
    fn take_data(&mut self, data: &Bytes) -> Result<(), Status> {
        if let Some(deadline) = self.deadline {
            let now = self.shared.timer.now();
            if now >= deadline {
                return Err(self.expired(now));
            }
        }
        match &mut self.messages {
            None => Ok(()),
            Some(messages) => {
                messages.push(data);
                match messages.begun() {
                    0 | 1 => Ok(()),
                    _ => Err(self.failed(Failure::answered(more_than_one_message()))),
                }
            }
        }
    }

    fn succeeded(&mut self, trailers: &HeaderMap) {
        let outcome = Outcome::succeeded(self.path.path(), trailers);
        let judged = self.shared.classify.judge(&outcome);
        let quiet = judged == Classification::SUCCESS;
        self.settle(judged.breaker, quiet.then_some(self.attempt.at));
    }

    /// The stream ended with a failure: the status that the caller gets for it.
    fn failed(&mut self, failure: Failure) -> Status {
        let now = self.shared.timer.now();
        let expired = self.deadline.is_some_and(|deadline| now >= deadline);
        if expired && failure.status.code() == Code::Cancelled {
            return self.expired(now);
        }
        let outcome = Outcome::failed(self.path.path(), &failure);
        let judged = self.shared.classify.judge(&outcome);
        self.settle(judged.breaker, None);
        let mut attempts = std::mem::take(&mut self.earlier);
        attempts.push(self.attempt.report(&failure, now));
        CallReport::attach(
            failure.status.clone(),
            attempts,
            End::Opened,
            Some(failure.status),
        )
    }

    fn expired(&mut self, now: Instant) -> Status {
        self.settle(BreakerOutcome::Failure, None);
        let status = Status::deadline_exceeded("the deadline passed while the stream was open");
        let mut attempts = std::mem::take(&mut self.earlier);
        attempts.push(self.attempt.report(&Failure::answered(status.clone()), now));
        CallReport::attach(status, attempts, End::Expired, None)
    }

    fn settle(&mut self, outcome: BreakerOutcome, quiet: Option<Instant>) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.protect(|protection| {
                let now = self.shared.time_to_settle(protection, quiet);
                protection.breaker.settle(ticket, outcome, now);
            });
        }
    }
}

impl<C: Timer> Drop for OpenCall<C> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            in_drop(|| self.settle(BreakerOutcome::Ignored, None));
        }
    }
}

/// A breaker's policy or its listener may panic in here. Beside another panic that would abort
/// the process, so the first one alone is passed on.
pub(crate) fn in_drop(work: impl FnOnce()) {
    if std::thread::panicking() {
        // Its payload's drop may panic just as well.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            std::mem::forget(payload);
        }
    } else {
        work();
    }
}

impl<B, C> Body for ResponseBody<B, C>
where
    B: Body<Data = Bytes, Error = AttemptError> + Unpin,
    C: Timer,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if let Some(chunk) = this.chunks.next() {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        let Some(open) = &mut this.stream else {
            return Poll::Ready(
                this.trailers
                    .take()
                    .map(|trailers| Ok(Frame::trailers(trailers))),
            );
        };
        let Open {
            body,
            call,
            deadline,
        } = &mut **open;
        let end = match Pin::new(body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => match call.take_data(&data) {
                    Ok(()) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Err(status) => Err(status),
                },
                Err(frame) => read_end(frame.into_trailers().unwrap_or_default(), call),
            },
            Poll::Ready(Some(Err(error))) => Err(call.failed(error.into_failure())),
            Poll::Ready(None) => Err(call.failed(Failure::answered(status::missing()))),
            Poll::Pending => {
                let Some(until) = call.deadline else {
                    return Poll::Pending;
                };
                let sleeper = deadline.get_or_insert_with(|| Box::pin(Sleeper::new()));
                let now = ready!(sleeper.as_mut().poll_until(until, &call.shared.timer, cx));
                Err(call.expired(now))
            }
        };
        // Dropping the body resets a stream that the server has not ended.
        this.stream = None;
        Poll::Ready(Some(end))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none() && self.trailers.is_none() && self.chunks.is_empty()
    }
}

fn read_end<C: Timer>(
    mut trailers: HeaderMap,
    call: &mut OpenCall<C>,
) -> Result<Frame<Bytes>, Status> {
    match status::read_trailers(&trailers) {
        None => Err(call.failed(Failure::answered(status::missing()))),
        Some(Err(status)) => Err(call.failed(Failure::answered(status))),
        Some(Ok(())) => {
            if let Some(Err(status)) = call.messages.as_ref().map(one_message) {
                return Err(call.failed(Failure::answered(status)));
            }
            call.succeeded(&trailers);
            status::mend_ok_trailers(&mut trailers);
            Ok(Frame::trailers(trailers))
        }
    }
}

impl<B, C: Timer> Default for ResponseBody<B, C> {
    /// An empty body, as tonic's interceptors make one.
    fn default() -> Self {
        Self::empty()
    }
}

impl<B, C: Timer> fmt::Debug for ResponseBody<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody")
            .field("open", &self.stream.is_some())
            .finish_non_exhaustive()
    }
}

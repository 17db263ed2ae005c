//! One call, driven: asks the machine what to do, and does it.
//!
//! The way of a call: [`CallFuture`] takes the request apart ([`Replay::gather`]), the
//! breaker admits it, an attempt goes through the transport, its result is judged once, and
//! the machine answers with another attempt, a wait, or the end.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, response};
use http_body::Body as _;
use pin_project_lite::pin_project;
use steadfast_core::{
    Call, Classification, End, Instant, Next, Progress, Random, SeededRandom, Timer, WaitReason,
};
use tonic::{Code, Status};

use crate::attempt::{AttemptError, Failure, GrpcTransport, core_code};
use crate::client::Inner;
use crate::messages::MessageCount;
use crate::options::{CallKind, CallOptions};
use crate::outcome::Outcome;
use crate::report::{AttemptReport, CallReport};
use crate::request::{Chunks, Replay, RequestBody};
use crate::response::{AttemptStart, Held, HeldEnd, OpenCall, ResponseBody, in_drop, no_message};
use crate::shared::Shared;
use crate::sleeper::Sleeper;
use crate::status::{self, Head};

/// What a call of this transport and timer is answered with.
pub type CallResponse<T, C> = http::Response<ResponseBody<<T as GrpcTransport>::Body, C>>;

pin_project! {
    /// A call under way.
    ///
    /// Nothing happens before the first poll. Cancel safe: dropping it gives the call up; an
    /// attempt on the wire is reset, and the breaker ignores it.
    #[must_use = "futures do nothing unless polled"]
    pub struct CallFuture<T, C>
    where
        T: GrpcTransport,
        C: Timer,
    {
        new: Option<(Arc<Inner<T, C>>, http::Request<tonic::body::Body>)>,
        // Boxed, since generated code moves the future about before it is polled.
        flight: Option<Box<Flight<T, C>>>,
        #[pin]
        step: Step<T::Future, T::Body>,
        #[pin]
        sleeper: Sleeper<C::Sleep>,
    }
}

pin_project! {
    #[project = StepProj]
    #[project_ref = StepRef]
    enum Step<F, B> {
        /// Between attempts, before the first and after the last.
        Waiting,
        /// An attempt is with the transport.
        Attempting { #[pin] attempt: F },
        /// The response of a unary call is being held until its trailers.
        Holding { held: Option<Held<B>> },
    }
}

impl<T: GrpcTransport, C: Timer> CallFuture<T, C> {
    pub(crate) fn new(client: Arc<Inner<T, C>>, request: http::Request<tonic::body::Body>) -> Self {
        Self {
            new: Some((client, request)),
            flight: None,
            step: Step::Waiting,
            sleeper: Sleeper::new(),
        }
    }
}

impl<T: GrpcTransport, C: Timer> Future for CallFuture<T, C> {
    type Output = Result<CallResponse<T, C>, Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let started = match this.new.take() {
            None => None,
            Some((client, request)) => {
                let flight = this.flight.insert(Flight::new(client, request, cx)?);
                Some(flight.start())
            }
        };
        let flight = this.flight.as_mut().expect("polled after the call ended");
        let mut act = match started {
            Some(act) => act,
            None => ready!(poll_step(
                flight,
                this.step.as_mut(),
                this.sleeper.as_mut(),
                cx
            )),
        };
        loop {
            match act {
                Act::Send(request) => {
                    let attempt = flight.client.transport.attempt(request);
                    this.step.set(Step::Attempting { attempt });
                }
                Act::Hold(held) => this.step.set(Step::Holding { held: Some(held) }),
                Act::Wait => this.step.set(Step::Waiting),
                Act::Return(result) => {
                    this.step.set(Step::Waiting);
                    *this.flight = None;
                    return Poll::Ready(result);
                }
            }
            act = ready!(poll_step(
                flight,
                this.step.as_mut(),
                this.sleeper.as_mut(),
                cx
            ));
        }
    }
}

/// What the future does next.
enum Act<T: GrpcTransport, C: Timer> {
    Send(http::Request<RequestBody>),
    Hold(Held<T::Body>),
    Wait,
    Return(Result<CallResponse<T, C>, Status>),
}

/// Waits for what the step waits for, or for time to end it. What has arrived counts, even
/// if the deadline has come in the same moment.
fn poll_step<T: GrpcTransport, C: Timer>(
    flight: &mut Flight<T, C>,
    mut step: Pin<&mut Step<T::Future, T::Body>>,
    mut sleeper: Pin<&mut Sleeper<C::Sleep>>,
    cx: &mut Context<'_>,
) -> Poll<Act<T, C>> {
    match step.as_mut().project() {
        StepProj::Waiting => {}
        StepProj::Attempting { attempt } => {
            if let Poll::Ready(result) = attempt.poll(cx) {
                return Poll::Ready(match result {
                    Ok(response) => flight.on_response(response),
                    Err(error) => flight.on_error(error),
                });
            }
        }
        StepProj::Holding { held: holding } => {
            let held = holding.as_mut().expect("holding until it has ended");
            if let Poll::Ready(end) = held.poll_end(cx) {
                let held = holding.take().expect("it has just ended");
                return Poll::Ready(flight.on_held(held, end));
            }
        }
    }
    while let Some(wait) = flight.call.poll_timeout() {
        let now = ready!(
            sleeper
                .as_mut()
                .poll_until(wait.until, &flight.client.shared.timer, cx)
        );
        let (progress, obstacle) = match step.as_ref().project_ref() {
            StepRef::Attempting { attempt } => {
                let transport = &flight.client.transport;
                (transport.progress(attempt), transport.obstacle(attempt))
            }
            StepRef::Waiting | StepRef::Holding { .. } => (Progress::MaybeProcessed, None),
        };
        if let Some(act) = flight.on_timeout(now, progress, obstacle) {
            return Poll::Ready(act);
        }
    }
    Poll::Pending
}

/// The state of one call between its steps. Dropping it is the caller leaving.
struct Flight<T: GrpcTransport, C: Timer> {
    client: Arc<Inner<T, C>>,
    call: Call,
    options: CallOptions,
    replay: Replay,
    /// The present attempt, or the last one while waiting.
    attempt: AttemptStart,
    /// Since when the call waits, and what for.
    waiting: Option<(Instant, WaitReason)>,
    /// Attempts that failed so far.
    failed: Vec<AttemptReport>,
    /// The status of the last of them.
    last: Option<Status>,
    /// Drawn from only by retries.
    random: Option<SeededRandom>,
}

impl<T: GrpcTransport, C: Timer> Flight<T, C> {
    fn new(
        client: Arc<Inner<T, C>>,
        mut request: http::Request<tonic::body::Body>,
        cx: &mut Context<'_>,
    ) -> Result<Box<Self>, Status> {
        let shared = &client.shared;
        let now = shared.timer.now();
        let unsendable = |status| CallReport::attach(status, Vec::new(), End::Unsendable, None);
        let options = CallOptions::take(&mut request, &shared.methods, shared.timeout, now)
            .map_err(unsendable)?;
        let replay = Replay::gather(request, options.replay_limit, cx).map_err(unsendable)?;
        Ok(Box::new(Self {
            call: Call::new(shared.policy, options.opening),
            client,
            options,
            replay,
            attempt: AttemptStart {
                at: now,
                waited: Duration::ZERO,
                wait_reason: None,
            },
            waiting: None,
            failed: Vec::new(),
            last: None,
            random: None,
        }))
    }

    fn start(&mut self) -> Act<T, C> {
        let (shared, now) = (&self.client.shared, self.attempt.at);
        let next = match shared.pass() {
            Some(pass) => self.call.handle_start_with(pass, now),
            None => shared.protect(|protection| self.call.handle_start(now, protection)),
        };
        self.follow(next, now)
    }

    /// The response's headers arrived.
    fn on_response(&mut self, response: http::Response<T::Body>) -> Act<T, C> {
        let (mut parts, body) = response.into_parts();
        let unary = self.options.kind == Some(CallKind::Unary);
        match status::read_head(&mut parts, || body.is_end_stream()) {
            Head::Failed(status) => self.on_failure(Failure::answered(status)),
            Head::Succeeded if unary => self.on_failure(Failure::answered(no_message())),
            Head::Succeeded => {
                status::mend_ok_trailers(&mut parts.headers);
                self.on_success(parts, Chunks::default(), None)
            }
            Head::Open if unary => Act::Hold(Held::new(parts, body, self.options.replay_limit.0)),
            Head::Open => self.on_opened(parts, Chunks::default(), body, None),
        }
    }

    /// A held response is decided.
    fn on_held(&mut self, held: Held<T::Body>, end: HeldEnd) -> Act<T, C> {
        match end {
            HeldEnd::Succeeded(trailers) => {
                self.on_success(held.parts, held.chunks, Some(trailers))
            }
            HeldEnd::Failed(status) => self.on_failure(Failure::answered(status)),
            HeldEnd::Broken(error) => self.on_failure(error.into_failure()),
            HeldEnd::Outgrown => {
                self.on_opened(held.parts, held.chunks, held.body, Some(held.messages))
            }
        }
    }

    /// An OK; its trailers stand in the head if there are none apart. The response is the
    /// caller's, unless a user's classifier sees in it something to retry.
    fn on_success(
        &mut self,
        parts: response::Parts,
        chunks: Chunks,
        trailers: Option<HeaderMap>,
    ) -> Act<T, C> {
        let outcome = Outcome::succeeded(
            self.replay.path(),
            trailers.as_ref().unwrap_or(&parts.headers),
        );
        let judged = self.client.shared.classify.judge(&outcome);
        let (next, now) = self.settle(judged, None);
        if !matches!(next, Next::Finish(_)) {
            let retried = Failure::answered(Status::ok("judged as one to retry"));
            self.failed.push(self.attempt.report(&retried, now));
        } else {
            let body = match trailers {
                Some(trailers) => ResponseBody::whole(chunks, trailers),
                None => ResponseBody::empty(),
            };
            return Act::Return(Ok(http::Response::from_parts(parts, body)));
        }
        self.follow(next, now)
    }

    /// A response that is passed on before its end is known: a stream, or a unary one too
    /// large to be held, of which `chunks` have come and `messages` are counted.
    fn on_opened(
        &mut self,
        parts: response::Parts,
        chunks: Chunks,
        body: T::Body,
        messages: Option<MessageCount>,
    ) -> Act<T, C> {
        let shared = &self.client.shared;
        let ticket = shared.protect(|protection| self.call.handle_opened(protection));
        let call = OpenCall {
            shared: Arc::clone(shared),
            path: self.replay.path_and_query(),
            ticket,
            deadline: self.options.told(),
            earlier: std::mem::take(&mut self.failed),
            attempt: self.attempt,
            messages,
        };
        let body = ResponseBody::open(chunks, body, call);
        Act::Return(Ok(http::Response::from_parts(parts, body)))
    }

    /// The attempt failed below gRPC.
    fn on_error(&mut self, error: AttemptError) -> Act<T, C> {
        if let Some(why) = error.retry_transparently()
            && self.replay.is_replayable()
            && let now = self.client.shared.timer.now()
            && self.call.handle_unprocessed(why, now)
        {
            return Act::Send(self.next_request(self.call.attempts(), now));
        }
        self.on_failure(error.into_failure())
    }

    fn on_failure(&mut self, failure: Failure) -> Act<T, C> {
        let now = self.client.shared.timer.now();
        if failure.status.code() == Code::Cancelled
            && let Some(act) = self.on_timeout(now, failure.progress, None)
        {
            // Both sides run the same timer; the server's reset may arrive first.
            return act;
        }
        let outcome = Outcome::failed(self.replay.path(), &failure);
        let judged = self.client.shared.classify.judge(&outcome);
        self.failed.push(self.attempt.report(&failure, now));
        self.last = Some(failure.status);
        match self.settle(judged, Some(now)).0 {
            Next::Finish(end) if !matches!(end, End::Rejected(_)) => {
                let status = self.last.clone().unwrap_or_else(status::missing);
                Act::Return(Err(self.report(status, end)))
            }
            next => self.follow(next, now),
        }
    }

    /// Time passed. If an attempt is under way, its request got that far, and was kept from
    /// getting further by that. `None` if nothing is due.
    fn on_timeout(
        &mut self,
        now: Instant,
        progress: Progress,
        obstacle: Option<AttemptError>,
    ) -> Option<Act<T, C>> {
        let attempting = self.call.is_attempting();
        let shared = &self.client.shared;
        let next = shared.protect(|protection| self.call.handle_timeout(now, protection))?;
        if attempting {
            let status = Status::deadline_exceeded(match progress {
                Progress::NotSent => "the deadline passed before its request was sent",
                _ => "the deadline passed before an answer came",
            });
            let failure = Failure::unanswered(status, progress);
            self.failed.push(self.attempt.report(&failure, now));
            if let Some(obstacle) = obstacle {
                self.last = Some(obstacle.into_failure().status);
            }
        }
        Some(self.follow(next, now))
    }

    /// Reports a judged result, at `now` if the clock was read for it.
    fn settle(&mut self, judged: Classification, now: Option<Instant>) -> (Next, Instant) {
        let shared = &self.client.shared;
        let mut random = LazyRandom {
            shared,
            random: &mut self.random,
        };
        let replayable = self.replay.is_replayable();
        let quiet = (judged == Classification::SUCCESS).then_some(self.attempt.at);
        shared.protect(|protection| {
            let now = now.unwrap_or_else(|| shared.time_to_settle(protection, quiet));
            let next = self
                .call
                .handle_result(judged, replayable, now, protection, &mut random);
            (next, now)
        })
    }

    fn follow(&mut self, next: Next, now: Instant) -> Act<T, C> {
        match next {
            Next::Attempt { number } => {
                let waited = self.waiting.take();
                self.attempt = AttemptStart {
                    at: now,
                    waited: waited.map_or(Duration::ZERO, |(since, _)| now.saturating_since(since)),
                    wait_reason: waited.map(|(_, reason)| reason),
                };
                Act::Send(self.next_request(number, now))
            }
            Next::Wait(wait) => {
                self.waiting = Some((now, wait.reason));
                Act::Wait
            }
            Next::Finish(end) => {
                let status = match &end {
                    End::Rejected(rejected) => Status::unavailable(rejected.to_string()),
                    _ => self.deadline_exceeded(),
                };
                Act::Return(Err(self.report(status, end)))
            }
        }
    }

    fn next_request(&mut self, number: u32, now: Instant) -> http::Request<RequestBody> {
        let told = self.options.told();
        let left = told.map(|deadline| deadline.saturating_since(now));
        let left = left.map(|left| self.client.shared.told_timeout(left));
        self.replay.attempt(number, left)
    }

    fn deadline_exceeded(&self) -> Status {
        let attempts = self.call.attempts();
        let plural = if attempts == 1 { "" } else { "s" };
        let unsent = match self.failed.last() {
            Some(attempt) if attempt.progress == Progress::NotSent => ", the last not sent yet",
            _ => "",
        };
        let mut message = format!("the deadline passed after {attempts} attempt{plural}{unsent}");
        if let Some(last) = &self.last {
            let code = core_code(last.code());
            message = format!("{message}; before it: {code}: {}", last.message());
        }
        Status::deadline_exceeded(message)
    }

    fn report(&mut self, status: Status, end: End) -> Status {
        CallReport::attach(
            status,
            std::mem::take(&mut self.failed),
            end,
            self.last.take(),
        )
    }
}

impl<T: GrpcTransport, C: Timer> Drop for Flight<T, C> {
    fn drop(&mut self) {
        if self.call.is_attempting() {
            let (shared, call) = (&self.client.shared, &mut self.call);
            in_drop(|| {
                let now = shared.timer.now();
                shared.protect(|protection| call.handle_abandoned(now, protection));
            });
        }
    }
}

/// A call's own stream of randomness, begun by the first draw: a call without a retry
/// takes none.
struct LazyRandom<'a, C> {
    shared: &'a Shared<C>,
    random: &'a mut Option<SeededRandom>,
}

impl<C: Timer> Random for LazyRandom<'_, C> {
    fn next_u64(&mut self) -> u64 {
        self.random
            .get_or_insert_with(|| self.shared.random())
            .next_u64()
    }
}

impl<T: GrpcTransport, C: Timer> fmt::Debug for CallFuture<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallFuture")
            .field("call", &self.flight.as_ref().map(|flight| &flight.call))
            .finish_non_exhaustive()
    }
}

//! One call: which attempt to make, how long to wait before the next, and when and why to
//! stop.
//!
//! ```text
//!   handle_start        handle_result: retry        handle_timeout
//!  new -----> attempting -------------------> waiting ---------+
//!              |  ^                             |              |
//!              |  +-----------------------------|--------------+
//!              |          admitted again        |
//!              | handle_result: success, stop   | handle_timeout: rejected,
//!              | handle_opened                  | the deadline passed
//!              v                                v
//!                         finished
//! ```
//!
//! The machine owns the breaker's ticket while an attempt is under way, and joins the
//! breaker and the budget of the client, which it borrows with each call as a
//! [`Protection`]. It answers with [`Next`]; between inputs [`Call::poll_timeout`] says when
//! time itself is the next input.

use core::fmt;
use core::time::Duration;

use crate::backoff::Backoff;
use crate::breaker::{Breaker, BreakerOutcome, Pass, Rejected, Ticket};
use crate::budget::Budget;
use crate::classify::{Classification, RetryOutcome};
use crate::random::Random;
use crate::time::Instant;

/// What all calls to one server share: its breaker and its budget.
#[derive(Debug)]
pub struct Protection {
    /// Admits attempts.
    pub breaker: Breaker,
    /// Allows retries.
    pub budget: Budget,
}

/// How often and when a call may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included. 1 switches retries off, and so does 0.
    pub max_attempts: u32,
    /// The schedule of the waits, and the longest pushback that is followed.
    pub backoff: Backoff,
}

/// What to do next.
#[must_use = "the call goes nowhere until this is done"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make an attempt, the `number`th of the call, counted from 1.
    ///
    /// The same number comes twice when a request that the server never processed is sent
    /// again (a transparent retry, gRFC A6).
    Attempt {
        /// The attempt's number.
        number: u32,
    },
    /// Wait, then call [`Call::handle_timeout`].
    Wait(Wait),
    /// The call is over.
    Finish(End),
}

/// A wait for a point of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When it is over.
    pub until: Instant,
    /// What it is for.
    pub reason: WaitReason,
}

/// What a [`Wait`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitReason {
    /// The schedule's draw before a retry.
    Backoff,
    /// The server's pushback, or a classifier's delay, longer than the schedule's draw.
    Pushback,
    /// A connection that backs off, and the schedule's draw after that.
    Connection,
    /// The call's deadline, while an attempt is under way.
    Deadline,
}

/// Why a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// An attempt succeeded.
    Succeeded,
    /// A stream opened; its own end is reported with [`Breaker::settle`].
    Opened,
    /// The result is not one that another attempt could better.
    Stopped,
    /// The server refused a retry by pushback.
    Refused,
    /// The deadline passed.
    Expired,
    /// The budget allowed no retry.
    BudgetSpent,
    /// Every attempt was made.
    Exhausted,
    /// The request can't be sent again.
    Committed,
    /// The server asked for a longer wait than the schedule's longest.
    PushbackTooLong {
        /// What it asked for.
        asked: Duration,
    },
    /// No attempt can be made for longer than the schedule's longest wait: the connection
    /// backs off.
    Unreachable {
        /// How long it does.
        for_another: Duration,
    },
    /// The wait before the next attempt would have ended at or after the deadline.
    WaitPastDeadline {
        /// The wait.
        wait: Duration,
    },
    /// The breaker did not admit an attempt.
    Rejected(Rejected),
    /// The request could not be sent: the caller's own mistake.
    Unsendable,
    /// The caller left.
    Abandoned,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::Opened => f.write_str("the stream opened"),
            Self::Stopped => f.write_str("the status is not retried"),
            Self::Refused => f.write_str("the server refused a retry by pushback"),
            Self::Expired => f.write_str("the deadline passed"),
            Self::BudgetSpent => f.write_str("the retry budget is spent"),
            Self::Exhausted => f.write_str("every attempt was made"),
            Self::Committed => f.write_str("the request can't be sent again"),
            Self::PushbackTooLong { asked } => {
                write!(
                    f,
                    "the server's pushback of {asked:?} is above the longest backoff"
                )
            }
            Self::Unreachable { for_another } => write!(
                f,
                "the connection is not dialed for another {for_another:?}, longer than the longest backoff"
            ),
            Self::WaitPastDeadline { wait } => {
                write!(
                    f,
                    "the next wait, {wait:?}, would not end before the deadline"
                )
            }
            Self::Rejected(rejected) => rejected.fmt(f),
            Self::Unsendable => f.write_str("the request could not be sent"),
            Self::Abandoned => f.write_str("the caller left"),
        }
    }
}

/// Why an attempt's request was not processed by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unprocessed {
    /// It never left: its connection died first. The transport waits for a connection
    /// event before it tries again, so this can't spin.
    NotSent,
    /// The server refused the stream, or said that it had not looked at it.
    Refused,
}

/// The state machine of one call. See the module's documentation.
#[derive(Debug)]
pub struct Call {
    policy: RetryPolicy,
    deadline: Option<Instant>,
    attempts: u32,
    refused_once: bool,
    /// The latest time seen, so that a clock stepping back changes nothing.
    now: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    New,
    Attempting(Ticket),
    Waiting(Wait),
    Finished,
}

impl Call {
    /// A call that ends by `deadline`, if there is one.
    #[must_use]
    pub const fn new(policy: RetryPolicy, deadline: Option<Instant>) -> Self {
        Self {
            policy,
            deadline,
            attempts: 0,
            refused_once: false,
            now: Instant::ZERO,
            state: State::New,
        }
    }

    /// When the call must end.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Attempts started so far; transparent retries are not counted.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Starts the call. If its deadline has passed already it ends with [`End::Expired`], and
    /// the breaker, which would learn nothing about the server, isn't asked. A second start
    /// ends it with [`End::Abandoned`].
    pub fn handle_start(&mut self, now: Instant, protection: &mut Protection) -> Next {
        let now = self.advance(now);
        if !matches!(self.state, State::New) {
            self.handle_abandoned(now, protection);
            return Next::Finish(End::Abandoned);
        }
        self.begin_attempt(now, protection)
    }

    /// Starts the call with a closed breaker's leave, where asking the breaker itself would mean
    /// to wait for its lock. Otherwise as [`handle_start`](Self::handle_start); a second start is
    /// answered with [`End::Abandoned`] and changes nothing.
    pub fn handle_start_with(&mut self, pass: Pass, now: Instant) -> Next {
        let now = self.advance(now);
        if !matches!(self.state, State::New) {
            return Next::Finish(End::Abandoned);
        }
        self.begin_admitted(now, |_| Ok(pass.ticket()))
    }

    /// Takes the judgement on the attempt under way.
    ///
    /// `replayable` says whether the request can be sent again. A retry goes on if, in this
    /// order: the deadline has not passed, the budget allows it (not asked of what was not
    /// tried), attempts are left, the
    /// request can be sent again, the delay asked for is at most the longest backoff, and
    /// the wait ends before the deadline.
    ///
    /// Without an attempt under way, which is the driver's mistake, the call ends with
    /// [`End::Abandoned`] and nothing is counted.
    pub fn handle_result(
        &mut self,
        result: Classification,
        replayable: bool,
        now: Instant,
        protection: &mut Protection,
        random: &mut impl Random,
    ) -> Next {
        let now = self.advance(now);
        let Some(ticket) = self.take_ticket() else {
            return self.finish(End::Abandoned);
        };
        protection.breaker.settle(ticket, result.breaker, now);
        match result.retry {
            RetryOutcome::Success => {
                protection.budget.on_success();
                self.finish(End::Succeeded)
            }
            RetryOutcome::Stop => self.finish(End::Stopped),
            RetryOutcome::Refused => {
                let _ = protection.budget.on_failure();
                self.finish(End::Refused)
            }
            RetryOutcome::Retry { after } => {
                let floor = (after, WaitReason::Pushback);
                self.retry(floor, replayable, now, protection, random)
            }
            RetryOutcome::Untried { after } => {
                let floor = (after, WaitReason::Connection);
                self.retry(floor, replayable, now, protection, random)
            }
        }
    }

    /// The attempt under way opened a stream: its response headers arrived. The budget
    /// counts a success; the ticket is handed out, to be settled by the stream's end. `None`
    /// if no attempt was under way.
    pub fn handle_opened(&mut self, protection: &mut Protection) -> Option<Ticket> {
        let ticket = self.take_ticket()?;
        protection.budget.on_success();
        self.state = State::Finished;
        Some(ticket)
    }

    /// The server never processed the attempt's request: whether to send it again within the
    /// same attempt, at no cost to attempts, budget or breaker (gRFC A6, "Transparent
    /// Retries"). An unsent request goes again until the deadline, a refused one once a call.
    ///
    /// On `false` the failure is one like any other, for [`handle_result`](Self::handle_result).
    #[must_use]
    pub fn handle_unprocessed(&mut self, why: Unprocessed, now: Instant) -> bool {
        self.advance(now);
        if self.is_expired() || !matches!(self.state, State::Attempting(_)) {
            return false;
        }
        match why {
            Unprocessed::NotSent => true,
            Unprocessed::Refused => !core::mem::replace(&mut self.refused_once, true),
        }
    }

    /// Time has passed. `None` if nothing is due, however early or often it is called.
    ///
    /// After a wait: the next attempt, or the end of the call if the breaker doesn't admit
    /// it or the deadline has passed too. At the deadline with an attempt under way: the end
    /// of the call, a failure to the breaker, nothing to the budget.
    pub fn handle_timeout(&mut self, now: Instant, protection: &mut Protection) -> Option<Next> {
        let now = self.advance(now);
        if self.poll_timeout().is_none_or(|wait| now < wait.until) {
            return None;
        }
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Attempting(ticket) => {
                protection
                    .breaker
                    .settle(ticket, BreakerOutcome::Failure, now);
                Some(Next::Finish(End::Expired))
            }
            State::Waiting(_) => Some(self.begin_attempt(now, protection)),
            State::New | State::Finished => None,
        }
    }

    /// The caller left, or the driver is being dropped: an attempt under way is ignored and
    /// its slot is free at once.
    pub fn handle_abandoned(&mut self, now: Instant, protection: &mut Protection) {
        let now = self.advance(now);
        if let Some(ticket) = self.take_ticket() {
            protection
                .breaker
                .settle(ticket, BreakerOutcome::Ignored, now);
        }
        self.state = State::Finished;
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Wait> {
        match &self.state {
            State::Attempting(_) => self.deadline.map(|until| Wait {
                until,
                reason: WaitReason::Deadline,
            }),
            State::Waiting(wait) => Some(*wait),
            State::New | State::Finished => None,
        }
    }

    /// Whether an attempt is under way, and so a ticket to give back.
    #[must_use]
    pub const fn is_attempting(&self) -> bool {
        matches!(self.state, State::Attempting(_))
    }

    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    fn is_expired(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.now >= deadline)
    }

    fn begin_attempt(&mut self, now: Instant, protection: &mut Protection) -> Next {
        self.begin_admitted(now, |now| protection.breaker.admit(now))
    }

    fn begin_admitted(
        &mut self,
        now: Instant,
        admit: impl FnOnce(Instant) -> Result<Ticket, Rejected>,
    ) -> Next {
        if self.is_expired() {
            return self.finish(End::Expired);
        }
        match admit(now) {
            Ok(ticket) => {
                self.attempts = self.attempts.saturating_add(1);
                self.state = State::Attempting(ticket);
                Next::Attempt {
                    number: self.attempts,
                }
            }
            Err(rejected) => self.finish(End::Rejected(rejected)),
        }
    }

    fn retry(
        &mut self,
        floor: (Duration, WaitReason),
        replayable: bool,
        now: Instant,
        protection: &mut Protection,
        random: &mut impl Random,
    ) -> Next {
        match self.plan_retry(floor, replayable, now, &mut protection.budget, random) {
            Ok(wait) if wait.until > now => {
                self.state = State::Waiting(wait);
                Next::Wait(wait)
            }
            Ok(_) => self.begin_attempt(now, protection),
            Err(end) => self.finish(end),
        }
    }

    fn plan_retry(
        &self,
        (floor, reason): (Duration, WaitReason),
        replayable: bool,
        now: Instant,
        budget: &mut Budget,
        random: &mut impl Random,
    ) -> Result<Wait, End> {
        let untried = reason == WaitReason::Connection;
        if self.is_expired() {
            return Err(End::Expired);
        }
        if !untried && !budget.on_failure() {
            return Err(End::BudgetSpent);
        }
        if self.attempts >= self.policy.max_attempts {
            return Err(End::Exhausted);
        }
        if !replayable {
            return Err(End::Committed);
        }
        if floor > self.policy.backoff.max() {
            return Err(match untried {
                true => End::Unreachable { for_another: floor },
                false => End::PushbackTooLong { asked: floor },
            });
        }
        let draw = self.policy.backoff.draw(self.attempts, random);
        let (wait, reason) = match () {
            // One connection's backoff ends for all its calls in the same moment; they must
            // not come back in the same moment.
            () if untried && !floor.is_zero() => (floor.saturating_add(draw), reason),
            () if floor > draw => (floor, reason),
            () => (draw, WaitReason::Backoff),
        };
        let until = now.saturating_add(wait);
        if self.deadline.is_some_and(|deadline| until >= deadline) {
            return Err(End::WaitPastDeadline { wait });
        }
        Ok(Wait { until, reason })
    }

    fn take_ticket(&mut self) -> Option<Ticket> {
        match core::mem::replace(&mut self.state, State::Finished) {
            State::Attempting(ticket) => Some(ticket),
            other => {
                self.state = other;
                None
            }
        }
    }

    fn finish(&mut self, end: End) -> Next {
        self.state = State::Finished;
        Next::Finish(end)
    }
}

#[cfg(test)]
mod tests;

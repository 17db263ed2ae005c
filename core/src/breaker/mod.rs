//! A circuit breaker: stops calling a server that keeps failing, and finds out, with few
//! calls, when it is well again.
//!
//! ```text
//!                 policy says open
//!      +--------+ -----------------> +------+
//!      | closed |                    | open | <--+
//!      +--------+ <---+              +------+    |
//!                     |                 |        | policy says open
//!        policy says  |                 | first  | (a probe failed)
//!           close     |                 | call at or after `open_for`
//!                     |                 v        |
//!                     |           +-----------+  |
//!                     +-----------| half-open |--+
//!                                 +-----------+
//! ```
//!
//! Every attempt is admitted with a [`Ticket`] and reported with [`Breaker::settle`], once:
//! the ticket is consumed. A result from an earlier state is stale and counts for nothing,
//! because it says how the server was before. While half-open at most `probes` tickets are
//! out; one that isn't settled within `probe_timeout` frees its slot and is counted as
//! timed out, so a leaked ticket can never hold the breaker shut.
//!
//! The machine takes `now` with every call. A clock that steps backwards changes nothing.
//!
//! ```
//! use core::time::Duration;
//! use steadfast_core::{Breaker, BreakerOutcome, BreakerSettings, BreakerState, Instant};
//!
//! let mut breaker = Breaker::new(BreakerSettings::default());
//! let now = Instant::ZERO;
//! for _ in 0..5 {
//!     let ticket = breaker.admit(now).expect("closed");
//!     breaker.settle(ticket, BreakerOutcome::Failure, now);
//! }
//! assert_eq!(breaker.state(), BreakerState::Open);
//! assert_eq!(breaker.admit(now).unwrap_err().remaining, Duration::from_secs(10));
//!
//! let later = now.saturating_add(Duration::from_secs(10));
//! let probe = breaker.admit(later).expect("half-open");
//! assert!(breaker.admit(later).is_err(), "one probe at a time");
//! breaker.settle(probe, BreakerOutcome::Success, later);
//! ```

mod policy;
mod probes;
mod window;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use crate::Instant;

pub use self::policy::{BreakerPolicy, DefaultPolicy, NeverOpen, ProbeVerdict, policy_fn};
use self::probes::Probes;
use self::window::Window;

/// The numbers of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// How many of the last results the counts cover while closed. Default 20, range 1 to
    /// 65535.
    pub window: u32,
    /// How many tickets may be out at once while half-open. Default 1, range 1 to 65535. A
    /// stream's ticket is out until the stream ends: give a client that holds streams open
    /// more than one.
    pub probes: u32,
    /// How long the breaker rejects once open. Default 10 s, positive.
    pub open_for: Duration,
    /// How long a probe may stay unsettled before its slot is free again. Default 10 s,
    /// positive.
    pub probe_timeout: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            window: 20,
            probes: 1,
            open_for: Duration::from_secs(10),
            probe_timeout: Duration::from_secs(10),
        }
    }
}

/// What a state has seen: while closed the last `window` results, while half-open all since
/// it was entered, while open nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Results that were successes.
    pub successes: u32,
    /// Results that were failures.
    pub failures: u32,
    /// Successes since the last failure, also beyond the window.
    pub consecutive_successes: u32,
    /// Failures since the last success, also beyond the window.
    pub consecutive_failures: u32,
    /// Probes that were not settled within `probe_timeout`.
    pub timed_out: u32,
}

impl Counts {
    /// Results counted: successes and failures.
    #[must_use]
    pub const fn results(&self) -> u32 {
        self.successes.saturating_add(self.failures)
    }

    fn extend_run(&mut self, failed: bool) {
        if failed {
            self.consecutive_failures = self.consecutive_failures.saturating_add(1);
            self.consecutive_successes = 0;
        } else {
            self.consecutive_successes = self.consecutive_successes.saturating_add(1);
            self.consecutive_failures = 0;
        }
    }
}

/// Where a [`Breaker`] stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Admits every call.
    Closed,
    /// Rejects every call until `open_for` has passed; stays so until a call comes then.
    Open,
    /// Admits as many calls at once as there are probes.
    HalfOpen,
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        })
    }
}

/// What an attempt told about the server's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerOutcome {
    /// The server is well, whatever it answered.
    Success,
    /// The server, or the way to it, is in trouble.
    Failure,
    /// It says nothing about the server, such as a call that its caller gave up.
    Ignored,
}

/// A change of a [`Breaker`]'s state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The state left.
    pub from: BreakerState,
    /// The state entered.
    pub to: BreakerState,
    /// The counts of the state left.
    pub counts: Counts,
    /// When it happened.
    pub at: Instant,
}

/// The breaker did not admit an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected {
    /// [`BreakerState::Open`], or [`BreakerState::HalfOpen`] with every probe out.
    pub state: BreakerState,
    /// How long until a call can be admitted: while open exactly, while half-open at most.
    pub remaining: Duration,
}

impl fmt::Display for Rejected {
    /// `circuit breaker open for another 4.2s`, rounded up to a tenth of a second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TENTH: u128 = 100_000_000;
        let tenths = self.remaining.as_nanos().div_ceil(TENTH);
        let (whole, tenth) = (tenths / 10, tenths % 10);
        match self.state {
            BreakerState::HalfOpen => write!(
                f,
                "circuit breaker half-open, its probes out for at most another {whole}.{tenth}s"
            ),
            _ => write!(f, "circuit breaker open for another {whole}.{tenth}s"),
        }
    }
}

impl core::error::Error for Rejected {}

/// Leave to make one attempt. Give it back to [`Breaker::settle`].
///
/// A ticket that is lost frees its slot after `probe_timeout`; a driver that may be
/// cancelled settles it as [`BreakerOutcome::Ignored`] from its own drop.
#[must_use = "a ticket that is never settled holds its slot until `probe_timeout`"]
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    generation: u64,
    /// Zero while closed, where slots are not counted.
    probe: u64,
}

/// A closed breaker's leave for any number of attempts, good until its state changes.
///
/// While closed a breaker admits whoever asks, and a driver of many threads need not ask under
/// its lock: it publishes the pass after each use of the machine, and takes tickets from what
/// was published. One taken just before the breaker opened is as good as one admitted then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    generation: u64,
}

impl Pass {
    /// What [`Breaker::admit`] would have answered.
    pub const fn ticket(self) -> Ticket {
        Ticket {
            generation: self.generation,
            probe: 0,
        }
    }

    /// The pass as a number that is never zero, for an atomic in which zero is none.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.generation.saturating_add(1)
    }

    /// The pass that [`to_bits`](Self::to_bits) made this number of; `None` for zero.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match bits.checked_sub(1) {
            Some(generation) => Some(Self { generation }),
            None => None,
        }
    }
}

/// The breaker's state machine. See the module's documentation.
pub struct Breaker {
    settings: BreakerSettings,
    policy: Arc<dyn BreakerPolicy>,
    state: State,
    /// Counts the changes of state; a ticket of another generation is stale.
    generation: u64,
    /// The latest time seen, so that a clock stepping back changes nothing.
    now: Instant,
    transitions: VecDeque<Transition>,
}

enum State {
    Closed(Window),
    Open { until: Instant },
    HalfOpen { counts: Counts, probes: Probes },
}

impl Breaker {
    /// A closed breaker with [`DefaultPolicy`].
    ///
    /// Numbers outside the ranges of [`BreakerSettings`] are brought to the nearest end;
    /// the functions in [`check`](crate::check) tell them apart beforehand.
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        Self::with_policy(settings, Arc::new(DefaultPolicy))
    }

    /// A closed breaker that asks `policy` after every result.
    #[must_use]
    pub fn with_policy(settings: BreakerSettings, policy: Arc<dyn BreakerPolicy>) -> Self {
        let clamp = |number: u32| number.clamp(1, u32::from(u16::MAX));
        let settings = BreakerSettings {
            window: clamp(settings.window),
            probes: clamp(settings.probes),
            open_for: settings.open_for.max(Duration::from_nanos(1)),
            probe_timeout: settings.probe_timeout.max(Duration::from_nanos(1)),
        };
        Self {
            state: State::Closed(Window::new(settings.window)),
            settings,
            policy,
            generation: 0,
            now: Instant::ZERO,
            transitions: VecDeque::new(),
        }
    }

    /// Asks to make one attempt.
    ///
    /// # Errors
    ///
    /// [`Rejected`] while open, and while half-open with every probe out.
    ///
    /// # Panics
    ///
    /// Only if the policy does; the breaker stays consistent and no slot is taken.
    pub fn admit(&mut self, now: Instant) -> Result<Ticket, Rejected> {
        let now = self.advance(now);
        if let State::Open { until } = self.state
            && now >= until
        {
            let half_open = State::HalfOpen {
                counts: Counts::default(),
                probes: Probes::new(self.settings.probes, self.settings.probe_timeout),
            };
            self.change(half_open);
        }
        let generation = self.generation;
        match &mut self.state {
            State::Closed(_) => Ok(Ticket {
                generation,
                probe: 0,
            }),
            State::Open { until } => Err(Rejected {
                state: BreakerState::Open,
                remaining: until.saturating_since(now),
            }),
            State::HalfOpen { probes, .. } => match probes.take(now) {
                Ok(probe) => Ok(Ticket { generation, probe }),
                Err(remaining) => Err(Rejected {
                    state: BreakerState::HalfOpen,
                    remaining,
                }),
            },
        }
    }

    /// Leave for any number of attempts, while closed.
    #[must_use]
    pub const fn pass(&self) -> Option<Pass> {
        match self.state {
            State::Closed(_) => Some(Pass {
                generation: self.generation,
            }),
            State::Open { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// Reports what an admitted attempt told about the server.
    ///
    /// # Panics
    ///
    /// Only if the policy does; the result is counted and the slot free by then.
    pub fn settle(&mut self, ticket: Ticket, outcome: BreakerOutcome, now: Instant) {
        self.advance(now);
        if ticket.generation != self.generation {
            return;
        }
        let failed = match outcome {
            BreakerOutcome::Success => Some(false),
            BreakerOutcome::Failure => Some(true),
            BreakerOutcome::Ignored => None,
        };
        match (&mut self.state, failed) {
            (State::Closed(window), Some(failed)) => {
                window.push(failed);
                if self.policy.should_open(window.counts()) {
                    self.open();
                }
            }
            (State::HalfOpen { counts, probes }, failed) => {
                if !probes.release(ticket.probe) {
                    return;
                }
                let Some(failed) = failed else { return };
                if failed {
                    counts.failures = counts.failures.saturating_add(1);
                } else {
                    counts.successes = counts.successes.saturating_add(1);
                }
                counts.extend_run(failed);
                self.judge_probes();
            }
            (State::Closed(_), None) | (State::Open { .. }, _) => {}
        }
    }

    /// The next change of state that has not been answered yet, in order. Drain it after
    /// every [`admit`](Self::admit) and [`settle`](Self::settle).
    pub fn poll_transition(&mut self) -> Option<Transition> {
        self.transitions.pop_front()
    }

    /// Where the breaker stands: as the last call left it, for only a call half-opens it.
    #[must_use]
    pub const fn state(&self) -> BreakerState {
        match self.state {
            State::Closed(_) => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Whether it is closed and its window holds no failure, so that a success can change
    /// nothing but counts. A driver may then report the success with the time it already
    /// has, and spare a clock read.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        matches!(&self.state, State::Closed(window) if window.counts().failures == 0)
    }

    /// What the present state has seen.
    #[must_use]
    pub fn counts(&self) -> Counts {
        match &self.state {
            State::Closed(window) => *window.counts(),
            State::Open { .. } => Counts::default(),
            State::HalfOpen { counts, .. } => *counts,
        }
    }

    /// Takes the time, and counts the probes that have timed out by it, each as of its own
    /// moment, so that a late call finds what an on-time one would have left: a policy that
    /// opens on a leaked probe opens from then, not anew with whatever call comes next.
    fn advance(&mut self, now: Instant) -> Instant {
        let now = self.now.max(now);
        while let State::HalfOpen { counts, probes } = &mut self.state
            && let Some((expired, at)) = probes.expire(now)
        {
            counts.timed_out = counts.timed_out.saturating_add(expired);
            self.now = at;
            self.judge_probes();
        }
        self.now = now;
        now
    }

    fn judge_probes(&mut self) {
        match self.policy.judge_probes(&self.counts()) {
            ProbeVerdict::KeepProbing => {}
            ProbeVerdict::Open => self.open(),
            ProbeVerdict::Close => self.change(State::Closed(Window::new(self.settings.window))),
        }
    }

    fn open(&mut self) {
        let until = self.now.saturating_add(self.settings.open_for);
        self.change(State::Open { until });
    }

    fn change(&mut self, to: State) {
        let (from, counts) = (self.state(), self.counts());
        self.state = to;
        self.generation += 1;
        self.transitions.push_back(Transition {
            from,
            to: self.state(),
            counts,
            at: self.now,
        });
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("state", &self.state())
            .field("counts", &self.counts())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! The one connection of a client: when to dial, how long to hold off after a failure, and
//! when to let an unused one go.
//!
//! ```text
//!            a call             SETTINGS came
//!   idle ------------> connecting -----------> ready
//!    ^  ^                 |    ^                 |
//!    |  | backoff over    |    | a call          | lost, GOAWAY, idle too long
//!    |  |                 v    |                 |
//!    |  +---- transient failure                  |
//!    +-------------------------------------------+
//! ```
//!
//! Nothing is dialed before a call needs it. A failed attempt is followed by gRPC's
//! connection backoff (`connection-backoff.md`): 1 s, x1.6, ±20 %, up to 120 s, measured from
//! the start of the attempt and reset only when the server's SETTINGS arrive: a peer that
//! accepts and closes is not one that works. When the backoff is over the next call dials.
//!
//! A connection that served a call and is lost is dialed again at once. One that came up and
//! was lost without serving any is not dialed again before the first backoff has passed since
//! it was dialed; calls wait meanwhile.
//!
//! An old connection that still finishes its streams after a GOAWAY is the driver's to keep:
//! every dial has a generation, and word about an earlier one changes nothing here.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::check::{self, Invalid};
use crate::keepalive::KeepaliveSettings;
use crate::latch::Latch;
use crate::random::{Random, uniform};
use crate::time::Instant;

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(120);

/// The numbers of a [`Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// How long one connection attempt may take, up to the server's SETTINGS. Default 20 s.
    pub connect_timeout: Duration,
    /// How long a connection without a stream is kept. Default 30 minutes, positive; zero is
    /// taken as one nanosecond.
    pub idle_timeout: Duration,
    /// Pings on a quiet connection. Default none.
    pub keepalive: Option<KeepaliveSettings>,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(30 * 60),
            keepalive: None,
        }
    }
}

impl ConnectionSettings {
    /// Each number's name and what is wrong with it, if anything.
    ///
    /// # Errors
    ///
    /// Beside each name.
    pub fn check(&self) -> [(&'static str, Result<(), Invalid>); 3] {
        let pings = self.keepalive;
        [
            (
                "connection.connect_timeout",
                check::connect_timeout(self.connect_timeout),
            ),
            (
                "connection.idle_timeout",
                check::idle_timeout(self.idle_timeout),
            ),
            (
                "connection.keepalive.timeout",
                pings.map_or(Ok(()), |pings| check::keepalive_timeout(pings.timeout)),
            ),
        ]
    }
}

/// Where a [`Connection`] stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// None, and none wanted.
    Idle,
    /// On the way; calls wait.
    Connecting,
    /// Up; calls go out.
    Ready,
    /// The last attempt failed and the backoff is not over; calls fail.
    TransientFailure,
    /// Closed for good.
    Closed,
}

/// What the driver has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAction {
    /// Dial, and report about it under this generation.
    Dial {
        /// The new connection's.
        generation: u64,
    },
    /// Give the attempt up: it took too long, or the client closed.
    Abandon {
        /// The attempt's.
        generation: u64,
    },
    /// Let the connection go: it was unused for too long, or the client closed.
    Retire {
        /// The connection's.
        generation: u64,
    },
}

/// How the ready connection is used, for [`Connection::handle_timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Streams are open.
    Busy,
    /// None is, since then.
    IdleSince(Instant),
}

/// The state machine of the one connection. See the module's documentation.
#[derive(Debug)]
pub struct Connection {
    settings: ConnectionSettings,
    state: State,
    /// The backoff that the next failure is followed by, before jitter.
    backoff: Duration,
    /// When the last attempt began.
    dialed_at: Instant,
    /// Not to be dialed before this: set when a connection was lost that served nothing.
    not_before: Instant,
    generation: u64,
    latch: Latch,
    actions: VecDeque<ConnectionAction>,
    /// The latest time seen, so that a clock stepping back changes nothing.
    now: Instant,
}

#[derive(Debug)]
enum State {
    Idle,
    /// A call waits for the pace to allow a dial.
    Paced {
        until: Instant,
    },
    Dialing {
        until: Instant,
    },
    Ready {
        look_at: Instant,
    },
    TransientFailure {
        until: Instant,
    },
    Closed,
}

impl Connection {
    /// An idle connection.
    #[must_use]
    pub const fn new(mut settings: ConnectionSettings) -> Self {
        if settings.idle_timeout.is_zero() {
            // Else a connection with open streams would be found unused for long enough.
            settings.idle_timeout = Duration::from_nanos(1);
        }
        Self {
            settings,
            state: State::Idle,
            backoff: FIRST_BACKOFF,
            dialed_at: Instant::ZERO,
            not_before: Instant::ZERO,
            generation: 0,
            latch: Latch::Unset,
            actions: VecDeque::new(),
            now: Instant::ZERO,
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> ConnectionState {
        match self.state {
            State::Idle => ConnectionState::Idle,
            State::Paced { .. } | State::Dialing { .. } => ConnectionState::Connecting,
            State::Ready { .. } => ConnectionState::Ready,
            State::TransientFailure { .. } => ConnectionState::TransientFailure,
            State::Closed => ConnectionState::Closed,
        }
    }

    /// Whether a connection has ever been ready.
    #[must_use]
    pub const fn latch(&self) -> Latch {
        self.latch
    }

    /// A call wants a connection. Nothing changes unless idle, or in transient failure with
    /// the backoff over.
    pub fn handle_demand(&mut self, now: Instant) {
        let now = self.advance(now);
        match self.state {
            State::TransientFailure { until } if now < until => {}
            State::Idle | State::TransientFailure { .. } if now < self.not_before => {
                self.state = State::Paced {
                    until: self.not_before,
                };
            }
            State::Idle | State::TransientFailure { .. } => self.dial(now),
            _ => {}
        }
    }

    /// Somebody wants a connection now: a backoff is over, and the next one is the first again.
    pub fn handle_connect_now(&mut self, now: Instant) {
        let now = self.advance(now);
        if let State::Idle | State::Paced { .. } | State::TransientFailure { .. } = self.state {
            self.backoff = FIRST_BACKOFF;
            self.not_before = now;
            self.dial(now);
        }
    }

    /// The server's SETTINGS arrived: the connection is ready and the backoff starts anew.
    pub fn handle_served(&mut self, generation: u64, now: Instant) {
        let now = self.advance(now);
        if generation == self.generation && matches!(self.state, State::Dialing { .. }) {
            self.backoff = FIRST_BACKOFF;
            self.latch.on_ready();
            self.state = State::Ready {
                look_at: now.saturating_add(self.settings.idle_timeout),
            };
        }
    }

    /// The attempt failed before the server's SETTINGS arrived.
    pub fn handle_failed(&mut self, generation: u64, now: Instant, random: &mut impl Random) {
        let now = self.advance(now);
        if generation == self.generation && matches!(self.state, State::Dialing { .. }) {
            self.fail(now, random);
        }
    }

    /// The ready connection takes no more streams: it broke, or the server sent GOAWAY.
    /// `served` says whether any call was answered on it.
    pub fn handle_lost(&mut self, generation: u64, served: bool, random: &mut impl Random) {
        if generation == self.generation && matches!(self.state, State::Ready { .. }) {
            if !served {
                self.not_before = self.dialed_at.saturating_add(jitter(FIRST_BACKOFF, random));
            }
            self.state = State::Idle;
        }
    }

    /// The client closes, for good.
    pub fn handle_close(&mut self) {
        let generation = self.generation;
        let action = match self.state {
            State::Dialing { .. } => Some(ConnectionAction::Abandon { generation }),
            State::Ready { .. } => Some(ConnectionAction::Retire { generation }),
            _ => None,
        };
        self.actions.extend(action);
        self.latch.on_closed();
        self.state = State::Closed;
    }

    /// Time has passed; an early or spurious call is a no-op.
    pub fn handle_timeout(&mut self, now: Instant, usage: Usage, random: &mut impl Random) {
        let now = self.advance(now);
        let generation = self.generation;
        match &mut self.state {
            State::Paced { until } if now >= *until => self.dial(now),
            State::Dialing { until } if now >= *until => {
                self.fail(now, random);
                self.actions
                    .push_back(ConnectionAction::Abandon { generation });
            }
            State::TransientFailure { until } if now >= *until => self.state = State::Idle,
            State::Ready { look_at } if now >= *look_at => {
                let idle_since = match usage {
                    Usage::Busy => now,
                    Usage::IdleSince(since) => since,
                };
                *look_at = idle_since.saturating_add(self.settings.idle_timeout);
                if now >= *look_at {
                    self.actions
                        .push_back(ConnectionAction::Retire { generation });
                    self.state = State::Idle;
                }
            }
            _ => {}
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Paced { until }
            | State::Dialing { until }
            | State::TransientFailure { until }
            | State::Ready { look_at: until } => Some(until),
            State::Idle | State::Closed => None,
        }
    }

    /// What to do next, if anything, in order. Drain it after every input, before the next.
    pub fn poll_action(&mut self) -> Option<ConnectionAction> {
        self.actions.pop_front()
    }

    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    fn dial(&mut self, now: Instant) {
        self.generation += 1;
        self.dialed_at = now;
        self.state = State::Dialing {
            until: now.saturating_add(self.settings.connect_timeout),
        };
        self.actions.push_back(ConnectionAction::Dial {
            generation: self.generation,
        });
    }

    fn fail(&mut self, now: Instant, random: &mut impl Random) {
        let until = self.dialed_at.saturating_add(jitter(self.backoff, random));
        self.backoff = (self.backoff * 8 / 5).min(MAX_BACKOFF);
        self.state = if until > now {
            State::TransientFailure { until }
        } else {
            State::Idle
        };
    }
}

/// `backoff` ±20 %.
fn jitter(backoff: Duration, random: &mut impl Random) -> Duration {
    backoff / 5 * 4 + uniform(backoff / 5 * 2, random)
}

#[cfg(test)]
mod tests;

//! Keepalive pings (gRFC A8): finds a peer that is gone without a word.
//!
//! A path that breaks between two machines tells neither. Calls on such a connection hang until
//! their deadlines, one after another, for as long as the operating system retransmits. A PING
//! that must be answered finds it within `time` + `timeout`.
//!
//! ```
//! use core::time::Duration;
//! use steadfast_core::{Instant, Keepalive, KeepaliveAction, KeepaliveSettings};
//!
//! let settings = KeepaliveSettings::new(Duration::from_secs(30));
//! let at = |seconds| Instant::ZERO.saturating_add(Duration::from_secs(seconds));
//! let mut keepalive = Keepalive::new(settings, at(0));
//!
//! keepalive.handle_read(at(5));
//! assert_eq!(keepalive.poll_timeout(true), Some(at(35)));
//! assert_eq!(keepalive.handle_timeout(at(35), true), Some(KeepaliveAction::Ping));
//! // The default timeout is 20 s, and nothing came.
//! assert_eq!(keepalive.handle_timeout(at(55), true), Some(KeepaliveAction::GiveUp));
//! ```

use core::time::Duration;

use crate::time::Instant;

/// The shortest `time` that is followed; what is set shorter acts as this.
const MIN_TIME: Duration = Duration::from_secs(10);

/// When a quiet connection is pinged.
///
/// A server may end connections that ping more often than it permits, 5 minutes by default
/// without a call in progress: ask its operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepaliveSettings {
    /// How long nothing may have been read before a PING is sent. At least 10 s: what is set
    /// shorter acts as 10 s (A8).
    pub time: Duration,
    /// How long nothing may be read after a PING before the connection counts as lost. Default
    /// 20 s, longer than zero.
    pub timeout: Duration,
    /// Whether to ping also while no call is in progress. Default no.
    pub without_calls: bool,
}

impl KeepaliveSettings {
    /// Pings after `time`, gives up 20 s later, and only while calls are in progress.
    #[must_use]
    pub const fn new(time: Duration) -> Self {
        Self {
            time,
            timeout: Duration::from_secs(20),
            without_calls: false,
        }
    }

    /// Half as often: what follows a server's `too_many_pings` (A8).
    #[must_use]
    pub fn backed_off(self) -> Self {
        Self {
            time: self.effective_time().saturating_mul(2),
            ..self
        }
    }

    /// `time`, as it is followed.
    #[must_use]
    pub fn effective_time(&self) -> Duration {
        self.time.max(MIN_TIME)
    }
}

/// What the driver has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepaliveAction {
    /// Send a PING.
    Ping,
    /// The peer is gone: drop the connection.
    GiveUp,
}

/// The state machine of one connection's pings.
///
/// `in_use` says each time whether a call is in progress, since that comes and goes without a
/// word to this machine.
#[derive(Debug)]
pub struct Keepalive {
    settings: KeepaliveSettings,
    state: State,
    /// The latest time seen, so that a clock stepping back changes nothing.
    now: Instant,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A byte was last read then.
    Heard(Instant),
    /// A PING is out, to be answered by then.
    Pinged(Instant),
    GivenUp,
}

impl Keepalive {
    /// Of a connection that came up `now`.
    #[must_use]
    pub const fn new(settings: KeepaliveSettings, now: Instant) -> Self {
        Self {
            settings,
            state: State::Heard(now),
            now,
        }
    }

    /// Something was read, whatever it is: the peer is there.
    pub fn handle_read(&mut self, now: Instant) {
        let now = self.advance(now);
        if !matches!(self.state, State::GivenUp) {
            self.state = State::Heard(now);
        }
    }

    /// Time has passed, or a call has begun. `None` if nothing is due.
    pub fn handle_timeout(&mut self, now: Instant, in_use: bool) -> Option<KeepaliveAction> {
        let now = self.advance(now);
        if self.poll_timeout(in_use).is_none_or(|due| now < due) {
            return None;
        }
        match self.state {
            State::Heard(_) => {
                self.state = State::Pinged(now.saturating_add(self.settings.timeout));
                Some(KeepaliveAction::Ping)
            }
            State::Pinged(_) => {
                self.state = State::GivenUp;
                Some(KeepaliveAction::GiveUp)
            }
            State::GivenUp => None,
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    #[must_use]
    pub fn poll_timeout(&self, in_use: bool) -> Option<Instant> {
        match self.state {
            State::Heard(at) if in_use || self.settings.without_calls => {
                Some(at.saturating_add(self.settings.effective_time()))
            }
            State::Pinged(until) => Some(until),
            State::Heard(_) | State::GivenUp => None,
        }
    }

    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: KeepaliveSettings = KeepaliveSettings {
        time: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        without_calls: false,
    };

    fn at(seconds: u64) -> Instant {
        Instant::ZERO.saturating_add(Duration::from_secs(seconds))
    }

    fn just_before(instant: Instant) -> Instant {
        Instant::from_nanos(instant.as_nanos() - 1)
    }

    #[test]
    fn a_silent_peer_is_pinged_and_given_up_to_the_nanosecond() {
        let mut keepalive = Keepalive::new(SETTINGS, at(0));
        assert_eq!(keepalive.poll_timeout(true), Some(at(10)));
        assert_eq!(keepalive.handle_timeout(just_before(at(10)), true), None);
        let ping = keepalive.handle_timeout(at(10), true);
        assert_eq!(ping, Some(KeepaliveAction::Ping));
        assert_eq!(keepalive.poll_timeout(true), Some(at(12)));
        assert_eq!(keepalive.handle_timeout(just_before(at(12)), true), None);
        let end = keepalive.handle_timeout(at(12), true);
        assert_eq!(end, Some(KeepaliveAction::GiveUp));
        keepalive.handle_read(at(13));
        assert_eq!(keepalive.poll_timeout(true), None, "it is over");
        assert_eq!(keepalive.handle_timeout(at(100), true), None);
    }

    #[test]
    fn any_byte_is_an_answer() {
        let mut keepalive = Keepalive::new(SETTINGS, at(0));
        keepalive.handle_read(at(4));
        assert_eq!(keepalive.handle_timeout(at(10), true), None);
        let ping = keepalive.handle_timeout(at(14), true);
        assert_eq!(ping, Some(KeepaliveAction::Ping));
        keepalive.handle_read(at(15));
        assert_eq!(keepalive.poll_timeout(true), Some(at(25)));
    }

    #[test]
    fn without_a_call_nothing_is_sent_until_one_begins() {
        let mut keepalive = Keepalive::new(SETTINGS, at(0));
        assert_eq!(keepalive.poll_timeout(false), None);
        assert_eq!(keepalive.handle_timeout(at(60), false), None);
        let ping = keepalive.handle_timeout(at(60), true);
        assert_eq!(ping, Some(KeepaliveAction::Ping));
        assert_eq!(
            keepalive.poll_timeout(false),
            Some(at(62)),
            "a ping that is out is waited for"
        );

        let always = KeepaliveSettings {
            without_calls: true,
            ..SETTINGS
        };
        let keepalive = Keepalive::new(always, at(0));
        assert_eq!(keepalive.poll_timeout(false), Some(at(10)));
    }

    #[test]
    fn a_late_look_waits_as_long_for_the_answer() {
        let mut keepalive = Keepalive::new(SETTINGS, at(0));
        let ping = keepalive.handle_timeout(at(50), true);
        assert_eq!(ping, Some(KeepaliveAction::Ping));
        assert_eq!(keepalive.poll_timeout(true), Some(at(52)));
    }

    #[test]
    fn a_clock_that_steps_back_changes_nothing() {
        let mut keepalive = Keepalive::new(SETTINGS, at(20));
        keepalive.handle_read(at(5));
        assert_eq!(keepalive.poll_timeout(true), Some(at(30)));
    }

    #[test]
    fn no_time_is_too_short_or_too_long() {
        let hasty = KeepaliveSettings::new(Duration::ZERO);
        assert_eq!(hasty.effective_time(), MIN_TIME);
        assert_eq!(hasty.backed_off().time, 2 * MIN_TIME);
        let keepalive = Keepalive::new(hasty, at(0));
        assert_eq!(keepalive.poll_timeout(true), Some(at(10)));

        let mut slow = KeepaliveSettings::new(Duration::MAX / 2);
        for _ in 0..3 {
            slow = slow.backed_off();
        }
        assert_eq!(slow.time, Duration::MAX);
        let keepalive = Keepalive::new(slow, at(1));
        assert_eq!(
            keepalive.poll_timeout(true),
            Some(Instant::from_nanos(u64::MAX))
        );
    }
}

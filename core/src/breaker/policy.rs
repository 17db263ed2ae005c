//! When to open and when to close: code, so that a user's can stand in its place.

use super::Counts;

/// What to do after a probe was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeVerdict {
    /// Stay half-open.
    KeepProbing,
    /// The server is still in trouble: open again.
    Open,
    /// The server is well: close.
    Close,
}

/// Decides when a [`Breaker`](super::Breaker) opens and closes.
///
/// Called while the breaker is locked: answer from the counts, don't block, and don't call
/// the client. A panic passes to the caller whose result was being counted; the result is
/// counted by then, and the call's budget is not charged.
pub trait BreakerPolicy: Send + Sync {
    /// Whether to open. Asked while closed after every counted result, a success as well:
    /// one that completes a window half full of failures opens the breaker too.
    fn should_open(&self, counts: &Counts) -> bool;

    /// What to do while half-open. Asked after every counted result and after probes timed
    /// out.
    fn judge_probes(&self, counts: &Counts) -> ProbeVerdict;
}

/// Opens on 5 failures in a row, or when at least 20 results are in and half or more of
/// them failed (with a `window` below 20, on the row alone). Half-open, a failed probe
/// opens again and 3 successes close; a probe that timed out does neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultPolicy;

impl BreakerPolicy for DefaultPolicy {
    fn should_open(&self, counts: &Counts) -> bool {
        counts.consecutive_failures >= 5
            || (counts.results() >= 20 && counts.failures >= counts.successes)
    }

    fn judge_probes(&self, counts: &Counts) -> ProbeVerdict {
        if counts.failures > 0 {
            ProbeVerdict::Open
        } else if counts.successes >= 3 {
            ProbeVerdict::Close
        } else {
            ProbeVerdict::KeepProbing
        }
    }
}

/// Never opens: the way to switch a breaker off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeverOpen;

impl BreakerPolicy for NeverOpen {
    fn should_open(&self, _: &Counts) -> bool {
        false
    }

    fn judge_probes(&self, _: &Counts) -> ProbeVerdict {
        ProbeVerdict::Close
    }
}

/// A policy of two functions.
///
/// ```
/// use std::sync::Arc;
/// use steadfast_core::{Breaker, BreakerSettings, ProbeVerdict, policy_fn};
///
/// let policy = policy_fn(
///     |counts| counts.consecutive_failures >= 2,
///     |counts| match (counts.failures + counts.timed_out, counts.successes) {
///         (1.., _) => ProbeVerdict::Open,
///         (0, 1..) => ProbeVerdict::Close,
///         (0, 0) => ProbeVerdict::KeepProbing,
///     },
/// );
/// let breaker = Breaker::with_policy(BreakerSettings::default(), Arc::new(policy));
/// ```
pub fn policy_fn<O, J>(should_open: O, judge_probes: J) -> impl BreakerPolicy
where
    O: Fn(&Counts) -> bool + Send + Sync,
    J: Fn(&Counts) -> ProbeVerdict + Send + Sync,
{
    PolicyFn {
        should_open,
        judge_probes,
    }
}

struct PolicyFn<O, J> {
    should_open: O,
    judge_probes: J,
}

impl<O, J> BreakerPolicy for PolicyFn<O, J>
where
    O: Fn(&Counts) -> bool + Send + Sync,
    J: Fn(&Counts) -> ProbeVerdict + Send + Sync,
{
    fn should_open(&self, counts: &Counts) -> bool {
        (self.should_open)(counts)
    }

    fn judge_probes(&self, counts: &Counts) -> ProbeVerdict {
        (self.judge_probes)(counts)
    }
}

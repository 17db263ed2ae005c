//! The naive call.

use std::time::Duration;

use steadfast_core::{
    BreakerOutcome, Classification, End, Instant, Next, Random, RetryOutcome, Unprocessed, Wait,
    WaitReason,
};

/// How much of its ceiling the next draw is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Jitter {
    None,
    Half,
    All,
}

pub(crate) struct Draws {
    pub(crate) jitter: Jitter,
    pub(crate) made: u32,
}

impl Random for Draws {
    fn next_u64(&mut self) -> u64 {
        self.made += 1;
        match self.jitter {
            Jitter::None => 0,
            Jitter::Half => 1 << 63,
            Jitter::All => u64::MAX,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    New,
    Attempting,
    Waiting(u64),
    Over,
}

/// One call as the rules have it. Times and waits are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) max_attempts: u32,
    pub(crate) base: u64,
    pub(crate) max: u64,
    pub(crate) deadline: Option<u64>,
    pub(crate) phase: Phase,
    pub(crate) attempts: u32,
    pub(crate) refused: bool,
}

/// What the rules say that all calls share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shared {
    pub(crate) tokens: i64,
    pub(crate) full: i64,
    pub(crate) earns: i64,
    pub(crate) successes: u32,
    pub(crate) failures: u32,
    pub(crate) draws: u32,
}

impl Shared {
    pub(crate) fn pay(&mut self) -> bool {
        self.tokens = (self.tokens - 1_000).max(0);
        self.tokens * 2 > self.full
    }

    pub(crate) fn earn(&mut self) {
        self.tokens = (self.tokens + self.earns).min(self.full);
    }

    pub(crate) fn tell(&mut self, outcome: BreakerOutcome) {
        match outcome {
            BreakerOutcome::Success => self.successes += 1,
            BreakerOutcome::Failure => self.failures += 1,
            BreakerOutcome::Ignored => {}
        }
    }
}

impl Model {
    pub(crate) fn expired(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    pub(crate) fn finish(&mut self, end: End) -> Next {
        self.phase = Phase::Over;
        Next::Finish(end)
    }

    pub(crate) fn attempt(&mut self, now: u64) -> Next {
        if self.expired(now) {
            return self.finish(End::Expired);
        }
        self.attempts += 1;
        self.phase = Phase::Attempting;
        Next::Attempt {
            number: self.attempts,
        }
    }

    pub(crate) fn start(&mut self, now: u64) -> Next {
        if self.phase == Phase::New {
            self.attempt(now)
        } else {
            self.finish(End::Abandoned)
        }
    }

    /// The ceiling before retry `n`, by doubling step by step.
    pub(crate) fn ceiling(&self, n: u32) -> u64 {
        let mut ceiling = self.base;
        for _ in 1..n {
            ceiling = (ceiling * 2).min(self.max);
        }
        ceiling.min(self.max)
    }

    pub(crate) fn result(
        &mut self,
        result: Classification,
        replayable: bool,
        now: u64,
        jitter: Jitter,
        shared: &mut Shared,
    ) -> Next {
        if self.phase != Phase::Attempting {
            return self.finish(End::Abandoned);
        }
        shared.tell(result.breaker);
        let mut untried = false;
        let after = match result.retry {
            RetryOutcome::Success => {
                shared.earn();
                return self.finish(End::Succeeded);
            }
            RetryOutcome::Refused => {
                shared.pay();
                return self.finish(End::Refused);
            }
            RetryOutcome::Stop => return self.finish(End::Stopped),
            RetryOutcome::Retry { after } => after,
            RetryOutcome::Untried { after } => {
                untried = true;
                after
            }
        };
        if self.expired(now) {
            return self.finish(End::Expired);
        }
        // What was not tried costs nothing.
        if !untried && !shared.pay() {
            return self.finish(End::BudgetSpent);
        }
        if self.attempts >= self.max_attempts {
            return self.finish(End::Exhausted);
        }
        if !replayable {
            return self.finish(End::Committed);
        }
        if after > Duration::from_nanos(self.max) {
            return self.finish(if untried {
                End::Unreachable { for_another: after }
            } else {
                End::PushbackTooLong { asked: after }
            });
        }
        shared.draws += 1;
        let ceiling = self.ceiling(self.attempts);
        let draw = match jitter {
            Jitter::None => 0,
            Jitter::Half => ceiling.div_ceil(2),
            Jitter::All => ceiling,
        };
        let asked = after.as_nanos() as u64;
        let wait = if untried {
            draw + asked
        } else {
            draw.max(asked)
        };
        if self.expired(now + wait) {
            let wait = Duration::from_nanos(wait);
            return self.finish(End::WaitPastDeadline { wait });
        }
        if wait == 0 {
            return self.attempt(now);
        }
        self.phase = Phase::Waiting(now + wait);
        Next::Wait(Wait {
            until: Instant::from_nanos(now + wait),
            reason: match untried {
                true if asked > 0 => WaitReason::Connection,
                false if asked > draw => WaitReason::Pushback,
                _ => WaitReason::Backoff,
            },
        })
    }

    pub(crate) fn timeout(&mut self, now: u64, shared: &mut Shared) -> Option<Next> {
        match self.phase {
            Phase::Attempting if self.expired(now) => {
                shared.tell(BreakerOutcome::Failure);
                Some(self.finish(End::Expired))
            }
            Phase::Waiting(until) if until <= now => Some(self.attempt(now)),
            _ => None,
        }
    }

    pub(crate) fn unprocessed(&mut self, why: Unprocessed, now: u64) -> bool {
        if self.phase != Phase::Attempting || self.expired(now) {
            return false;
        }
        why == Unprocessed::NotSent || !std::mem::replace(&mut self.refused, true)
    }

    pub(crate) fn opened(&mut self, shared: &mut Shared) -> bool {
        let opens = self.phase == Phase::Attempting;
        if opens {
            shared.earn();
            self.phase = Phase::Over;
        }
        opens
    }

    pub(crate) fn due(&self) -> Option<u64> {
        match self.phase {
            Phase::Attempting => self.deadline,
            Phase::Waiting(until) => Some(until),
            Phase::New | Phase::Over => None,
        }
    }
}

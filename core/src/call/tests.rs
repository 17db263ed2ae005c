//! The rig that the tests of the call machine share.

use core::time::Duration;

use super::*;
use crate::breaker::{BreakerSettings, BreakerState, NeverOpen};
use crate::budget::RetryBudget;
use alloc::sync::Arc;

mod endings;
mod retries;
mod timeouts;
mod transparent;
mod untried;

/// Answers the same bits each time, and counts how often it was asked.
struct Pinned {
    bits: u64,
    draws: u32,
}

impl Random for Pinned {
    fn next_u64(&mut self) -> u64 {
        self.draws += 1;
        self.bits
    }
}

/// Every draw is the whole ceiling.
const fn highest() -> Pinned {
    Pinned {
        bits: u64::MAX,
        draws: 0,
    }
}

/// Every draw is zero.
const fn lowest() -> Pinned {
    Pinned { bits: 0, draws: 0 }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn before(instant: Instant) -> Instant {
    Instant::from_nanos(instant.as_nanos() - 1)
}

/// 100 ms doubling up to 1 s.
fn policy(max_attempts: u32) -> RetryPolicy {
    RetryPolicy {
        max_attempts,
        backoff: Backoff::new(millis(100), millis(1_000)),
    }
}

/// A breaker that never opens, so that its counts are the results it was told, and a full
/// default budget.
fn unbroken() -> Protection {
    with_tokens(10)
}

fn with_tokens(max_tokens: u32) -> Protection {
    let settings = BreakerSettings {
        window: 65_535,
        ..BreakerSettings::default()
    };
    Protection {
        breaker: Breaker::with_policy(settings, Arc::new(NeverOpen)),
        budget: Budget::new(RetryBudget {
            max_tokens,
            token_ratio: 0.1,
        }),
    }
}

/// Opened at zero by the default policy, for ten seconds, with one probe.
fn opened() -> Protection {
    let mut breaker = Breaker::new(BreakerSettings::default());
    for _ in 0..5 {
        let ticket = breaker.admit(at(0)).expect("closed");
        breaker.settle(ticket, BreakerOutcome::Failure, at(0));
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    Protection {
        breaker,
        budget: Budget::new(RetryBudget::default()),
    }
}

fn started(policy: RetryPolicy, deadline: Option<Instant>, protection: &mut Protection) -> Call {
    let mut call = Call::new(policy, deadline);
    let next = call.handle_start(at(0), protection);
    assert_eq!(next, Next::Attempt { number: 1 });
    call
}

/// Successes and failures that the breaker was told.
fn told(protection: &Protection) -> (u32, u32) {
    let counts = protection.breaker.counts();
    (counts.successes, counts.failures)
}

/// Tokens that were paid from a full default bucket, in thousandths.
fn paid(protection: &Protection) -> u32 {
    10_000 - protection.budget.millitokens()
}

fn wait(until: Instant, reason: WaitReason) -> Next {
    Next::Wait(Wait { until, reason })
}

/// Drives a call to its end against a server that answers `results` in turn and the last
/// one for ever. Answers the end and every wait.
fn run(
    call: &mut Call,
    results: &[Classification],
    protection: &mut Protection,
    random: &mut Pinned,
) -> (End, alloc::vec::Vec<Wait>) {
    let mut results = results.iter().copied();
    let mut result = results.next().expect("at least one result");
    let mut now = at(0);
    let mut waits = alloc::vec::Vec::new();
    let mut next = call.handle_start(now, protection);
    loop {
        next = match next {
            Next::Attempt { .. } => {
                let next = call.handle_result(result, true, now, protection, random);
                result = results.next().unwrap_or(result);
                next
            }
            Next::Wait(wait) => {
                assert_eq!(call.poll_timeout(), Some(wait));
                assert!(wait.until > now, "a wait is never in the past");
                now = wait.until;
                waits.push(wait);
                call.handle_timeout(now, protection).expect("due")
            }
            Next::Finish(end) => return (end, waits),
        };
    }
}

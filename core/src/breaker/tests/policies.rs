//! Policies of the user's own: what they are asked, as of when, and what their panics leave.

use super::*;
use alloc::sync::Arc;

#[test]
fn a_timed_out_probe_is_put_to_the_policy() {
    let policy = policy_fn(
        |counts| counts.failures > 0,
        |counts| match counts.timed_out {
            0 => ProbeVerdict::KeepProbing,
            1 => ProbeVerdict::Open,
            _ => ProbeVerdict::Close,
        },
    );
    let mut breaker = Breaker::with_policy(
        BreakerSettings {
            probes: 2,
            ..settings()
        },
        Arc::new(policy),
    );
    attempt(&mut breaker, Failure, at(0));
    let _leaked = breaker.admit(at(10_000)).unwrap();
    let rejected = breaker.admit(at(25_000)).unwrap_err();
    assert_eq!(
        (rejected.state, rejected.remaining),
        (BreakerState::Open, Duration::from_secs(5)),
        "open since the probe timed out, not since somebody looked"
    );
    let _leaked = (
        breaker.admit(at(35_000)).unwrap(),
        breaker.admit(at(35_000)).unwrap(),
    );
    let admitted = breaker.admit(at(46_000));
    assert_eq!(breaker.state(), BreakerState::Closed);
    breaker.settle(admitted.expect("closed by the policy"), Success, at(46_000));
    assert_eq!(breaker.counts().successes, 1);
    let transitions: Vec<_> = core::iter::from_fn(|| breaker.poll_transition())
        .map(|t| (t.to, t.at))
        .collect();
    assert_eq!(
        transitions,
        [
            (BreakerState::Open, at(0)),
            (BreakerState::HalfOpen, at(10_000)),
            (BreakerState::Open, at(20_000)),
            (BreakerState::HalfOpen, at(35_000)),
            (BreakerState::Closed, at(45_000)),
        ]
    );
}

#[test]
fn probes_leaked_one_after_another_are_put_to_the_policy_one_after_another() {
    let policy = policy_fn(
        |counts| counts.failures > 0,
        |counts| match counts.timed_out {
            1 => ProbeVerdict::Open,
            _ => ProbeVerdict::KeepProbing,
        },
    );
    let mut breaker = Breaker::with_policy(
        BreakerSettings {
            probes: 2,
            ..settings()
        },
        Arc::new(policy),
    );
    attempt(&mut breaker, Failure, at(0));
    let _leaked = breaker.admit(at(10_000)).unwrap();
    let stale = breaker.admit(at(11_000)).unwrap();
    breaker.settle(stale, Ignored, at(21_000));
    assert_eq!(breaker.state(), BreakerState::Open);
    assert_eq!(
        breaker.admit(at(21_000)).unwrap_err().remaining,
        Duration::from_secs(9)
    );
}

#[test]
fn a_leaked_probe_never_shuts_the_breaker_for_longer_than_both_periods() {
    let policy = policy_fn(
        |counts| counts.failures > 0,
        |counts| match counts.timed_out {
            0 => ProbeVerdict::KeepProbing,
            _ => ProbeVerdict::Open,
        },
    );
    let mut breaker = Breaker::with_policy(settings(), Arc::new(policy));
    attempt(&mut breaker, Failure, at(0));
    for round in 0..10 {
        let leaked = breaker.admit(at(10_000 + 20_000 * round));
        assert!(leaked.is_ok(), "round {round}");
    }
}

#[test]
fn a_policy_that_panics_leaves_the_result_counted_and_no_slot_taken() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    let policy = policy_fn(
        |counts| match counts.results() {
            1 => panic!("the user's own fault"),
            _ => true,
        },
        |counts| match counts.results() + counts.timed_out {
            1 => panic!("the user's own fault"),
            _ => ProbeVerdict::KeepProbing,
        },
    );
    let mut breaker = Breaker::with_policy(settings(), Arc::new(policy));
    let ticket = breaker.admit(at(0)).unwrap();
    let settled = catch_unwind(AssertUnwindSafe(|| {
        breaker.settle(ticket, Failure, at(0));
    }));
    assert!(settled.is_err());
    assert_eq!(breaker.counts().failures, 1);
    attempt(&mut breaker, Failure, at(0));

    let _leaked = breaker.admit(at(10_000)).unwrap();
    let admitted = catch_unwind(AssertUnwindSafe(|| breaker.admit(at(20_000))));
    assert!(admitted.is_err());
    assert_eq!(breaker.counts().timed_out, 1);
    attempt(&mut breaker, Success, at(20_000));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert_eq!(breaker.counts().successes, 1);
}

#[test]
fn a_breaker_that_never_opens_never_opens() {
    let mut breaker = Breaker::with_policy(settings(), Arc::new(NeverOpen));
    for _ in 0..1_000 {
        attempt(&mut breaker, Failure, at(0));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(
        NeverOpen.judge_probes(&Counts::default()),
        ProbeVerdict::Close
    );
}

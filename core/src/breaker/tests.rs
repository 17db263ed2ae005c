use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use BreakerOutcome::{Failure, Ignored, Success};

mod policies;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn settings() -> BreakerSettings {
    BreakerSettings::default()
}

/// Makes one attempt that ends at once.
fn attempt(breaker: &mut Breaker, outcome: BreakerOutcome, now: Instant) {
    let ticket = breaker.admit(now).expect("admitted");
    breaker.settle(ticket, outcome, now);
}

fn opened(settings: BreakerSettings) -> Breaker {
    let mut breaker = Breaker::new(settings);
    for _ in 0..5 {
        attempt(&mut breaker, Failure, at(0));
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    breaker
}

fn half_opened(probes: u32) -> Breaker {
    let mut breaker = opened(BreakerSettings {
        probes,
        ..settings()
    });
    while breaker.poll_transition().is_some() {}
    let ticket = breaker.admit(at(10_000)).expect("half-opens");
    breaker.settle(ticket, Ignored, at(10_000));
    breaker
}

#[test]
fn opens_on_the_fifth_failure_in_a_row() {
    let mut breaker = Breaker::new(settings());
    for outcome in [Failure, Failure, Failure, Failure, Success] {
        attempt(&mut breaker, outcome, at(0));
    }
    for _ in 0..4 {
        attempt(&mut breaker, Failure, at(1));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    attempt(&mut breaker, Failure, at(2));
    assert_eq!(breaker.state(), BreakerState::Open);
    let transition = breaker.poll_transition().expect("a change");
    assert_eq!(
        (transition.from, transition.to, transition.at),
        (BreakerState::Closed, BreakerState::Open, at(2))
    );
    assert_eq!(
        transition.counts,
        Counts {
            successes: 1,
            failures: 9,
            consecutive_successes: 0,
            consecutive_failures: 5,
            timed_out: 0
        }
    );
    assert_eq!(breaker.poll_transition(), None);
    assert_eq!(breaker.counts(), Counts::default());
}

#[test]
fn opens_when_twenty_results_are_in_and_half_failed() {
    let mut breaker = Breaker::new(settings());
    for _ in 0..9 {
        attempt(&mut breaker, Failure, at(0));
        attempt(&mut breaker, Success, at(0));
    }
    attempt(&mut breaker, Failure, at(0));
    assert_eq!(breaker.counts().results(), 19);
    assert_eq!(breaker.state(), BreakerState::Closed);
    attempt(&mut breaker, Success, at(0));
    assert_eq!(
        breaker.state(),
        BreakerState::Open,
        "the success that completes the window opens it too"
    );
}

#[test]
fn stays_closed_while_fewer_than_half_failed() {
    let mut breaker = Breaker::new(settings());
    for _ in 0..200 {
        attempt(&mut breaker, Success, at(0));
        attempt(&mut breaker, Failure, at(0));
        attempt(&mut breaker, Success, at(0));
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn rejects_until_the_period_is_over_and_half_opens_with_the_first_call_after() {
    let mut breaker = opened(settings());
    assert_eq!(
        breaker.admit(at(4_000)),
        Err(Rejected {
            state: BreakerState::Open,
            remaining: Duration::from_secs(6)
        })
    );
    assert_eq!(
        breaker
            .admit(Instant::from_nanos(9_999_999_999))
            .unwrap_err()
            .remaining,
        Duration::from_nanos(1)
    );
    assert_eq!(breaker.state(), BreakerState::Open);
    let probe = breaker.admit(at(10_000)).expect("the period is over");
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    breaker.settle(probe, Success, at(10_000));
}

#[test]
fn a_failed_probe_opens_for_a_whole_period_again() {
    let mut breaker = half_opened(1);
    attempt(&mut breaker, Failure, at(31_000));
    assert_eq!(breaker.state(), BreakerState::Open);
    assert!(breaker.admit(at(40_999)).is_err());
    assert!(breaker.admit(at(41_000)).is_ok());
}

#[test]
fn three_successes_close_with_an_empty_window() {
    let mut breaker = half_opened(1);
    attempt(&mut breaker, Success, at(10_001));
    attempt(&mut breaker, Ignored, at(10_002));
    attempt(&mut breaker, Success, at(10_003));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    attempt(&mut breaker, Success, at(10_004));
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(breaker.counts(), Counts::default());
    let transitions: Vec<_> = core::iter::from_fn(|| breaker.poll_transition())
        .map(|t| (t.from, t.to, t.counts.successes))
        .collect();
    assert_eq!(
        transitions,
        [
            (BreakerState::Open, BreakerState::HalfOpen, 0),
            (BreakerState::HalfOpen, BreakerState::Closed, 3)
        ]
    );
}

#[test]
fn never_more_probes_out_than_permitted() {
    for probes in [1, 3] {
        let mut breaker = opened(BreakerSettings {
            probes,
            ..settings()
        });
        let mut admitted: Vec<_> = (0..100)
            .filter_map(|_| breaker.admit(at(10_000)).ok())
            .collect();
        assert_eq!(admitted.len(), probes as usize);
        breaker.settle(admitted.remove(0), Ignored, at(10_001));
        let again: Vec<_> = (0..100)
            .filter_map(|_| breaker.admit(at(10_001)).ok())
            .collect();
        assert_eq!(again.len(), 1);
        let rejected = breaker.admit(at(10_001)).unwrap_err();
        assert_eq!(rejected.state, BreakerState::HalfOpen);
        let oldest = if probes == 1 { 10_001 } else { 10_000 };
        assert_eq!(
            rejected.remaining,
            Duration::from_millis(oldest + 10_000 - 10_001)
        );
    }
}

#[test]
fn a_leaked_probe_frees_its_slot_and_counts_as_timed_out() {
    let mut breaker = half_opened(1);
    let leaked = breaker.admit(at(10_000)).unwrap();
    assert!(breaker.admit(Instant::from_nanos(19_999_999_999)).is_err());
    let next = breaker.admit(at(20_000)).expect("free again");
    assert_eq!(breaker.counts().timed_out, 1);
    breaker.settle(leaked, Failure, at(20_001));
    assert_eq!(
        breaker.state(),
        BreakerState::HalfOpen,
        "its late failure is not heard"
    );
    breaker.settle(next, Success, at(20_002));
    assert_eq!(breaker.counts().successes, 1);
}

#[test]
fn a_probe_settled_at_its_timeout_is_too_late() {
    let mut breaker = half_opened(1);
    let probe = breaker.admit(at(10_000)).unwrap();
    breaker.settle(probe, Failure, at(20_000));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert_eq!(
        (breaker.counts().failures, breaker.counts().timed_out),
        (0, 1)
    );
}

#[test]
fn results_from_an_earlier_state_count_for_nothing() {
    let mut breaker = Breaker::new(settings());
    let early_failure = breaker.admit(at(0)).unwrap();
    let early_success = breaker.admit(at(0)).unwrap();
    for _ in 0..5 {
        attempt(&mut breaker, Failure, at(0));
    }
    breaker.settle(early_success, Success, at(1));
    assert_eq!(breaker.state(), BreakerState::Open);
    let probe = breaker.admit(at(10_000)).unwrap();
    breaker.settle(early_failure, Failure, at(10_000));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert_eq!(breaker.counts(), Counts::default());
    breaker.settle(probe, Success, at(10_000));
    assert_eq!(breaker.counts().successes, 1);
}

#[test]
fn a_clock_that_steps_back_changes_nothing() {
    let mut breaker = opened(settings());
    assert!(breaker.admit(at(6_000)).is_err());
    assert_eq!(
        breaker.admit(at(1_000)).unwrap_err().remaining,
        Duration::from_secs(4),
        "not nine"
    );
    let probe = breaker.admit(at(10_000)).unwrap();
    assert!(breaker.admit(at(0)).is_err());
    breaker.settle(probe, Failure, at(3_000));
    assert_eq!(
        breaker.admit(at(10_000)).unwrap_err().remaining,
        Duration::from_secs(10)
    );
}

#[test]
fn the_end_of_time_is_no_overflow() {
    let mut breaker = Breaker::new(BreakerSettings {
        open_for: Duration::MAX,
        probe_timeout: Duration::MAX,
        ..settings()
    });
    let last = Instant::from_nanos(u64::MAX);
    for _ in 0..5 {
        attempt(&mut breaker, Failure, at(1));
    }
    assert!(breaker.admit(at(2)).is_err());
    assert!(breaker.admit(last).is_ok());
}

#[test]
fn is_quiet_while_closed_without_a_failure_in_the_window() {
    let mut breaker = Breaker::new(BreakerSettings {
        window: 2,
        ..settings()
    });
    assert!(breaker.is_quiet());
    attempt(&mut breaker, Failure, at(0));
    attempt(&mut breaker, Success, at(0));
    assert!(!breaker.is_quiet());
    attempt(&mut breaker, Success, at(0));
    assert!(breaker.is_quiet(), "the failure left the window");
    let breaker = half_opened(1);
    assert_eq!(breaker.counts().failures, 0);
    assert!(!breaker.is_quiet());
    assert!(!opened(settings()).is_quiet());
}

#[test]
fn numbers_out_of_range_are_brought_to_the_nearest_end() {
    let mut breaker = Breaker::new(BreakerSettings {
        window: 0,
        probes: 0,
        open_for: Duration::ZERO,
        probe_timeout: Duration::ZERO,
    });
    for _ in 0..5 {
        attempt(&mut breaker, Failure, at(0));
    }
    assert!(breaker.admit(at(0)).is_err());
    assert!(breaker.admit(Instant::from_nanos(1)).is_ok());
    assert!(breaker.admit(Instant::from_nanos(1)).is_err());
    let widest = Breaker::new(BreakerSettings {
        window: u32::MAX,
        ..settings()
    });
    assert_eq!(widest.settings.window, 65_535);
}

#[test]
fn texts_say_how_long() {
    let rejected = |state, millis| {
        format!(
            "{}",
            Rejected {
                state,
                remaining: Duration::from_millis(millis)
            }
        )
    };
    assert_eq!(
        rejected(BreakerState::Open, 4_200),
        "circuit breaker open for another 4.2s"
    );
    assert_eq!(
        rejected(BreakerState::Open, 4_201),
        "circuit breaker open for another 4.3s"
    );
    assert_eq!(
        rejected(BreakerState::Open, 1),
        "circuit breaker open for another 0.1s"
    );
    assert_eq!(
        rejected(BreakerState::HalfOpen, 10_000),
        "circuit breaker half-open, its probes out for at most another 10.0s"
    );
    assert_eq!(format!("{}", BreakerState::Closed), "closed");
    assert_eq!(format!("{}", BreakerState::Open), "open");
    assert_eq!(format!("{}", BreakerState::HalfOpen), "half-open");
    let breaker = Breaker::new(settings());
    let text = format!("{breaker:?}");
    assert!(
        text.contains("Closed") && text.contains("consecutive_failures: 0"),
        "{text}"
    );
}

#[test]
fn a_pass_is_good_until_the_state_changes() {
    let mut breaker = Breaker::new(settings());
    let pass = breaker.pass().expect("closed");
    assert_eq!(Pass::from_bits(pass.to_bits()), Some(pass));
    assert_ne!(pass.to_bits(), 0);
    assert_eq!(Pass::from_bits(0), None);
    for _ in 0..4 {
        breaker.settle(pass.ticket(), Failure, at(0));
    }
    assert_eq!(breaker.pass(), Some(pass));
    breaker.settle(pass.ticket(), Failure, at(0));
    assert_eq!(
        (breaker.state(), breaker.pass()),
        (BreakerState::Open, None)
    );
    let probe = breaker.admit(at(10_000)).expect("half-open");
    assert_eq!(breaker.pass(), None);
    breaker.settle(pass.ticket(), Failure, at(10_000));
    assert_eq!(
        breaker.counts(),
        Counts::default(),
        "its ticket is stale by now"
    );
    breaker.settle(probe, Success, at(10_000));
    for _ in 0..2 {
        attempt(&mut breaker, Success, at(10_000));
    }
    let again = breaker.pass().expect("closed again");
    assert_ne!(again, pass);
    assert_eq!(Pass::from_bits(again.to_bits()), Some(again));
}

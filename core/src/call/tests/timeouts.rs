//! Deadlines and waits: early, at the nanosecond, late, and with a clock that steps back.

use super::*;
use WaitReason::{Backoff as Scheduled, Deadline};

const RETRY: Classification = Classification::RETRY;

#[test]
fn an_attempt_waits_for_nothing_but_the_deadline() {
    let mut protection = unbroken();
    let call = started(policy(3), None, &mut protection);
    assert_eq!((call.deadline(), call.poll_timeout()), (None, None));
    let call = started(policy(3), Some(at(80)), &mut protection);
    assert_eq!(call.deadline(), Some(at(80)));
    let until = Wait {
        until: at(80),
        reason: Deadline,
    };
    assert_eq!(call.poll_timeout(), Some(until));
}

#[test]
fn a_call_not_started_waits_for_nothing() {
    let mut protection = unbroken();
    let mut call = Call::new(policy(3), Some(at(80)));
    assert_eq!(call.poll_timeout(), None);
    assert_eq!(call.handle_timeout(at(70), &mut protection), None);
    let next = call.handle_start(at(70), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 });
}

#[test]
fn the_deadline_ends_an_attempt_as_a_failure_without_a_token() {
    for late in [0, 1, 1_000_000] {
        let mut protection = unbroken();
        let mut call = started(policy(3), Some(at(80)), &mut protection);
        assert_eq!(call.handle_timeout(before(at(80)), &mut protection), None);
        assert!(call.is_attempting());
        let now = Instant::from_nanos(at(80).as_nanos() + late);
        assert_eq!(
            call.handle_timeout(now, &mut protection),
            Some(Next::Finish(End::Expired))
        );
        assert_eq!((paid(&protection), told(&protection)), (0, (0, 1)));
        assert_eq!(call.handle_timeout(now, &mut protection), None);
        assert_eq!(call.poll_timeout(), None);
    }
}

#[test]
fn a_deadline_that_passed_before_the_start_makes_no_attempt() {
    let mut protection = opened();
    for now in [at(10_000), at(60_000)] {
        let mut call = Call::new(policy(3), Some(at(10_000)));
        let next = call.handle_start(now, &mut protection);
        assert_eq!(next, Next::Finish(End::Expired));
        assert_eq!((call.attempts(), call.poll_timeout()), (0, None));
    }
    assert_eq!(paid(&protection), 0);
    assert_eq!(
        protection.breaker.state(),
        BreakerState::Open,
        "the breaker was not asked, and its probe is left to a call that can use it"
    );
    let mut call = Call::new(policy(3), Some(at(10_001)));
    let next = call.handle_start(before(at(10_001)), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 });
}

#[test]
fn a_wait_that_is_noticed_after_the_deadline_takes_no_ticket() {
    let mut protection = unbroken();
    let mut call = started(policy(3), Some(at(200)), &mut protection);
    let next = call.handle_result(RETRY, true, at(0), &mut protection, &mut highest());
    assert_eq!(next, wait(at(100), Scheduled));
    assert_eq!(
        call.handle_timeout(at(200), &mut protection),
        Some(Next::Finish(End::Expired))
    );
    assert_eq!(call.attempts(), 1);
    assert_eq!((paid(&protection), told(&protection)), (1_000, (0, 1)));
}

#[test]
fn a_wait_that_is_noticed_late_but_in_time_goes_on() {
    let mut protection = unbroken();
    let mut call = started(policy(3), Some(at(200)), &mut protection);
    let next = call.handle_result(RETRY, true, at(0), &mut protection, &mut highest());
    assert_eq!(next, wait(at(100), Scheduled));
    assert_eq!(
        call.handle_timeout(before(at(200)), &mut protection),
        Some(Next::Attempt { number: 2 })
    );
    assert_eq!(call.poll_timeout().expect("the deadline").until, at(200));
}

#[test]
fn a_success_that_is_reported_after_the_deadline_is_a_success() {
    let mut protection = unbroken();
    let mut call = started(policy(3), Some(at(80)), &mut protection);
    let success = Classification::SUCCESS;
    let next = call.handle_result(success, true, at(90), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Succeeded));
}

#[test]
fn a_clock_that_steps_back_neither_shortens_nor_lengthens_a_call() {
    let mut protection = unbroken();
    let mut call = Call::new(policy(3), Some(at(1_000)));
    let next = call.handle_start(at(500), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 });
    let next = call.handle_result(RETRY, true, at(100), &mut protection, &mut highest());
    assert_eq!(next, wait(at(600), Scheduled), "as if reported at 500 ms");
    assert_eq!(call.handle_timeout(at(0), &mut protection), None);
    assert_eq!(
        call.handle_timeout(at(600), &mut protection),
        Some(Next::Attempt { number: 2 })
    );
    assert!(!call.handle_unprocessed(Unprocessed::NotSent, at(1_000)));
    let next = call.handle_result(RETRY, true, at(600), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Expired), "the deadline was seen");
}

#[test]
fn an_abandoned_probe_frees_its_slot_also_with_a_clock_that_stepped_back() {
    let mut protection = opened();
    let mut call = Call::new(policy(3), None);
    let next = call.handle_start(at(10_000), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 });
    call.handle_abandoned(at(0), &mut protection);
    assert!(protection.breaker.admit(at(0)).is_ok());
}

#[test]
fn the_end_of_time_is_no_overflow() {
    let last = Instant::from_nanos(u64::MAX);
    let endless = RetryPolicy {
        max_attempts: u32::MAX,
        backoff: Backoff::new(Duration::MAX, Duration::MAX),
    };
    let mut protection = unbroken();
    let mut call = started(endless, None, &mut protection);
    let after = Classification::retry_after(Duration::MAX);
    let next = call.handle_result(after, true, at(1), &mut protection, &mut highest());
    assert_eq!(next, wait(last, WaitReason::Pushback));
    let next = call.handle_timeout(last, &mut protection);
    assert_eq!(next, Some(Next::Attempt { number: 2 }));
    let next = call.handle_result(after, true, last, &mut protection, &mut highest());
    assert_eq!(next, Next::Attempt { number: 3 }, "no time is left to wait");

    let mut call = started(endless, Some(last), &mut protection);
    let next = call.handle_result(RETRY, true, at(1), &mut protection, &mut highest());
    let wait = Duration::from_nanos(u64::MAX);
    assert_eq!(next, Next::Finish(End::WaitPastDeadline { wait }));
}

//! How calls end, what each end costs, and that an ended call stays ended.

use super::*;
use alloc::string::ToString;

/// Nothing moves a call that is over, nor costs anything.
fn assert_over(call: &mut Call, protection: &mut Protection) {
    let before = (paid(protection), protection.breaker.counts());
    let attempts = call.attempts();
    assert!(!call.is_attempting());
    assert_eq!(call.poll_timeout(), None);
    assert_eq!(
        call.handle_timeout(Instant::from_nanos(u64::MAX), protection),
        None
    );
    assert_eq!(call.handle_opened(protection), None);
    assert!(!call.handle_unprocessed(Unprocessed::NotSent, at(0)));
    assert_eq!(
        call.handle_result(
            Classification::RETRY,
            true,
            at(0),
            protection,
            &mut highest()
        ),
        Next::Finish(End::Abandoned)
    );
    assert_eq!(
        call.handle_start(at(0), protection),
        Next::Finish(End::Abandoned)
    );
    call.handle_abandoned(at(0), protection);
    assert_eq!(call.attempts(), attempts);
    assert_eq!((paid(protection), protection.breaker.counts()), before);
}

#[test]
fn success_and_stop_end_a_call_at_its_first_attempt() {
    for (result, end, successes, failures) in [
        (Classification::SUCCESS, End::Succeeded, 1, 0),
        (Classification::STOP, End::Stopped, 1, 0),
        (Classification::FAIL, End::Stopped, 0, 1),
        (Classification::IGNORE, End::Stopped, 0, 0),
    ] {
        let mut protection = unbroken();
        let mut random = highest();
        let mut call = started(policy(3), None, &mut protection);
        let next = call.handle_result(result, true, at(0), &mut protection, &mut random);
        assert_eq!(next, Next::Finish(end));
        assert_eq!(told(&protection), (successes, failures));
        assert_eq!((paid(&protection), random.draws), (0, 0));
        assert_over(&mut call, &mut protection);
    }
}

#[test]
fn a_refusal_by_pushback_ends_the_call_and_pays_a_token() {
    let refused = Classification::RETRY.with_pushback(crate::Pushback::Refused);
    let mut protection = unbroken();
    let mut call = started(policy(3), None, &mut protection);
    let next = call.handle_result(refused, true, at(0), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Refused));
    assert_eq!((paid(&protection), told(&protection)), (1_000, (0, 1)));
    assert_over(&mut call, &mut protection);
}

#[test]
fn every_refused_retry_leaves_a_call_that_is_over() {
    let mut protection = unbroken();
    let mut call = started(policy(1), None, &mut protection);
    let next = call.handle_result(
        Classification::RETRY,
        true,
        at(0),
        &mut protection,
        &mut highest(),
    );
    assert_eq!(next, Next::Finish(End::Exhausted));
    assert_over(&mut call, &mut protection);
}

#[test]
fn a_stream_that_opened_earns_and_hands_its_ticket_out() {
    let mut protection = unbroken();
    let _ = protection.budget.on_failure();
    let mut call = started(policy(3), Some(at(100)), &mut protection);
    let ticket = call.handle_opened(&mut protection).expect("an attempt");
    assert_eq!(paid(&protection), 900);
    assert_eq!(told(&protection), (0, 0), "the stream's end is awaited");
    assert_over(&mut call, &mut protection);
    protection
        .breaker
        .settle(ticket, BreakerOutcome::Failure, at(500));
    assert_eq!(told(&protection), (0, 1));
}

#[test]
fn a_stream_opens_only_from_an_attempt() {
    let mut protection = unbroken();
    let _ = protection.budget.on_failure();
    let mut call = Call::new(policy(3), None);
    assert_eq!(call.handle_opened(&mut protection), None);
    let next = call.handle_start(at(0), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 }, "still new");
    let retry = Classification::RETRY;
    let next = call.handle_result(retry, true, at(0), &mut protection, &mut highest());
    assert!(matches!(next, Next::Wait(_)));
    assert_eq!(call.handle_opened(&mut protection), None);
    assert!(call.poll_timeout().is_some(), "still waiting");
    assert_eq!(paid(&protection), 2_000, "nothing was earned");
}

#[test]
fn an_open_breaker_rejects_the_first_attempt() {
    let mut protection = opened();
    let mut call = Call::new(policy(3), None);
    let next = call.handle_start(at(4_000), &mut protection);
    let Next::Finish(End::Rejected(rejected)) = next else {
        panic!("{next:?}");
    };
    assert_eq!(rejected.remaining, Duration::from_secs(6));
    assert_eq!(call.attempts(), 0);
    assert_over(&mut call, &mut protection);
}

#[test]
fn rejections_feed_back_into_nothing() {
    let mut protection = opened();
    for _ in 0..1_000 {
        let mut call = Call::new(policy(3), None);
        let next = call.handle_start(at(9_999), &mut protection);
        assert!(matches!(next, Next::Finish(End::Rejected(_))));
    }
    assert_eq!(paid(&protection), 0);
    assert_eq!(protection.breaker.state(), BreakerState::Open);
    let mut call = Call::new(policy(3), None);
    let next = call.handle_start(at(10_000), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 });
}

#[test]
fn a_breaker_that_opened_during_the_wait_rejects_the_retry() {
    let mut protection = Protection {
        breaker: Breaker::new(BreakerSettings::default()),
        budget: Budget::new(RetryBudget::default()),
    };
    let mut call = started(policy(3), None, &mut protection);
    let retry = Classification::RETRY;
    let next = call.handle_result(retry, true, at(0), &mut protection, &mut highest());
    assert!(matches!(next, Next::Wait(_)));
    for _ in 0..4 {
        let mut other = started(policy(3), None, &mut protection);
        let fail = Classification::FAIL;
        let _ = other.handle_result(fail, true, at(0), &mut protection, &mut highest());
    }
    let next = call.handle_timeout(at(100), &mut protection);
    let Some(Next::Finish(End::Rejected(rejected))) = next else {
        panic!("{next:?}");
    };
    assert_eq!(rejected.remaining, millis(9_900));
    assert_eq!((call.attempts(), paid(&protection)), (1, 1_000));
    assert_over(&mut call, &mut protection);
}

#[test]
fn the_failure_that_opens_the_breaker_gets_no_retry_even_at_once() {
    let mut protection = opened();
    let mut call = Call::new(policy(3), None);
    let probe = call.handle_start(at(10_000), &mut protection);
    assert_eq!(probe, Next::Attempt { number: 1 });
    let retry = Classification::RETRY;
    let next = call.handle_result(retry, true, at(10_000), &mut protection, &mut lowest());
    assert!(matches!(next, Next::Finish(End::Rejected(_))), "{next:?}");
    assert_eq!(call.attempts(), 1);
    assert_over(&mut call, &mut protection);
}

#[test]
fn a_caller_that_leaves_frees_the_probe_at_once_and_is_ignored() {
    let mut protection = opened();
    for _ in 0..100 {
        let mut call = Call::new(policy(3), None);
        let next = call.handle_start(at(10_000), &mut protection);
        assert_eq!(next, Next::Attempt { number: 1 });
        call.handle_abandoned(at(10_000), &mut protection);
        assert_over(&mut call, &mut protection);
    }
    assert_eq!((paid(&protection), told(&protection)), (0, (0, 0)));
    assert_eq!(protection.breaker.state(), BreakerState::HalfOpen);
}

#[test]
fn a_caller_may_leave_before_the_start_and_during_a_wait() {
    let mut protection = unbroken();
    let mut call = Call::new(policy(3), None);
    call.handle_abandoned(at(0), &mut protection);
    assert_over(&mut call, &mut protection);

    let mut call = started(policy(3), None, &mut protection);
    let retry = Classification::RETRY;
    let next = call.handle_result(retry, true, at(0), &mut protection, &mut highest());
    assert!(matches!(next, Next::Wait(_)));
    call.handle_abandoned(at(50), &mut protection);
    assert_over(&mut call, &mut protection);
    assert_eq!((paid(&protection), told(&protection)), (1_000, (0, 1)));
}

#[test]
fn a_second_start_ends_the_call_and_gives_the_slot_back() {
    let mut protection = opened();
    let mut call = Call::new(policy(3), None);
    let next = call.handle_start(at(10_000), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 });
    let next = call.handle_start(at(10_000), &mut protection);
    assert_eq!(next, Next::Finish(End::Abandoned));
    assert_over(&mut call, &mut protection);
    assert!(protection.breaker.admit(at(10_000)).is_ok(), "slot free");
}

#[test]
fn every_end_says_why() {
    let rejected = opened().breaker.admit(at(5_800)).unwrap_err();
    for (end, text) in [
        (End::Succeeded, "succeeded"),
        (End::Opened, "the stream opened"),
        (End::Stopped, "the status is not retried"),
        (End::Refused, "the server refused a retry by pushback"),
        (End::Expired, "the deadline passed"),
        (End::BudgetSpent, "the retry budget is spent"),
        (End::Exhausted, "every attempt was made"),
        (End::Committed, "the request can't be sent again"),
        (
            End::PushbackTooLong {
                asked: millis(9_000),
            },
            "the server's pushback of 9s is above the longest backoff",
        ),
        (
            End::WaitPastDeadline { wait: millis(250) },
            "the next wait, 250ms, would not end before the deadline",
        ),
        (
            End::Rejected(rejected),
            "circuit breaker open for another 4.2s",
        ),
        (End::Abandoned, "the caller left"),
    ] {
        assert_eq!(end.to_string(), text);
    }
}

#[test]
fn a_result_without_an_attempt_ends_the_call_and_counts_for_nothing() {
    let retry = Classification::RETRY;
    let mut protection = unbroken();
    let mut call = Call::new(policy(3), None);
    let next = call.handle_result(retry, true, at(0), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Abandoned));
    assert_over(&mut call, &mut protection);

    let mut call = started(policy(3), None, &mut protection);
    let next = call.handle_result(retry, true, at(0), &mut protection, &mut highest());
    assert!(matches!(next, Next::Wait(_)));
    let next = call.handle_result(retry, true, at(0), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Abandoned));
    assert_eq!((paid(&protection), told(&protection)), (1_000, (0, 1)));
    assert_over(&mut call, &mut protection);
}

#[test]
fn a_call_starts_with_a_pass_as_it_does_by_asking() {
    let mut protection = unbroken();
    let pass = protection.breaker.pass().expect("closed");
    let mut call = Call::new(policy(3), Some(at(10)));
    assert_eq!(
        call.handle_start_with(pass, at(0)),
        Next::Attempt { number: 1 }
    );
    assert_eq!(
        call.handle_start_with(pass, at(0)),
        Next::Finish(End::Abandoned)
    );
    assert!(call.is_attempting(), "a second start changes nothing");
    let success = Classification::SUCCESS;
    let next = call.handle_result(success, true, at(1), &mut protection, &mut lowest());
    assert_eq!(next, Next::Finish(End::Succeeded));
    assert_eq!(told(&protection), (1, 0));

    let mut late = Call::new(policy(3), Some(at(10)));
    assert_eq!(
        late.handle_start_with(pass, at(10)),
        Next::Finish(End::Expired)
    );
}

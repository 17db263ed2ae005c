//! Requests that the server never processed are sent again within their attempt.

use super::*;
use Unprocessed::{NotSent, Refused};

#[test]
fn an_unsent_request_goes_again_until_the_deadline() {
    let mut protection = unbroken();
    let mut call = started(policy(3), Some(at(1_000)), &mut protection);
    for turn in 0..1_000 {
        assert!(call.handle_unprocessed(NotSent, at(turn)), "turn {turn}");
    }
    assert!(call.handle_unprocessed(NotSent, before(at(1_000))));
    assert!(!call.handle_unprocessed(NotSent, at(1_000)));
    assert!(call.is_attempting(), "its failure is yet to be reported");
    assert_eq!(call.attempts(), 1);
    assert_eq!((paid(&protection), told(&protection)), (0, (0, 0)));
    let retry = Classification::RETRY;
    let next = call.handle_result(retry, true, at(1_000), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Expired));
    assert_eq!((paid(&protection), told(&protection)), (0, (0, 1)));
}

#[test]
fn an_unsent_request_without_a_deadline_goes_again_for_ever() {
    let mut protection = unbroken();
    let mut call = started(policy(1), None, &mut protection);
    for turn in [0, 1, u64::MAX] {
        assert!(call.handle_unprocessed(NotSent, Instant::from_nanos(turn)));
    }
}

#[test]
fn a_refused_stream_goes_again_once_a_call() {
    let mut protection = unbroken();
    let mut call = started(policy(3), None, &mut protection);
    assert!(call.handle_unprocessed(NotSent, at(0)));
    assert!(
        call.handle_unprocessed(Refused, at(0)),
        "unsent didn't count"
    );
    assert!(!call.handle_unprocessed(Refused, at(0)));
    assert!(call.handle_unprocessed(NotSent, at(0)), "this still may");
    assert_eq!(call.attempts(), 1);
    assert_eq!((paid(&protection), told(&protection)), (0, (0, 0)));

    let retry = Classification::RETRY;
    let next = call.handle_result(retry, true, at(0), &mut protection, &mut lowest());
    assert_eq!(next, Next::Attempt { number: 2 }, "then the policy");
    assert_eq!((paid(&protection), told(&protection)), (1_000, (0, 1)));
    assert!(
        !call.handle_unprocessed(Refused, at(0)),
        "not once an attempt"
    );
}

#[test]
fn a_refused_stream_does_not_go_again_after_the_deadline() {
    let mut protection = unbroken();
    let mut call = started(policy(3), Some(at(10)), &mut protection);
    assert!(!call.handle_unprocessed(Refused, at(10)));
}

#[test]
fn without_an_attempt_nothing_is_sent_again_and_the_one_chance_is_kept() {
    let mut protection = unbroken();
    let mut call = Call::new(policy(3), None);
    assert!(!call.handle_unprocessed(Refused, at(0)));
    assert!(!call.handle_unprocessed(NotSent, at(0)));
    let next = call.handle_start(at(0), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 });
    let retry = Classification::RETRY;
    let next = call.handle_result(retry, true, at(0), &mut protection, &mut highest());
    assert!(matches!(next, Next::Wait(_)));
    assert!(!call.handle_unprocessed(Refused, at(50)));
    assert!(!call.handle_unprocessed(NotSent, at(50)));
    let next = call.handle_timeout(at(100), &mut protection);
    assert_eq!(next, Some(Next::Attempt { number: 2 }));
    assert!(call.handle_unprocessed(Refused, at(100)));
}

#[test]
fn a_probe_is_still_the_same_probe_after_it_was_sent_again() {
    let mut protection = opened();
    let mut call = Call::new(policy(3), None);
    let next = call.handle_start(at(10_000), &mut protection);
    assert_eq!(next, Next::Attempt { number: 1 });
    assert!(call.handle_unprocessed(NotSent, at(10_001)));
    assert!(call.handle_unprocessed(Refused, at(10_002)));
    assert!(protection.breaker.admit(at(10_002)).is_err(), "one slot");
    let success = Classification::SUCCESS;
    let next = call.handle_result(success, true, at(10_003), &mut protection, &mut lowest());
    assert_eq!(next, Next::Finish(End::Succeeded));
    assert_eq!(told(&protection), (1, 0));
}

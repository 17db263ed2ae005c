//! Attempts that were not made, since a connection backs off.

use super::*;

fn untried(millis: u64) -> Classification {
    Classification {
        retry: RetryOutcome::Untried {
            after: super::millis(millis),
        },
        breaker: BreakerOutcome::Ignored,
    }
}

#[test]
fn it_waits_for_the_connection_and_pays_nothing() {
    let mut protection = unbroken();
    let mut call = started(policy(2), None, &mut protection);
    let next = call.handle_result(untried(400), true, at(5), &mut protection, &mut highest());
    assert_eq!(next, wait(at(405), WaitReason::Connection));
    assert_eq!((paid(&protection), told(&protection)), (0, (0, 0)));
    let next = call.handle_timeout(at(405), &mut protection);
    assert_eq!(next, Some(Next::Attempt { number: 2 }));
    let next = call.handle_result(untried(400), true, at(406), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Exhausted));
    assert_eq!(paid(&protection), 0);
}

#[test]
fn it_goes_on_with_an_empty_budget() {
    let mut protection = unbroken();
    for _ in 0..10 {
        let _ = protection.budget.on_failure();
    }
    let mut call = started(policy(2), None, &mut protection);
    let next = call.handle_result(untried(1), true, at(0), &mut protection, &mut highest());
    assert_eq!(
        next,
        wait(at(100), WaitReason::Backoff),
        "the schedule's draw is longer"
    );
}

#[test]
fn it_ends_where_no_wait_is_worth_it() {
    let mut protection = unbroken();
    let mut call = started(policy(2), None, &mut protection);
    let next = call.handle_result(untried(1_001), true, at(0), &mut protection, &mut highest());
    let for_another = millis(1_001);
    assert_eq!(next, Next::Finish(End::Unreachable { for_another }));

    let mut call = started(policy(2), Some(at(400)), &mut protection);
    let next = call.handle_result(untried(400), true, at(0), &mut protection, &mut highest());
    let wait = millis(400);
    assert_eq!(next, Next::Finish(End::WaitPastDeadline { wait }));

    let mut call = started(policy(2), None, &mut protection);
    let next = call.handle_result(untried(1), false, at(0), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Committed));
}

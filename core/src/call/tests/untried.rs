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
    assert_eq!(next, wait(at(505), WaitReason::Connection));
    assert_eq!((paid(&protection), told(&protection)), (0, (0, 0)));
    let next = call.handle_timeout(at(505), &mut protection);
    assert_eq!(next, Some(Next::Attempt { number: 2 }));
    let next = call.handle_result(untried(400), true, at(506), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Exhausted));
    assert_eq!(paid(&protection), 0);
}

#[test]
fn the_calls_of_one_connection_come_back_one_after_another() {
    let mut protection = unbroken();
    let mut until = |random: &mut Pinned| {
        let mut call = started(policy(2), None, &mut protection);
        call.handle_result(untried(400), true, at(0), &mut protection, random)
    };
    let soonest = until(&mut lowest());
    assert_eq!(soonest, wait(at(400), WaitReason::Connection));
    let latest = until(&mut highest());
    assert_eq!(latest, wait(at(500), WaitReason::Connection));
}

#[test]
fn it_goes_on_with_an_empty_budget() {
    let mut protection = unbroken();
    for _ in 0..10 {
        let _ = protection.budget.on_failure();
    }
    let mut call = started(policy(2), None, &mut protection);
    let next = call.handle_result(untried(0), true, at(0), &mut protection, &mut highest());
    assert_eq!(
        next,
        wait(at(100), WaitReason::Backoff),
        "no connection to wait for any more"
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
    let wait = millis(500);
    assert_eq!(next, Next::Finish(End::WaitPastDeadline { wait }));

    let mut call = started(policy(2), None, &mut protection);
    let next = call.handle_result(untried(1), false, at(0), &mut protection, &mut highest());
    assert_eq!(next, Next::Finish(End::Committed));
}

//! Which retries go on, in which order that is decided, and how long they wait.

use super::*;
use WaitReason::{Backoff as Scheduled, Pushback};
use alloc::vec;
use alloc::vec::Vec;

const RETRY: Classification = Classification::RETRY;

#[test]
fn a_retry_waits_for_the_schedule_and_then_is_attempt_two() {
    let mut protection = unbroken();
    let mut random = highest();
    let mut call = started(policy(3), None, &mut protection);
    let next = call.handle_result(RETRY, true, at(7), &mut protection, &mut random);
    assert_eq!(next, wait(at(107), Scheduled));
    assert!(!call.is_attempting());
    assert_eq!(
        call.handle_timeout(before(at(107)), &mut protection),
        None,
        "a nanosecond early"
    );
    assert_eq!(
        call.handle_timeout(at(107), &mut protection),
        Some(Next::Attempt { number: 2 })
    );
    assert!(call.is_attempting());
    assert_eq!(call.attempts(), 2);
    assert_eq!((paid(&protection), told(&protection)), (1_000, (0, 1)));
}

/// Every condition for a retry fails at once; then they are mended one by one, and the end
/// names the first that still fails.
#[test]
fn the_first_condition_that_fails_names_the_end() {
    struct Case {
        now: u64,
        spent: bool,
        max_attempts: u32,
        replayable: bool,
        after: u64,
    }
    let mut case = Case {
        now: 5_000,
        spent: true,
        max_attempts: 1,
        replayable: false,
        after: 1_001,
    };
    let judge = |case: &Case| {
        let mut protection = unbroken();
        if case.spent {
            for _ in 0..5 {
                let _ = protection.budget.on_failure();
            }
        }
        let before = protection.budget.millitokens();
        let mut random = highest();
        let mut call = started(policy(case.max_attempts), Some(at(5_000)), &mut protection);
        let result = Classification::retry_after(millis(case.after));
        let next = call.handle_result(
            result,
            case.replayable,
            at(case.now),
            &mut protection,
            &mut random,
        );
        assert_eq!(told(&protection), (0, 1), "the breaker hears of it always");
        (
            next,
            before - protection.budget.millitokens(),
            random.draws,
            call.poll_timeout(),
        )
    };

    let finish = |end, paid, draws| (Next::Finish(end), paid, draws, None);
    assert_eq!(judge(&case), finish(End::Expired, 0, 0), "takes no token");
    case.now = 4_999;
    assert_eq!(judge(&case), finish(End::BudgetSpent, 1_000, 0));
    case.spent = false;
    assert_eq!(judge(&case), finish(End::Exhausted, 1_000, 0));
    case.max_attempts = 2;
    assert_eq!(judge(&case), finish(End::Committed, 1_000, 0));
    case.replayable = true;
    let asked = millis(1_001);
    let too_long = End::PushbackTooLong { asked };
    assert_eq!(judge(&case), finish(too_long, 1_000, 0));
    case.after = 1_000;
    let past = End::WaitPastDeadline {
        wait: millis(1_000),
    };
    assert_eq!(judge(&case), finish(past, 1_000, 1));
    case.after = 0;
    let past = End::WaitPastDeadline { wait: millis(100) };
    assert_eq!(judge(&case), finish(past, 1_000, 1));
    case.now = 4_899;
    let until = Wait {
        until: at(4_999),
        reason: Scheduled,
    };
    assert_eq!(judge(&case), (Next::Wait(until), 1_000, 1, Some(until)));
}

#[test]
fn a_wait_that_ends_at_the_deadline_is_too_long_by_a_nanosecond() {
    let mut protection = unbroken();
    let deadline = at(200);
    let retry_at = |now, protection: &mut Protection| {
        let mut call = started(policy(2), Some(deadline), protection);
        call.handle_result(RETRY, true, now, protection, &mut highest())
    };
    assert_eq!(
        retry_at(at(100), &mut protection),
        Next::Finish(End::WaitPastDeadline { wait: millis(100) })
    );
    assert_eq!(
        retry_at(before(at(100)), &mut protection),
        wait(before(deadline), Scheduled)
    );
}

#[test]
fn the_wait_is_the_larger_of_the_pushback_and_the_draw() {
    for (after, length, reason) in [
        (0, 100, Scheduled),
        (99, 100, Scheduled),
        (100, 100, Scheduled),
        (101, 101, Pushback),
        (1_000, 1_000, Pushback),
    ] {
        let mut protection = unbroken();
        let mut random = highest();
        let mut call = started(policy(2), None, &mut protection);
        let result = Classification::retry_after(millis(after));
        let next = call.handle_result(result, true, at(0), &mut protection, &mut random);
        assert_eq!(next, wait(at(length), reason), "after {after} ms");
        assert_eq!(random.draws, 1);
    }
}

#[test]
fn the_longest_pushback_is_the_longest_backoff_to_the_nanosecond() {
    let asked = millis(1_000) + Duration::from_nanos(1);
    let mut protection = unbroken();
    let mut call = started(policy(2), None, &mut protection);
    let result = Classification::retry_after(asked);
    assert_eq!(
        call.handle_result(result, true, at(0), &mut protection, &mut lowest()),
        Next::Finish(End::PushbackTooLong { asked })
    );
}

/// The schedule goes on by the number of the retry: no pushback restarts it, holds it at
/// zero or makes it grow.
#[test]
fn a_pushback_does_not_change_the_schedule_after_it() {
    let lengths = |results: &[Classification]| -> Vec<u64> {
        let mut protection = with_tokens(1_000);
        let mut call = Call::new(policy(6), None);
        let (end, waits) = run(&mut call, results, &mut protection, &mut highest());
        assert_eq!(end, End::Exhausted);
        let mut last = at(0);
        waits
            .iter()
            .map(|wait| {
                let length = wait.until.saturating_since(last);
                last = wait.until;
                length.as_millis() as u64
            })
            .collect()
    };
    let after = |ms| Classification::retry_after(millis(ms));
    assert_eq!(lengths(&[RETRY]), [100, 200, 400, 800, 1_000]);
    assert_eq!(
        lengths(&[RETRY, RETRY, after(0), RETRY, RETRY]),
        [100, 200, 400, 800, 1_000]
    );
    assert_eq!(
        lengths(&[RETRY, after(900), RETRY, after(1_000), RETRY]),
        [100, 900, 400, 1_000, 1_000]
    );
}

#[test]
fn a_wait_of_zero_is_no_wait() {
    let mut protection = unbroken();
    let mut call = started(policy(3), Some(at(1)), &mut protection);
    for number in 2..=3 {
        let next = call.handle_result(RETRY, true, at(0), &mut protection, &mut lowest());
        assert_eq!(next, Next::Attempt { number });
    }
    let next = call.handle_result(RETRY, true, at(0), &mut protection, &mut lowest());
    assert_eq!(next, Next::Finish(End::Exhausted));
}

#[test]
fn a_pushback_of_a_nanosecond_is_waited_for() {
    let mut protection = unbroken();
    let mut call = started(policy(2), None, &mut protection);
    let result = Classification::retry_after(Duration::from_nanos(1));
    assert_eq!(
        call.handle_result(result, true, at(0), &mut protection, &mut lowest()),
        wait(Instant::from_nanos(1), Pushback)
    );
}

#[test]
fn as_many_attempts_as_the_policy_says_and_one_draw_fewer() {
    for max_attempts in [1, 2, 3, 4, 10, 100] {
        let mut protection = with_tokens(1_000);
        let mut random = highest();
        let mut call = Call::new(policy(max_attempts), None);
        let (end, waits) = run(&mut call, &[RETRY], &mut protection, &mut random);
        assert_eq!(end, End::Exhausted);
        assert_eq!(call.attempts(), max_attempts);
        assert_eq!(told(&protection), (0, max_attempts));
        assert_eq!(random.draws, max_attempts - 1);
        assert_eq!(waits.len() as u32, max_attempts - 1);
        let tokens = 1_000_000 - protection.budget.millitokens();
        assert_eq!(tokens, max_attempts * 1_000, "the last attempt pays too");
    }
}

#[test]
fn no_attempts_allowed_means_one() {
    let mut protection = unbroken();
    let mut random = highest();
    let mut call = Call::new(policy(0), None);
    let ended = run(&mut call, &[RETRY], &mut protection, &mut random);
    assert_eq!(ended, (End::Exhausted, vec![]));
    assert_eq!((call.attempts(), random.draws), (1, 0));
}

#[test]
fn a_success_after_retries_ends_the_call_and_earns() {
    let mut protection = unbroken();
    let mut call = Call::new(policy(4), None);
    let results = [RETRY, RETRY, Classification::SUCCESS];
    let (end, waits) = run(&mut call, &results, &mut protection, &mut highest());
    assert_eq!((end, waits.len(), call.attempts()), (End::Succeeded, 2, 3));
    assert_eq!((paid(&protection), told(&protection)), (1_900, (1, 2)));
}

/// A thousand successes store no more than a full bucket; four failures may be retried, the
/// fifth leaves half and may not; then it takes 51 successes, not 50.
#[test]
fn the_bucket_of_all_calls_is_clamped_at_both_ends() {
    let mut protection = unbroken();
    let call = |result, protection: &mut Protection| {
        let mut call = started(policy(2), None, protection);
        call.handle_result(result, true, at(0), protection, &mut highest())
    };
    for _ in 0..1_000 {
        let next = call(Classification::SUCCESS, &mut protection);
        assert_eq!(next, Next::Finish(End::Succeeded));
    }
    assert_eq!(protection.budget.millitokens(), 10_000);
    for _ in 0..4 {
        let next = call(RETRY, &mut protection);
        assert_eq!(next, wait(at(100), Scheduled));
    }
    for _ in 0..21 {
        let next = call(RETRY, &mut protection);
        assert_eq!(next, Next::Finish(End::BudgetSpent));
    }
    assert_eq!(protection.budget.millitokens(), 0);
    for _ in 0..60 {
        let _ = call(Classification::SUCCESS, &mut protection);
    }
    let next = call(RETRY, &mut protection);
    assert_eq!(next, Next::Finish(End::BudgetSpent), "5.0 left");
    for _ in 0..11 {
        let _ = call(Classification::SUCCESS, &mut protection);
    }
    let next = call(RETRY, &mut protection);
    assert_eq!(next, wait(at(100), Scheduled), "5.1 left");
}

#[test]
fn the_budget_is_asked_when_an_attempt_fails_not_when_the_wait_is_over() {
    let mut protection = unbroken();
    let mut waiting: Vec<_> = (0..6)
        .map(|_| {
            let mut call = started(policy(2), None, &mut protection);
            let next = call.handle_result(RETRY, true, at(0), &mut protection, &mut highest());
            (call, next)
        })
        .collect();
    let spent = Next::Finish(End::BudgetSpent);
    let scheduled = wait(at(100), Scheduled);
    let decisions: Vec<_> = waiting.iter().map(|(_, next)| *next).collect();
    assert_eq!(
        decisions,
        [scheduled, scheduled, scheduled, scheduled, spent, spent]
    );
    for (call, _) in &mut waiting[..4] {
        let next = call.handle_timeout(at(100), &mut protection);
        assert_eq!(next, Some(Next::Attempt { number: 2 }), "as decided");
    }
    assert_eq!(paid(&protection), 6_000);
}

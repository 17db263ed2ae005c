//! How many attempts a server that is always unavailable gets from a hundred calls. The
//! figures are worked out by hand; a change of any of them is a change of what users get.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::{
    Backoff, Breaker, BreakerSettings, Budget, Call, Classification, Code, End, Instant, NeverOpen,
    Next, Protection, Pushback, RetryBudget, RetryPolicy, SeededRandom,
};

fn policy(max_attempts: u32) -> RetryPolicy {
    RetryPolicy {
        max_attempts,
        backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
    }
}

fn protection(breaker: Breaker) -> Protection {
    Protection {
        breaker,
        budget: Budget::new(RetryBudget::default()),
    }
}

fn never_open() -> Breaker {
    Breaker::with_policy(BreakerSettings::default(), Arc::new(NeverOpen))
}

/// Makes one call, starting at `now`, that finds the server unavailable each time. Answers
/// its attempts and how it ended, and leaves `now` where it did.
fn call(
    policy: RetryPolicy,
    now: &mut Instant,
    protection: &mut Protection,
    random: &mut SeededRandom,
) -> (u32, End) {
    let deadline = now.saturating_add(Duration::from_secs(10));
    let mut call = Call::new(policy, Some(deadline));
    let mut attempts = 0;
    let mut next = call.handle_start(*now, protection);
    loop {
        next = match next {
            Next::Attempt { .. } => {
                attempts += 1;
                let result = Classification::of(Code::Unavailable, Pushback::Absent);
                call.handle_result(result, true, *now, protection, random)
            }
            Next::Wait(wait) => {
                *now = wait.until;
                call.handle_timeout(*now, protection).expect("due")
            }
            Next::Finish(end) => {
                assert_eq!(attempts, call.attempts());
                return (attempts, end);
            }
        };
    }
}

/// The attempts of each of a hundred calls, one after another, `apart` from start to start
/// or with no pause at all, for several seeds.
fn hundred_calls(max_attempts: u32, breaker: fn() -> Breaker, apart: Duration) -> Vec<(u32, End)> {
    let traces: Vec<Vec<_>> = (0..10)
        .map(|seed| {
            let mut protection = protection(breaker());
            let mut random = SeededRandom::new(seed);
            let mut now = Instant::ZERO;
            (0..100)
                .map(|n| {
                    now = now.max(Instant::ZERO.saturating_add(apart * n));
                    call(policy(max_attempts), &mut now, &mut protection, &mut random)
                })
                .collect()
        })
        .collect();
    let attempts = |trace: &[(u32, End)]| trace.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    for trace in &traces {
        assert_eq!(attempts(trace), attempts(&traces[0]), "whatever the jitter");
    }
    traces.into_iter().next().expect("ten traces")
}

fn total(trace: &[(u32, End)]) -> u32 {
    trace.iter().map(|(attempts, _)| attempts).sum()
}

/// gRFC A6's bucket alone, as its documents work it out.
///
/// Call 1 fails four times: tokens 10 -> 9 -> 8 -> 7 -> 6, and its attempts are up. Call 2
/// fails once: 5 tokens are not more than half of 10. Nor is there ever more again, so each
/// of the other 98 calls makes its first attempt only. 4 + 1 + 98 = 103, not 400.
#[test]
fn four_attempts_and_no_breaker_make_103() {
    let trace = hundred_calls(4, never_open, Duration::ZERO);
    assert_eq!(trace[0], (4, End::Exhausted));
    assert_eq!(trace[1], (1, End::BudgetSpent));
    assert!(trace[2..].iter().all(|call| *call == (1, End::BudgetSpent)));
    assert_eq!(total(&trace), 103);
}

/// Call 1 fails three times: tokens 10 -> 9 -> 8 -> 7. Call 2 fails at 6 tokens, may retry,
/// and fails at 5. The other 98 make one attempt each. 3 + 2 + 98 = 103 again: the bucket
/// pays for three retries, wherever the calls' attempts end.
#[test]
fn three_attempts_and_no_breaker_make_103() {
    let trace = hundred_calls(3, never_open, Duration::ZERO);
    assert_eq!(trace[0], (3, End::Exhausted));
    assert_eq!(trace[1], (2, End::BudgetSpent));
    assert!(trace[2..].iter().all(|call| *call == (1, End::BudgetSpent)));
    assert_eq!(total(&trace), 103);
}

/// The defaults: three attempts, and a breaker that opens on five failures in a row.
///
/// Call 1 fails three times, tokens 7. Call 2 fails twice: its second failure is the fifth in
/// a row, which opens the breaker for 10 s, and leaves 5 tokens, which ends the call. The
/// waits so far were at most 100 + 200 + 100 ms, and a rejected call takes no time, so the
/// other 98 find the breaker open. 3 + 2 = 5.
#[test]
fn the_defaults_make_5() {
    let breaker = || Breaker::new(BreakerSettings::default());
    let trace = hundred_calls(3, breaker, Duration::ZERO);
    assert_eq!(trace[0], (3, End::Exhausted));
    assert_eq!(trace[1], (2, End::BudgetSpent));
    for call in &trace[2..] {
        assert!(matches!(call, (0, End::Rejected(_))), "{call:?}");
    }
    assert_eq!(total(&trace), 5);
}

/// The defaults with a call started each second, so that the breaker's periods end.
///
/// The calls of 0 s and 1 s make five attempts as above, and the breaker opens between 1.0 and
/// 1.1 s. The call of 12 s is the first after 10 s of it: a probe, which fails and opens for
/// 10 s from 12 s; so do those of 22, 32, 42, 52, 62, 72, 82 and 92 s. 5 + 9 = 14. Each of
/// the nine ends for want of tokens, of which one more is gone.
#[test]
fn the_defaults_make_14_with_a_call_a_second() {
    let breaker = || Breaker::new(BreakerSettings::default());
    let trace = hundred_calls(3, breaker, Duration::from_secs(1));
    let probes: Vec<_> = (2..100).filter(|n| trace[*n].0 > 0).collect();
    assert_eq!(probes, [12, 22, 32, 42, 52, 62, 72, 82, 92]);
    for probe in probes {
        assert_eq!(trace[probe], (1, End::BudgetSpent));
    }
    assert_eq!(total(&trace), 14);
}

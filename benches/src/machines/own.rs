//! Steadfast's machines, used as its client uses them.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use steadfast_core::{
    Backoff, Breaker, BreakerOutcome, BreakerSettings, Budget, Call, Classification, Code, End,
    Instant, Next, Pass, Protection, Pushback, RetryBudget, RetryPolicy, SeededRandom, Timer,
};
use steadfast_tokio::TokioTimer;

use super::Run;

pub(super) fn subjects() -> Vec<(&'static str, Run)> {
    vec![
        ("clock-std", Box::new(clock_std)),
        ("clock-tokio", Box::new(clock_tokio)),
        ("budget", budget()),
        ("breaker", breaker()),
        ("whole-decision", whole_decision(false)),
        ("whole-decision-and-clock", whole_decision(true)),
    ]
}

fn clock_std(times: u64) {
    for _ in 0..times {
        black_box(std::time::Instant::now());
    }
}

fn clock_tokio(times: u64) {
    for _ in 0..times {
        black_box(tokio::time::Instant::now());
    }
}

/// A success told to the budget, under a lock of its own.
fn budget() -> Run {
    let shared = Mutex::new(Budget::new(RetryBudget::default()));
    Box::new(move |times| {
        for _ in 0..times {
            black_box(lock(&shared)).on_success();
        }
    })
}

/// An attempt admitted and its success settled, each under the lock.
fn breaker() -> Run {
    let shared = Mutex::new(Breaker::new(BreakerSettings::default()));
    Box::new(move |times| {
        for n in 0..times {
            let now = black_box(Instant::from_nanos(n));
            let ticket = lock(&shared).admit(now).expect("closed");
            lock(&shared).settle(black_box(ticket), BreakerOutcome::Success, now);
        }
    })
}

/// All that is decided for a call whose first attempt succeeds: admitted, judged, breaker and
/// budget told. As the client does it: with the published pass before the attempt, once under
/// the lock after it, and with one reading of the clock.
fn whole_decision(reads_clock: bool) -> Run {
    let policy = RetryPolicy {
        max_attempts: 3,
        backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
    };
    let shared = Mutex::new(Protection {
        breaker: Breaker::new(BreakerSettings::default()),
        budget: Budget::new(RetryBudget::default()),
    });
    let pass = AtomicU64::new(lock(&shared).breaker.pass().map_or(0, Pass::to_bits));
    let timer = TokioTimer::new();
    Box::new(move |times| {
        let mut random = SeededRandom::new(1);
        for n in 0..times {
            let now = match reads_clock {
                true => timer.now(),
                false => black_box(Instant::from_nanos(n)),
            };
            let deadline = now.saturating_add(Duration::from_secs(10));
            let mut call = Call::new(black_box(policy), Some(deadline));
            let leave = Pass::from_bits(pass.load(Ordering::Acquire)).expect("closed");
            let started = call.handle_start_with(leave, now);
            assert!(matches!(started, Next::Attempt { number: 1 }));
            let judged = Classification::of(black_box(Code::Ok), Pushback::Absent);
            let next = protect(&shared, &pass, |protection| {
                let now = match protection.breaker.is_quiet() {
                    true => now,
                    false => timer.now(),
                };
                call.handle_result(judged, true, now, protection, &mut random)
            });
            assert!(matches!(black_box(next), Next::Finish(End::Succeeded)));
        }
    })
}

fn protect<R>(
    shared: &Mutex<Protection>,
    published: &AtomicU64,
    work: impl FnOnce(&mut Protection) -> R,
) -> R {
    let mut protection = lock(shared);
    let answer = work(&mut protection);
    let pass = protection.breaker.pass().map_or(0, Pass::to_bits);
    if published.load(Ordering::Relaxed) != pass {
        published.store(pass, Ordering::Release);
    }
    assert!(protection.breaker.poll_transition().is_none());
    answer
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics")
}

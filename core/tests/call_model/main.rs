//! The call, with the budget and the breaker it is joined to, against a naive model written
//! from the rules: several calls at once over one protection, with every kind of input at
//! every moment.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::{
    Backoff, Breaker, BreakerOutcome, BreakerSettings, Budget, Call, Classification, Instant,
    NeverOpen, Protection, Pushback, RetryBudget, RetryOutcome, RetryPolicy, Unprocessed,
};

mod model;

use self::model::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    Start,
    Result {
        result: Classification,
        replayable: bool,
        jitter: Jitter,
    },
    Timeout,
    /// Jumps to when the call is due, and a little further.
    Due(u64),
    Opened(BreakerOutcome),
    Unprocessed(Unprocessed),
    Abandon,
    Pass(u64),
}

fn result() -> impl Strategy<Value = Classification> {
    let pushback = prop_oneof![
        3 => Just(Pushback::Absent),
        3 => (0_u64..60).prop_map(|ns| Pushback::After(Duration::from_nanos(ns))),
        1 => Just(Pushback::Refused),
    ];
    let plain = prop_oneof![
        3 => Just(Classification::SUCCESS),
        1 => Just(Classification::STOP),
        1 => Just(Classification::FAIL),
        1 => Just(Classification::IGNORE),
        20 => Just(Classification::RETRY),
        8 => (0_u64..60).prop_map(|ns| Classification {
            retry: RetryOutcome::Untried { after: Duration::from_nanos(ns) },
            breaker: BreakerOutcome::Ignored,
        }),
    ];
    (plain, pushback).prop_map(|(plain, pushback)| plain.with_pushback(pushback))
}

fn op() -> impl Strategy<Value = Op> {
    let jitter = prop_oneof![Just(Jitter::None), Just(Jitter::Half), Just(Jitter::All)];
    let outcome = prop_oneof![
        Just(BreakerOutcome::Success),
        Just(BreakerOutcome::Failure),
        Just(BreakerOutcome::Ignored),
    ];
    let why = prop_oneof![Just(Unprocessed::NotSent), Just(Unprocessed::Refused)];
    prop_oneof![
        6 => Just(Op::Start),
        18 => (result(), prop::bool::weighted(0.95), jitter).prop_map(
            |(result, replayable, jitter)| Op::Result { result, replayable, jitter }
        ),
        4 => Just(Op::Timeout),
        10 => (0_u64..4).prop_map(Op::Due),
        1 => outcome.prop_map(Op::Opened),
        3 => why.prop_map(Op::Unprocessed),
        1 => Just(Op::Abandon),
        4 => (0_u64..20).prop_map(Op::Pass),
    ]
}

prop_compose! {
    fn model()(
        max_attempts in 0_u32..=6,
        base in 1_u64..=20,
        above in 0_u64..=40,
        deadline in prop::option::of(0_u64..400),
    ) -> Model {
        Model {
            max_attempts,
            base,
            max: base + above,
            deadline,
            phase: Phase::New,
            attempts: 0,
            refused: false,
        }
    }
}

fn call(model: &Model) -> Call {
    let policy = RetryPolicy {
        max_attempts: model.max_attempts,
        backoff: Backoff::new(
            Duration::from_nanos(model.base),
            Duration::from_nanos(model.max),
        ),
    };
    Call::new(policy, model.deadline.map(Instant::from_nanos))
}

fn protection(max_tokens: u32, token_ratio: f64) -> Protection {
    let settings = BreakerSettings {
        window: 65_535,
        ..BreakerSettings::default()
    };
    Protection {
        breaker: Breaker::with_policy(settings, Arc::new(NeverOpen)),
        budget: Budget::new(RetryBudget {
            max_tokens,
            token_ratio,
        }),
    }
}

/// Gives both the same input at `now`, and compares all they answer.
fn step(
    op: Op,
    (call, model): (&mut Call, &mut Model),
    (protection, shared): (&mut Protection, &mut Shared),
    draws: &mut Draws,
    now: u64,
) -> Result<(), TestCaseError> {
    let at = Instant::from_nanos(now);
    match op {
        Op::Start => {
            prop_assert_eq!(call.handle_start(at, protection), model.start(now));
        }
        Op::Result {
            result,
            replayable,
            jitter,
        } => {
            draws.jitter = jitter;
            prop_assert_eq!(
                call.handle_result(result, replayable, at, protection, draws),
                model.result(result, replayable, now, jitter, shared)
            );
        }
        Op::Timeout | Op::Due(_) => {
            prop_assert_eq!(
                call.handle_timeout(at, protection),
                model.timeout(now, shared)
            );
        }
        Op::Opened(outcome) => {
            let ticket = call.handle_opened(protection);
            prop_assert_eq!(ticket.is_some(), model.opened(shared));
            if let Some(ticket) = ticket {
                protection.breaker.settle(ticket, outcome, at);
                shared.tell(outcome);
            }
        }
        Op::Unprocessed(why) => {
            prop_assert_eq!(
                call.handle_unprocessed(why, at),
                model.unprocessed(why, now)
            );
        }
        Op::Abandon => {
            call.handle_abandoned(at, protection);
            model.phase = Phase::Over;
        }
        Op::Pass(_) => {}
    }
    prop_assert_eq!(call.attempts(), model.attempts);
    prop_assert!(call.attempts() <= model.max_attempts.max(1));
    prop_assert_eq!(call.is_attempting(), model.phase == Phase::Attempting);
    let due = call.poll_timeout().map(|wait| wait.until.as_nanos());
    prop_assert_eq!(due, model.due());
    let counts = protection.breaker.counts();
    prop_assert_eq!(
        (counts.successes, counts.failures),
        (shared.successes, shared.failures)
    );
    prop_assert_eq!(i64::from(protection.budget.millitokens()), shared.tokens);
    prop_assert_eq!(draws.made, shared.draws);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn agrees_with_the_model(
        models in prop::collection::vec(model(), 1..5),
        max_tokens in 3_u32..40,
        millis in 1_u32..3_000,
        ops in prop::collection::vec((any::<prop::sample::Index>(), op()), 0..150),
    ) {
        let mut calls: Vec<_> = models.into_iter().map(|model| (call(&model), model)).collect();
        let mut protection = protection(max_tokens, f64::from(millis) / 1_000.0);
        let mut shared = Shared {
            tokens: i64::from(max_tokens) * 1_000,
            full: i64::from(max_tokens) * 1_000,
            earns: i64::from(millis),
            successes: 0,
            failures: 0,
            draws: 0,
        };
        let mut draws = Draws { jitter: Jitter::None, made: 0 };
        let mut now = 0;
        for (index, op) in ops {
            let (call, model) = index.get_mut(&mut calls);
            match op {
                Op::Pass(by) => now += by,
                Op::Due(past) => now = now.max(model.due().unwrap_or(now) + past),
                Op::Start if model.phase == Phase::Over => {
                    // The end is final, as all other inputs find; the next call takes its place.
                    let deadline = model.deadline.map(|deadline| now + deadline % 100);
                    *model = Model {
                        deadline,
                        phase: Phase::New,
                        attempts: 0,
                        refused: false,
                        ..model.clone()
                    };
                    *call = self::call(model);
                }
                _ => {}
            }
            step(op, (call, model), (&mut protection, &mut shared), &mut draws, now)?;
        }
    }
}

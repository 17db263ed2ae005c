//! The call, under the budget and a breaker.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::{
    Backoff, Breaker, BreakerSettings, Budget, Call, Classification, Next, ProbeVerdict,
    Protection, RetryBudget, RetryPolicy, SeededRandom, Unprocessed, policy_fn,
};

use super::*;

#[derive(Clone, Copy, Debug)]
enum Input {
    Result(Classification),
    Timeout,
    Unprocessed(Unprocessed),
}

fn inputs() -> impl Strategy<Value = Vec<(u64, Input)>> {
    let after = |ns| Classification::retry_after(Duration::from_nanos(ns));
    moments(prop_oneof![
        9 => (0_u64..30).prop_map(move |ns| Input::Result(after(ns))),
        9 => Just(Input::Timeout),
        1 => Just(Input::Unprocessed(Unprocessed::NotSent)),
        1 => Just(Input::Unprocessed(Unprocessed::Refused)),
    ])
}

struct Run {
    protection: Protection,
    random: SeededRandom,
    call: Call,
    answers: Vec<String>,
}

impl Run {
    /// A call with many attempts, started at zero, over a breaker that opens on the way.
    fn new(seed: u64) -> Self {
        let settings = BreakerSettings {
            open_for: Duration::from_nanos(30),
            ..BreakerSettings::default()
        };
        let policy = policy_fn(
            |counts| counts.consecutive_failures >= 30,
            |_| ProbeVerdict::KeepProbing,
        );
        let budget = RetryBudget {
            max_tokens: 1_000,
            token_ratio: 1.0,
        };
        let mut protection = Protection {
            breaker: Breaker::with_policy(settings, Arc::new(policy)),
            budget: Budget::new(budget),
        };
        let policy = RetryPolicy {
            max_attempts: 50,
            backoff: Backoff::new(Duration::from_nanos(5), Duration::from_nanos(25)),
        };
        let mut call = Call::new(policy, Some(at(400)));
        let next = call.handle_start(at(0), &mut protection);
        assert_eq!(next, Next::Attempt { number: 1 });
        Self {
            protection,
            random: SeededRandom::new(seed),
            call,
            answers: Vec::new(),
        }
    }

    fn input(&mut self, now: u64, input: Input) -> Option<Next> {
        let moment = at(now);
        let next = match input {
            Input::Result(result) => Some(self.call.handle_result(
                result,
                true,
                moment,
                &mut self.protection,
                &mut self.random,
            )),
            Input::Timeout => self.call.handle_timeout(moment, &mut self.protection),
            Input::Unprocessed(why) => {
                let again = self.call.handle_unprocessed(why, moment);
                self.answers.push(format!("again: {again}"));
                None
            }
        };
        let Protection { breaker, budget } = &self.protection;
        self.answers.push(format!(
            "{next:?} {:?} {} {:?} {}",
            self.call.poll_timeout(),
            self.call.attempts(),
            breaker.counts(),
            budget.millitokens(),
        ));
        next
    }
}

fn trace(seed: u64, inputs: &[(u64, Input)]) -> Vec<String> {
    let mut run = Run::new(seed);
    for (now, input) in inputs {
        let _ = run.input(*now, *input);
    }
    run.answers
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_same_seed_and_inputs_give_the_same_trace(
        seed in any::<u64>(), inputs in inputs(),
    ) {
        prop_assert_eq!(trace(seed, &inputs), trace(seed, &inputs));
    }

    #[test]
    fn time_stepping_back_is_ignored(seed in any::<u64>(), inputs in inputs()) {
        prop_assert_eq!(trace(seed, &inputs), trace(seed, &never_back(&inputs, |_| true)));
    }

    #[test]
    fn an_early_timeout_is_a_no_op(seed in any::<u64>(), inputs in inputs()) {
        let inputs = never_back(&inputs, |_| true);
        let mut run = Run::new(seed);
        let mut last = 0;
        for (now, input) in &inputs {
            for between in last..=*now {
                let due = run.call.poll_timeout().is_some_and(|due| due.until <= at(between));
                if !due {
                    let next = run.call.handle_timeout(at(between), &mut run.protection);
                    prop_assert_eq!(next, None);
                }
            }
            last = *now;
            let _ = run.input(*now, *input);
        }
        prop_assert_eq!(run.answers, trace(seed, &inputs));
    }

    /// Noticed late, a wait is over and a deadline has passed, just as they were on time.
    #[test]
    fn a_late_timeout_equals_the_one_on_time(
        seed in any::<u64>(), inputs in inputs(), late in 0_u64..60,
    ) {
        let inputs = never_back(&inputs, |_| true);
        let (mut on_time, mut delayed) = (Run::new(seed), Run::new(seed));
        for (now, input) in &inputs {
            prop_assert_eq!(on_time.input(*now, *input), delayed.input(*now, *input));
        }
        let Some(due) = on_time.call.poll_timeout() else { return Ok(()) };
        let due = due.until.as_nanos();
        let then = due + late;
        let first = on_time.input(due, Input::Timeout);
        let since = on_time.input(then, Input::Timeout);
        let at_once = delayed.input(then, Input::Timeout);
        if since.is_none() {
            prop_assert_eq!(at_once, first);
            prop_assert_eq!(delayed.call.poll_timeout(), on_time.call.poll_timeout());
        } else {
            prop_assert_eq!(at_once, since, "the deadline passed meanwhile");
        }
    }
}

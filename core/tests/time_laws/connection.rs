//! The connection, whose times are told in quarters of a second.

use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::{Connection, ConnectionAction, ConnectionSettings, SeededRandom, Usage};

use super::*;

#[derive(Clone, Copy, Debug)]
enum Input {
    Demand,
    Served,
    Failed,
    Lost(bool),
    Timeout(Usage),
    Close,
}

/// Seconds, for the backoff's are not to be set.
const SECOND: u64 = 1_000_000_000;

fn inputs() -> impl Strategy<Value = Vec<(u64, Input)>> {
    let usage = prop_oneof![
        Just(Usage::Busy),
        (0_u64..300).prop_map(|s| Usage::IdleSince(at(s * SECOND))),
    ];
    let input = prop_oneof![
        6 => Just(Input::Demand),
        4 => Just(Input::Served),
        3 => Just(Input::Failed),
        3 => any::<bool>().prop_map(Input::Lost),
        6 => usage.prop_map(Input::Timeout),
    ];
    (moments(input), prop::bool::weighted(0.2)).prop_map(|(mut inputs, close)| {
        for (now, _) in &mut inputs {
            *now *= SECOND / 4;
        }
        if close && let Some((now, _)) = inputs.last().copied() {
            inputs.push((now, Input::Close));
        }
        inputs
    })
}

fn tells_time(input: &Input) -> bool {
    !matches!(input, Input::Lost(_) | Input::Close)
}

struct Run {
    connection: Connection,
    random: SeededRandom,
    generation: u64,
    answers: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            connection: Connection::new(ConnectionSettings {
                connect_timeout: Duration::from_secs(3),
                idle_timeout: Duration::from_secs(10),
                ..ConnectionSettings::default()
            }),
            random: SeededRandom::new(seed),
            generation: 0,
            answers: Vec::new(),
        }
    }

    fn input(&mut self, now: u64, input: Input) {
        let (moment, random) = (at(now), &mut self.random);
        let connection = &mut self.connection;
        match input {
            Input::Demand => connection.handle_demand(moment),
            Input::Served => connection.handle_served(self.generation, moment),
            Input::Failed => connection.handle_failed(self.generation, moment, random),
            Input::Lost(served) => connection.handle_lost(self.generation, served, random),
            Input::Timeout(usage) => connection.handle_timeout(moment, usage, random),
            Input::Close => connection.handle_close(),
        }
        let action = connection.poll_action();
        if let Some(ConnectionAction::Dial { generation }) = action {
            self.generation = generation;
        }
        let state = connection.state();
        let due = connection.poll_timeout();
        self.answers.push(format!("{action:?} {state:?} {due:?}"));
    }
}

fn trace(seed: u64, inputs: &[(u64, Input)]) -> Vec<String> {
    let mut run = Run::new(seed);
    for (now, input) in inputs {
        run.input(*now, *input);
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
        prop_assert_eq!(trace(seed, &inputs), trace(seed, &never_back(&inputs, tells_time)));
    }

    #[test]
    fn an_early_timeout_is_a_no_op(seed in any::<u64>(), inputs in inputs()) {
        let inputs = never_back(&inputs, tells_time);
        let mut run = Run::new(seed);
        for (now, input) in &inputs {
            let due = run.connection.poll_timeout();
            if due.is_none_or(|due| at(*now) < due) {
                let usage = Usage::IdleSince(at(0));
                run.connection.handle_timeout(at(*now), usage, &mut run.random);
                prop_assert_eq!(run.connection.poll_action(), None);
            }
            run.input(*now, *input);
        }
        prop_assert_eq!(run.answers, trace(seed, &inputs));
    }

    /// Noticed late, an attempt has timed out, a backoff is over and an unused connection
    /// goes, just as they did on time. What is done because of it is done late: a dial
    /// counts from when it is dialed.
    #[test]
    fn a_late_timeout_equals_the_one_on_time(
        seed in any::<u64>(), inputs in inputs(), late in 0_u64..60, since in 0_u64..300,
    ) {
        let inputs = never_back(&inputs, tells_time);
        let (mut on_time, mut delayed) = (Run::new(seed), Run::new(seed));
        for (now, input) in &inputs {
            on_time.input(*now, *input);
            delayed.input(*now, *input);
        }
        let Some(due) = on_time.connection.poll_timeout() else { return Ok(()) };
        let due = due.as_nanos();
        let seen = inputs.last().map_or(0, |(now, _)| *now);
        let then = seen.max(due + late * SECOND / 4);
        let timeout = Input::Timeout(Usage::IdleSince(at(since * SECOND / 4)));
        on_time.input(due, timeout);
        let dialed = on_time.generation != delayed.generation;
        let first = on_time.answers.last().cloned();
        if dialed {
            delayed.input(then, timeout);
            prop_assert_eq!(delayed.generation, on_time.generation);
            let until = delayed.connection.poll_timeout();
            prop_assert_eq!(until, Some(at(then + 3 * SECOND)));
            return Ok(());
        }
        on_time.input(then, timeout);
        delayed.input(then, timeout);
        prop_assert_eq!(delayed.connection.state(), on_time.connection.state());
        prop_assert_eq!(delayed.connection.poll_timeout(), on_time.connection.poll_timeout());
        let action = |answer: &Option<String>| {
            let text = answer.as_deref().unwrap_or_default();
            text.split(' ').next() != Some("None")
        };
        let told = action(&first) || action(&on_time.answers.last().cloned());
        prop_assert_eq!(action(&delayed.answers.last().cloned()), told);
    }
}

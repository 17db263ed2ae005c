//! What the breaker's answers depend on is when it was told, never when it was asked.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use steadfast_core::{
    Breaker, BreakerOutcome, BreakerSettings, BreakerState, ProbeVerdict, Ticket, Transition,
    policy_fn,
};

use super::*;

#[derive(Clone, Copy, Debug)]
enum Input {
    Admit,
    Settle(Index, BreakerOutcome),
}

fn inputs() -> impl Strategy<Value = Vec<(u64, Input)>> {
    let outcome = prop_oneof![
        Just(BreakerOutcome::Success),
        Just(BreakerOutcome::Failure),
        Just(BreakerOutcome::Ignored),
    ];
    moments(prop_oneof![
        Just(Input::Admit),
        (any::<Index>(), outcome).prop_map(|(index, outcome)| Input::Settle(index, outcome)),
    ])
}

const OPEN_FOR: u64 = 20;

/// Opens on two failures, on a failed probe and on a second one leaked; closes on two
/// successes.
fn breaker() -> Breaker {
    let policy = policy_fn(
        |counts| counts.failures >= 2,
        |counts| match (counts.failures, counts.timed_out, counts.successes) {
            (1.., _, _) | (_, 2.., _) => ProbeVerdict::Open,
            (_, _, 2..) => ProbeVerdict::Close,
            _ => ProbeVerdict::KeepProbing,
        },
    );
    let settings = BreakerSettings {
        window: 5,
        probes: 2,
        open_for: Duration::from_nanos(OPEN_FOR),
        probe_timeout: Duration::from_nanos(15),
    };
    Breaker::with_policy(settings, Arc::new(policy))
}

struct Run {
    breaker: Breaker,
    tickets: Vec<Ticket>,
    answers: Vec<String>,
    transitions: Vec<Transition>,
}

impl Run {
    fn new() -> Self {
        Self {
            breaker: breaker(),
            tickets: Vec::new(),
            answers: Vec::new(),
            transitions: Vec::new(),
        }
    }

    fn input(&mut self, now: u64, input: Input) {
        match input {
            Input::Settle(index, outcome) if !self.tickets.is_empty() => {
                let ticket = self.tickets.swap_remove(index.index(self.tickets.len()));
                self.breaker.settle(ticket, outcome, at(now));
            }
            Input::Admit | Input::Settle(..) => match self.breaker.admit(at(now)) {
                Ok(ticket) => self.tickets.push(ticket),
                Err(rejected) => self.answers.push(format!("{rejected:?}")),
            },
        }
        self.drain();
        let (state, counts) = (self.breaker.state(), self.breaker.counts());
        self.answers.push(format!("{state} {counts:?}"));
    }

    fn drain(&mut self) {
        self.transitions
            .extend(std::iter::from_fn(|| self.breaker.poll_transition()));
    }

    /// A call that comes and goes and says nothing, unless it would be the one that
    /// half-opens the breaker.
    fn spurious(&mut self, now: u64) {
        let half_opens = self.breaker.state() == BreakerState::Open
            && self.transitions.last().is_some_and(|opened| {
                at(now) >= opened.at.saturating_add(Duration::from_nanos(OPEN_FOR))
            });
        if half_opens {
            return;
        }
        if let Ok(ticket) = self.breaker.admit(at(now)) {
            self.breaker
                .settle(ticket, BreakerOutcome::Ignored, at(now));
        }
        self.drain();
    }
}

fn trace(inputs: &[(u64, Input)]) -> (Vec<String>, Vec<Transition>) {
    let mut run = Run::new();
    for (now, input) in inputs {
        run.input(*now, *input);
    }
    (run.answers, run.transitions)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn time_stepping_back_is_ignored(inputs in inputs()) {
        prop_assert_eq!(trace(&inputs), trace(&never_back(&inputs, |_| true)));
    }

    /// Looked at each nanosecond, or only when something is at stake: a probe that timed
    /// out in between did so when it did, not when that was noticed.
    #[test]
    fn a_late_call_equals_the_on_time_calls_before_it(inputs in inputs()) {
        let inputs = never_back(&inputs, |_| true);
        let mut run = Run::new();
        let mut last = 0;
        for (now, input) in &inputs {
            for between in last..*now {
                run.spurious(between);
            }
            run.input(*now, *input);
            last = *now;
        }
        // The looks in between find a breaker that opened meanwhile half-open no sooner.
        prop_assert_eq!((run.answers, run.transitions), trace(&inputs));
    }
}

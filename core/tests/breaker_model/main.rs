//! The breaker against a naive model: one that keeps every result and recounts, and steps
//! through time one timed-out probe at a time.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::{
    Breaker, BreakerOutcome, BreakerSettings, BreakerState, Instant, ProbeVerdict, Ticket,
    Transition, policy_fn,
};

mod model;

use self::model::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    Admit,
    /// Settles one of the tickets in hand, however old.
    Settle(prop::sample::Index, BreakerOutcome),
    /// Loses one of them.
    Leak(prop::sample::Index),
    /// A whole attempt.
    Attempt(BreakerOutcome),
    Pass(u64),
    StepBack(u64),
}

fn outcome() -> impl Strategy<Value = BreakerOutcome> {
    prop_oneof![
        4 => Just(BreakerOutcome::Success),
        4 => Just(BreakerOutcome::Failure),
        1 => Just(BreakerOutcome::Ignored),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => Just(Op::Admit),
        4 => (index(), outcome()).prop_map(|(index, outcome)| Op::Settle(index, outcome)),
        1 => index().prop_map(Op::Leak),
        8 => outcome().prop_map(Op::Attempt),
        4 => (0_u64..12).prop_map(Op::Pass),
        1 => (0_u64..2_000).prop_map(Op::Pass),
        1 => (0_u64..2_000).prop_map(Op::StepBack),
    ]
}

prop_compose! {
    fn settings()(
        window in 1_u32..=70,
        probes in 1_u32..=4,
        open_for in 1_u64..=30,
        probe_timeout in 1_u64..=30,
    ) -> BreakerSettings {
        BreakerSettings {
            window,
            probes,
            open_for: Duration::from_nanos(open_for),
            probe_timeout: Duration::from_nanos(probe_timeout),
        }
    }
}

prop_compose! {
    fn thresholds()(
        failures_in_a_row in 1_u32..=80,
        least_results in 1_u32..=80,
        failed_percent in 30_u32..=110,
        successes_in_a_row in 20_u32..=300,
        probe_failures in 1_u32..=3,
        probe_timeouts in 1_u32..=4,
        probe_successes in 1_u32..=4,
    ) -> Thresholds {
        Thresholds {
            failures_in_a_row,
            least_results,
            failed_percent,
            successes_in_a_row,
            probe_failures,
            probe_timeouts,
            probe_successes,
        }
    }
}

/// The breaker and its model, side by side.
struct Pair {
    breaker: Breaker,
    model: Model,
    /// The caller's clock, which the breaker is told; it may step back.
    clock: u64,
    latest: u64,
    in_hand: Vec<(Ticket, Slot)>,
    /// Every probe admitted in the present half-open state that was not settled, with when
    /// it was admitted: kept apart from the model, for the bound on what may be out.
    unsettled: Vec<(usize, u64)>,
}

impl Pair {
    fn admit(&mut self) -> Result<Option<(Ticket, Slot)>, TestCaseError> {
        let now = Instant::from_nanos(self.clock);
        let admitted = self.breaker.admit(now);
        let expected = self.model.admit(self.clock);
        self.agree()?;
        match (admitted, expected) {
            (Ok(ticket), Ok(slot)) => {
                prop_assert_ne!(self.breaker.state(), BreakerState::Open, "admitted");
                if self.breaker.state() == BreakerState::HalfOpen {
                    self.unsettled.push((slot.number, self.latest));
                }
                self.bound_probes()?;
                Ok(Some((ticket, slot)))
            }
            (Err(rejected), Err(remaining)) => {
                prop_assert_eq!(rejected.state, self.breaker.state());
                prop_assert_eq!(nanos(rejected.remaining), remaining);
                prop_assert!(!rejected.remaining.is_zero());
                Ok(None)
            }
            (admitted, expected) => {
                prop_assert!(false, "{:?} but the model {:?}", admitted, expected);
                Ok(None)
            }
        }
    }

    fn settle(
        &mut self,
        (ticket, slot): (Ticket, Slot),
        outcome: BreakerOutcome,
    ) -> Result<(), TestCaseError> {
        let now = Instant::from_nanos(self.clock);
        self.breaker.settle(ticket, outcome, now);
        self.model.settle(slot, outcome, self.clock);
        self.unsettled.retain(|(number, _)| *number != slot.number);
        self.agree()
    }

    fn agree(&mut self) -> Result<(), TestCaseError> {
        self.latest = self.latest.max(self.clock);
        prop_assert_eq!(self.breaker.state(), self.model.state);
        prop_assert_eq!(self.breaker.counts(), self.model.recount());
        let quiet = self.model.state == BreakerState::Closed && self.model.recount().failures == 0;
        prop_assert_eq!(self.breaker.is_quiet(), quiet);
        Ok(())
    }

    /// While half-open never more unexpired tickets than probes.
    fn bound_probes(&self) -> Result<(), TestCaseError> {
        if self.breaker.state() == BreakerState::HalfOpen {
            let timeout = nanos(self.model.settings.probe_timeout);
            let epoch = self.model.transitions.last().expect("it opened").3;
            let unexpired = self
                .unsettled
                .iter()
                .filter(|(_, admitted)| *admitted >= epoch && admitted + timeout > self.latest);
            prop_assert!(unexpired.count() <= self.model.settings.probes as usize);
        }
        Ok(())
    }

    fn run(&mut self, ops: Vec<Op>) -> Result<(), TestCaseError> {
        for op in ops {
            match op {
                Op::Admit => {
                    let admitted = self.admit()?;
                    self.in_hand.extend(admitted);
                }
                Op::Attempt(outcome) => {
                    if let Some(admitted) = self.admit()? {
                        self.settle(admitted, outcome)?;
                    }
                }
                Op::Settle(index, outcome) if !self.in_hand.is_empty() => {
                    let held = self.in_hand.swap_remove(index.index(self.in_hand.len()));
                    self.settle(held, outcome)?;
                }
                Op::Leak(index) if !self.in_hand.is_empty() => {
                    drop(self.in_hand.swap_remove(index.index(self.in_hand.len())));
                }
                Op::Settle(..) | Op::Leak(_) => {}
                Op::Pass(by) => self.clock += by,
                Op::StepBack(by) => self.clock = self.clock.saturating_sub(by),
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn agrees_with_the_model_and_never_locks_up(
        settings in settings(),
        thresholds in thresholds(),
        ops in prop::collection::vec(op(), 0..300),
    ) {
        let mut pair = Pair {
            breaker: Breaker::with_policy(settings, thresholds.policy()),
            model: Model::new(settings, thresholds),
            clock: 0,
            latest: 0,
            in_hand: Vec::new(),
            unsettled: Vec::new(),
        };
        pair.run(ops)?;

        // Whatever was dropped, leaked or is late: after both periods a call is admitted.
        pair.clock = pair.latest + nanos(settings.open_for) + nanos(settings.probe_timeout);
        prop_assert!(pair.admit()?.is_some(), "locked up");

        let transitions: Vec<Transition> =
            std::iter::from_fn(|| pair.breaker.poll_transition()).collect();
        let told: Vec<_> = transitions
            .iter()
            .map(|t| (t.from, t.to, t.counts, t.at.as_nanos()))
            .collect();
        prop_assert_eq!(&told, &pair.model.transitions);
        prop_assert!(told.windows(2).all(|pair| pair[0].1 == pair[1].0), "complete");
        prop_assert!(told.windows(2).all(|pair| pair[0].3 <= pair[1].3), "in order");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Closed, the counts are a recount of the last `window` results, and the runs are of
    /// all results, for every size around the words that the bits are kept in.
    #[test]
    fn the_window_is_a_recount_of_the_last_results(
        window in 1_u32..=200,
        failed in prop::collection::vec(any::<bool>(), 0..500),
    ) {
        let settings = BreakerSettings { window, ..BreakerSettings::default() };
        let never = policy_fn(|_| false, |_| ProbeVerdict::Close);
        let mut breaker = Breaker::with_policy(settings, Arc::new(never));
        for (done, failure) in failed.iter().enumerate() {
            let ticket = breaker.admit(Instant::ZERO).expect("closed");
            let outcome = if *failure { BreakerOutcome::Failure } else { BreakerOutcome::Success };
            breaker.settle(ticket, outcome, Instant::ZERO);
            let all = &failed[..=done];
            let last = &all[all.len().saturating_sub(window as usize)..];
            let failures = last.iter().filter(|failed| **failed).count();
            let run = |of: bool| all.iter().rev().take_while(|f| **f == of).count();
            let expected = counts(
                (last.len() - failures, failures),
                (run(false), run(true)),
                0,
            );
            prop_assert_eq!(breaker.counts(), expected);
        }
    }
}

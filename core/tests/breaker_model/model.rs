//! The naive breaker.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::{
    BreakerOutcome, BreakerPolicy, BreakerSettings, BreakerState, Counts, ProbeVerdict, policy_fn,
};

/// A policy given as numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) failures_in_a_row: u32,
    pub(crate) least_results: u32,
    pub(crate) failed_percent: u32,
    pub(crate) successes_in_a_row: u32,
    pub(crate) probe_failures: u32,
    pub(crate) probe_timeouts: u32,
    pub(crate) probe_successes: u32,
}

impl Thresholds {
    pub(crate) fn opens(self, counts: &Counts) -> bool {
        let results = counts.successes + counts.failures;
        counts.consecutive_failures >= self.failures_in_a_row
            || counts.consecutive_successes >= self.successes_in_a_row
            || results >= self.least_results
                && counts.failures * 100 >= results * self.failed_percent
    }

    pub(crate) fn verdict(self, counts: &Counts) -> ProbeVerdict {
        if counts.failures >= self.probe_failures || counts.timed_out >= self.probe_timeouts {
            ProbeVerdict::Open
        } else if counts.successes >= self.probe_successes {
            ProbeVerdict::Close
        } else {
            ProbeVerdict::KeepProbing
        }
    }

    pub(crate) fn policy(self) -> Arc<dyn BreakerPolicy> {
        Arc::new(policy_fn(
            move |counts| self.opens(counts),
            move |counts| self.verdict(counts),
        ))
    }
}

/// A ticket as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slot {
    pub(crate) epoch: usize,
    pub(crate) number: usize,
    pub(crate) taken_at: u64,
}

pub(crate) struct Model {
    pub(crate) settings: BreakerSettings,
    pub(crate) thresholds: Thresholds,
    pub(crate) now: u64,
    pub(crate) state: BreakerState,
    pub(crate) opened_at: u64,
    /// Every result since the state was entered; true is a failure.
    pub(crate) failed: Vec<bool>,
    pub(crate) timed_out: u32,
    pub(crate) out: Vec<Slot>,
    pub(crate) issued: usize,
    pub(crate) transitions: Vec<(BreakerState, BreakerState, Counts, u64)>,
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

pub(crate) fn counts(
    (successes, failures): (usize, usize),
    (consecutive_successes, consecutive_failures): (usize, usize),
    timed_out: u32,
) -> Counts {
    let mut counts = Counts::default();
    counts.successes = successes as u32;
    counts.failures = failures as u32;
    counts.consecutive_successes = consecutive_successes as u32;
    counts.consecutive_failures = consecutive_failures as u32;
    counts.timed_out = timed_out;
    counts
}

impl Model {
    pub(crate) fn new(settings: BreakerSettings, thresholds: Thresholds) -> Self {
        Self {
            settings,
            thresholds,
            now: 0,
            state: BreakerState::Closed,
            opened_at: 0,
            failed: Vec::new(),
            timed_out: 0,
            out: Vec::new(),
            issued: 0,
            transitions: Vec::new(),
        }
    }

    pub(crate) fn recount(&self) -> Counts {
        let seen = match self.state {
            BreakerState::Closed => {
                let window = self.settings.window as usize;
                &self.failed[self.failed.len().saturating_sub(window)..]
            }
            BreakerState::HalfOpen => &self.failed[..],
            BreakerState::Open => &[],
        };
        let failures = seen.iter().filter(|failed| **failed).count();
        let run = |of: bool| self.failed.iter().rev().take_while(|f| **f == of).count();
        counts(
            (seen.len() - failures, failures),
            (run(false), run(true)),
            self.timed_out,
        )
    }

    pub(crate) fn enter(&mut self, to: BreakerState) {
        let left = (self.state, to, self.recount(), self.now);
        self.transitions.push(left);
        self.state = to;
        self.opened_at = self.now;
        self.failed.clear();
        self.out.clear();
        self.timed_out = 0;
    }

    pub(crate) fn judge(&mut self) {
        match self.thresholds.verdict(&self.recount()) {
            ProbeVerdict::KeepProbing => {}
            ProbeVerdict::Open => self.enter(BreakerState::Open),
            ProbeVerdict::Close => self.enter(BreakerState::Closed),
        }
    }

    pub(crate) fn expiry(&self, slot: &Slot) -> u64 {
        slot.taken_at + nanos(self.settings.probe_timeout)
    }

    /// Time passes, one timed-out probe (or several of one moment) after another.
    pub(crate) fn pass(&mut self, now: u64) {
        let now = now.max(self.now);
        while self.state == BreakerState::HalfOpen {
            let Some(next) = self.out.iter().map(|slot| self.expiry(slot)).min() else {
                break;
            };
            if next > now {
                break;
            }
            self.now = next;
            let (gone, out) = self
                .out
                .iter()
                .partition::<Vec<Slot>, _>(|slot| self.expiry(slot) == next);
            self.out = out;
            self.timed_out += gone.len() as u32;
            self.judge();
        }
        self.now = now;
    }

    /// The slot taken, or how long the rejection says.
    pub(crate) fn admit(&mut self, now: u64) -> Result<Slot, u64> {
        self.pass(now);
        let reopens = self.opened_at + nanos(self.settings.open_for);
        if self.state == BreakerState::Open {
            if self.now < reopens {
                return Err(reopens - self.now);
            }
            self.enter(BreakerState::HalfOpen);
        }
        if self.state == BreakerState::HalfOpen && self.out.len() >= self.settings.probes as usize {
            let first = self.out.iter().map(|slot| self.expiry(slot)).min();
            return Err(first.expect("a probe is out") - self.now);
        }
        self.issued += 1;
        let slot = Slot {
            epoch: self.transitions.len(),
            number: self.issued,
            taken_at: self.now,
        };
        if self.state == BreakerState::HalfOpen {
            self.out.push(slot);
        }
        Ok(slot)
    }

    pub(crate) fn settle(&mut self, slot: Slot, outcome: BreakerOutcome, now: u64) {
        self.pass(now);
        if slot.epoch != self.transitions.len() {
            return;
        }
        if self.state == BreakerState::HalfOpen {
            if !self.out.contains(&slot) {
                return;
            }
            self.out.retain(|out| *out != slot);
        }
        match outcome {
            BreakerOutcome::Ignored => return,
            BreakerOutcome::Success => self.failed.push(false),
            BreakerOutcome::Failure => self.failed.push(true),
        }
        if self.state == BreakerState::HalfOpen {
            self.judge();
        } else if self.thresholds.opens(&self.recount()) {
            self.enter(BreakerState::Open);
        }
    }
}

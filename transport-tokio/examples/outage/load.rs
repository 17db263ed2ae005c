//! The load: calls at a fixed rate, however long they take.
//!
//! An open loop. A call is made when it is due, whether or not the ones before have ended, as
//! the users of a real service do; a client can't make an outage look better by being slow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_tokio::{CallReport, End};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status};

use crate::plan::Plan;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Succeeded,
    /// Turned away by Steadfast's breaker, at once.
    Rejected,
    /// At its deadline by Steadfast's clock, with an attempt under way.
    Expired,
    /// With any other status.
    Failed,
}

impl Ended {
    fn of(result: &Result<(), Status>) -> Self {
        match result {
            Ok(()) => Self::Succeeded,
            Err(status) if steadfast_tokio::rejected(status).is_some() => Self::Rejected,
            Err(status) if was_cut_short(status) => Self::Expired,
            Err(_) => Self::Failed,
        }
    }
}

fn was_cut_short(status: &Status) -> bool {
    CallReport::of(status).is_some_and(|report| {
        let last = report.attempts().last();
        *report.end() == End::Expired
            && last.is_some_and(|last| last.code == Code::DeadlineExceeded)
    })
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// The phase in which it was made.
    pub(crate) phase: usize,
    pub(crate) took: Duration,
    pub(crate) ended: Ended,
}

/// Every call so far.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    made: u32,
    endings: Vec<Ending>,
}

/// Calls, as the progress shows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) made: usize,
    pub(crate) succeeded: usize,
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) fn progress(&self) -> Progress {
        let calls = self.lock();
        let succeeded = |ending: &&Ending| ending.ended == Ended::Succeeded;
        let succeeded = calls.endings.iter().filter(succeeded).count();
        Progress {
            made: calls.made as usize,
            succeeded,
            failed: calls.endings.len() - succeeded,
        }
    }

    /// Those that have ended.
    pub(crate) fn endings(&self) -> Vec<Ending> {
        self.lock().endings.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the calls of `plan`, and waits until the last has ended.
pub(crate) async fn run<F>(plan: &Plan, start: Instant, tally: &Tally, mut call: impl FnMut() -> F)
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for n in 0..plan.calls() {
        let due = plan.due(n);
        sleep_until(start + due).await;
        let (phase, call, tally) = (plan.phase_at(due), call(), tally.clone());
        tally.lock().made += 1;
        calls.spawn(async move {
            let begun = Instant::now();
            let ended = Ended::of(&call.await);
            let took = begun.elapsed();
            tally.lock().endings.push(Ending { phase, took, ended });
        });
    }
    calls.join_all().await;
}

//! Time by tokio's clock.

use std::time::Duration;

use steadfast_client::{Instant, Timer};
use tokio::time::{self, Sleep};

/// A [`Timer`] over tokio's clock, so that `tokio::time::pause` and `advance` move the waits
/// and deadlines of a client too.
///
/// Its epoch is when it was made. Sleep by it within a runtime that has time enabled.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    epoch: time::Instant,
}

impl TokioTimer {
    /// A timer whose time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            epoch: time::Instant::now(),
        }
    }
}

impl Default for TokioTimer {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for TokioTimer {
    type Sleep = Sleep;

    fn now(&self) -> Instant {
        Instant::ZERO.saturating_add(self.epoch.elapsed())
    }

    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let since_epoch = Duration::from_nanos(deadline.as_nanos());
        match self.epoch.checked_add(since_epoch) {
            Some(deadline) => time::sleep_until(deadline),
            // Past what the clock can tell; tokio's own far future is about thirty years.
            None => time::sleep(Duration::MAX),
        }
    }
}

//! tokio's paused clock beside real sockets.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Keeps a paused clock from moving by itself.
///
/// tokio advances a paused clock whenever its runtime is idle, and it is idle also while it
/// waits for a socket: every deadline would pass in the first round trip. A blocking task
/// under way forbids that, so time moves only by [`advance`](Self::advance).
#[derive(Debug)]
pub struct HeldClock(#[allow(dead_code, reason = "its drop ends the task")] Sender<()>);

impl HeldClock {
    /// Holds the clock of the current runtime, which must be paused.
    #[must_use]
    pub fn new() -> Self {
        let (release, held) = channel();
        tokio::task::spawn_blocking(move || held.recv());
        Self(release)
    }

    /// Moves the clock.
    pub async fn advance(&self, by: Duration) {
        tokio::time::advance(by).await;
    }
}

impl Default for HeldClock {
    fn default() -> Self {
        Self::new()
    }
}

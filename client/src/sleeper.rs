//! One wait at a time, by a clock that is trusted over its sleeps.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use steadfast_core::{Instant, Timer};

pin_project! {
    /// Waits for a point of time that may change from poll to poll. Nothing is armed before
    /// the first poll, so a call that is done by then never touches the timer.
    ///
    /// A driver trusts the clock and not the sleep: one that ends early is taken up again.
    #[derive(Debug)]
    pub struct Sleeper<S> {
        until: Instant,
        #[pin]
        sleep: Option<S>,
    }
}

impl<S> Sleeper<S> {
    /// Nothing armed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            until: Instant::ZERO,
            sleep: None,
        }
    }
}

impl<S> Default for Sleeper<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Future<Output = ()>> Sleeper<S> {
    /// Ready with the present time once that is `until` or later.
    pub fn poll_until<C>(
        self: Pin<&mut Self>,
        until: Instant,
        timer: &C,
        cx: &mut Context<'_>,
    ) -> Poll<Instant>
    where
        C: Timer<Sleep = S>,
    {
        let mut this = self.project();
        loop {
            match this.sleep.as_mut().as_pin_mut() {
                Some(sleep) if *this.until == until => {
                    if sleep.poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    this.sleep.set(None);
                    let now = timer.now();
                    if now >= until {
                        return Poll::Ready(now);
                    }
                    // The sleep ended early: take it up again.
                }
                _ => {
                    *this.until = until;
                    this.sleep.set(Some(timer.sleep_until(until)));
                }
            }
        }
    }
}

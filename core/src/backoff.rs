//! How long to wait before a retry.
//!
//! Clients that fail together must not come back together. The schedule is full jitter:
//! before retry `n` the wait is uniform in `[0, min(max, base * 2^(n-1))]`. gRFC A6 since
//! 2024 draws from ±20 % around the exponential value instead; full jitter is a
//! deliberate difference, because it decorrelates a fleet best and never passes `max`.
//!
//! The schedule goes on by the number of the retry alone: a pushback from the server
//! doesn't restart it, and a pushback of zero doesn't hold it at zero.
//!
//! ```
//! use core::time::Duration;
//! use steadfast_core::{Backoff, SeededRandom};
//!
//! let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
//! assert_eq!(backoff.ceiling(1), Duration::from_millis(100));
//! assert_eq!(backoff.ceiling(3), Duration::from_millis(400));
//! assert_eq!(backoff.ceiling(u32::MAX), Duration::from_secs(5));
//! assert!(backoff.draw(3, &mut SeededRandom::new(1)) <= Duration::from_millis(400));
//! ```

use core::time::Duration;

use crate::random::{Random, uniform};

/// Exponential backoff with full jitter and a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
}

impl Backoff {
    /// Doubles from `base`, never above `max`.
    #[must_use]
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// The longest wait this schedule, or a server's pushback, may ask for.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// The longest wait before retry `n`, counted from 1: `min(max, base * 2^(n-1))`,
    /// for any `n` without overflow.
    #[must_use]
    pub fn ceiling(&self, n: u32) -> Duration {
        let max = self.max.as_nanos();
        let nanos = 1_u128
            .checked_shl(n.saturating_sub(1))
            .and_then(|factor| self.base.as_nanos().checked_mul(factor))
            .unwrap_or(max);
        from_nanos(nanos.min(max))
    }

    /// The wait before retry `n`, counted from 1: uniform in `[0, ceiling(n)]`.
    #[must_use]
    pub fn draw(&self, n: u32, random: &mut impl Random) -> Duration {
        uniform(self.ceiling(n), random)
    }
}

/// `nanos` as a duration; the caller knows that it is not above another duration.
fn from_nanos(nanos: u128) -> Duration {
    const PER_SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / PER_SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % PER_SECOND) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    struct Highest;

    impl Random for Highest {
        fn next_u64(&mut self) -> u64 {
            u64::MAX
        }
    }

    const SCHEDULE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));

    #[test]
    fn doubles_up_to_the_maximum() {
        let ceilings = [1, 2, 3, 4, 5, 6].map(|n| SCHEDULE.ceiling(n).as_millis());
        assert_eq!(ceilings, [100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn no_retry_number_overflows() {
        let widest = Backoff::new(Duration::MAX, Duration::MAX);
        let finest = Backoff::new(Duration::from_nanos(1), Duration::MAX);
        for n in [0, 1, 2, 31, 32, 33, 64, 65, 127, 128, 129, u32::MAX] {
            assert_eq!(widest.ceiling(n), Duration::MAX, "retry {n}");
            assert!(finest.ceiling(n) >= Duration::from_nanos(1), "retry {n}");
        }
        assert_eq!(finest.ceiling(34), Duration::from_nanos(1 << 33));
        assert_eq!(finest.ceiling(94), from_nanos(1 << 93));
        assert_eq!(finest.ceiling(u32::MAX), Duration::MAX);
    }

    #[test]
    fn the_highest_draw_is_the_ceiling_and_never_above_the_maximum() {
        for n in 1..100 {
            assert_eq!(SCHEDULE.draw(n, &mut Highest), SCHEDULE.ceiling(n));
        }
        let mut random = SeededRandom::new(5);
        for n in 1..=10 {
            for _ in 0..10_000 {
                assert!(SCHEDULE.draw(n, &mut random) <= SCHEDULE.ceiling(n));
            }
        }
    }

    #[test]
    fn a_thousand_clients_spread_over_the_whole_range() {
        let schedule = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        let mut buckets = [0_u32; 10];
        for client in 0..1_000 {
            let wait = schedule.draw(10, &mut SeededRandom::stream(7, client));
            buckets[(wait.as_secs() as usize).min(9)] += 1;
        }
        assert!(
            buckets.iter().all(|count| (50..=150).contains(count)),
            "{buckets:?}"
        );
    }
}

//! A point in time that the caller hands in.
//!
//! A machine that read a clock could not be stepped by hand, replayed or run on a
//! device without an operating system. Every machine of this crate therefore takes
//! `now` as a plain argument of this type.
//!
//! All arithmetic saturates: a timer whose epoch is far away, or a `Duration::MAX`
//! in the settings, shortens or lengthens a wait and never panics.
//!
//! ```
//! use core::time::Duration;
//! use steadfast_core::Instant;
//!
//! let start = Instant::from_nanos(1_000);
//! assert_eq!(start.saturating_add(Duration::from_nanos(500)).as_nanos(), 1_500);
//! assert_eq!(Instant::ZERO.saturating_since(start), Duration::ZERO);
//! ```

use core::time::Duration;

/// Nanoseconds since the epoch of the timer it came from.
///
/// Range: 0 to 2^64 - 1 ns, some 584 years. Two instants compare only if they came
/// from the same timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The timer's epoch.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the timer's epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the timer's epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `duration` later, or the last one there is.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        // In 64 bits, since `Duration::as_nanos` counts in twice that.
        let seconds = duration.as_secs().saturating_mul(1_000_000_000);
        let nanos = seconds.saturating_add(u64::from(duration.subsec_nanos()));
        Self(self.0.saturating_add(nanos))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Self;

    /// As [`saturating_add`](Self::saturating_add).
    fn add(self, duration: Duration) -> Self {
        self.saturating_add(duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let last = Instant::from_nanos(u64::MAX);
        assert_eq!(last.saturating_add(Duration::from_nanos(1)), last);
        assert_eq!(Instant::ZERO.saturating_add(Duration::MAX), last);
        assert_eq!(Instant::ZERO + Duration::MAX, last);
        assert_eq!(Instant::ZERO.saturating_since(last), Duration::ZERO);
        assert_eq!(
            last.saturating_since(Instant::ZERO),
            Duration::from_nanos(u64::MAX)
        );
    }

    #[test]
    fn arithmetic_is_exact_to_the_nanosecond() {
        let start = Instant::from_nanos(7);
        let later = start.saturating_add(Duration::new(3, 11));
        assert_eq!(later.as_nanos(), 3_000_000_018);
        assert_eq!(later.saturating_since(start), Duration::new(3, 11));
    }
}

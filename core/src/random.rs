//! Randomness that the caller hands in.
//!
//! Jitter drawn from a process-wide generator could not be replayed, and two clients
//! seeded alike would retry in step. A schedule therefore draws from a [`Random`] it is
//! given; [`SeededRandom`] is one that a number starts.

use core::time::Duration;

/// A source of uniformly distributed bits.
pub trait Random {
    /// The next 64 bits.
    fn next_u64(&mut self) -> u64;
}

impl<R: Random + ?Sized> Random for &mut R {
    fn next_u64(&mut self) -> u64 {
        (**self).next_u64()
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): eight bytes of state, the same sequence for
/// the same seed on every machine. For jitter, not for secrets.
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl SeededRandom {
    /// The sequence that `seed` starts.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence for the `n`th user of one seed: streams that do not run in step, so
    /// that calls sharing a seed don't share their jitter.
    #[must_use]
    pub fn stream(seed: u64, n: u64) -> Self {
        let mut mixed = Self(seed ^ n.wrapping_mul(GOLDEN_GAMMA).rotate_left(32));
        Self(mixed.next_u64())
    }
}

impl Random for SeededRandom {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A duration uniform in `[0, max]`, both ends included, in whole nanoseconds.
pub(crate) fn uniform(max: Duration, random: &mut impl Random) -> Duration {
    let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
    // The high half of a 128-bit product maps 2^64 draws on max + 1 values without a
    // division; the bias is below one draw in 2^64 / max.
    let scaled = u128::from(random.next_u64()) * (u128::from(max) + 1);
    Duration::from_nanos((scaled >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u64);

    impl Random for Fixed {
        fn next_u64(&mut self) -> u64 {
            self.0
        }
    }

    #[test]
    fn the_same_seed_gives_the_published_sequence() {
        // Reference values of SplitMix64 for seed 1234567.
        let mut random = SeededRandom::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
        assert_eq!(random.next_u64(), 9_817_491_932_198_370_423);
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |n| SeededRandom::stream(9, n).next_u64();
        assert_ne!(draw(0), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(1), draw(1));
        assert_ne!(
            SeededRandom::stream(8, 1).next_u64(),
            SeededRandom::stream(9, 1).next_u64()
        );
    }

    #[test]
    fn uniform_reaches_both_ends_and_never_passes_them() {
        let max = Duration::from_millis(100);
        assert_eq!(uniform(max, &mut Fixed(0)), Duration::ZERO);
        assert_eq!(uniform(max, &mut Fixed(u64::MAX)), max);
        assert_eq!(uniform(max, &mut Fixed(1 << 63)), max / 2);
        assert_eq!(
            uniform(Duration::ZERO, &mut Fixed(u64::MAX)),
            Duration::ZERO
        );
        assert_eq!(
            uniform(Duration::MAX, &mut Fixed(u64::MAX)),
            Duration::from_nanos(u64::MAX)
        );
    }

    #[test]
    fn a_borrowed_source_is_the_source() {
        let mut random = SeededRandom::new(3);
        fn draw(mut random: impl Random) -> u64 {
            random.next_u64()
        }
        let first = draw(&mut random);
        let second = draw(&mut random);
        let mut same = SeededRandom::new(3);
        assert_eq!([first, second], [same.next_u64(), same.next_u64()]);
    }
}

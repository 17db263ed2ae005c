//! The last N results, one bit each, with their counts kept beside them.

use alloc::vec;
use alloc::vec::Vec;

use super::Counts;

/// A ring of results. Its memory is taken once, when the breaker closes.
pub(super) struct Window {
    /// A set bit is a failure.
    failed: Vec<u64>,
    size: u32,
    /// Where the next result goes; the oldest one stands there once the ring is full.
    next: u32,
    counts: Counts,
}

impl Window {
    pub(super) fn new(size: u32) -> Self {
        Self {
            failed: vec![0; size.div_ceil(64) as usize],
            size,
            next: 0,
            counts: Counts::default(),
        }
    }

    pub(super) const fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(super) fn push(&mut self, failed: bool) {
        let word = &mut self.failed[(self.next / 64) as usize];
        let bit = 1 << (self.next % 64);
        if self.counts.results() == self.size {
            if *word & bit != 0 {
                self.counts.failures -= 1;
            } else {
                self.counts.successes -= 1;
            }
        }
        if failed {
            *word |= bit;
            self.counts.failures += 1;
        } else {
            *word &= !bit;
            self.counts.successes += 1;
        }
        self.counts.extend_run(failed);
        self.next = if self.next + 1 == self.size {
            0
        } else {
            self.next + 1
        };
    }
}

//! The slots of a half-open breaker: who is out, and since when.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::Instant;

/// Slots out at once, in the order they were taken, which is also the order they expire
/// in: time never steps back here.
pub(super) struct Probes {
    limit: usize,
    timeout: Duration,
    out: VecDeque<Slot>,
    taken: u64,
}

struct Slot {
    probe: u64,
    expires: Instant,
}

impl Probes {
    pub(super) const fn new(limit: u32, timeout: Duration) -> Self {
        Self {
            limit: limit as usize,
            timeout,
            out: VecDeque::new(),
            taken: 0,
        }
    }

    /// Takes a slot, or answers how long until the oldest one expires.
    pub(super) fn take(&mut self, now: Instant) -> Result<u64, Duration> {
        if let Some(oldest) = self.out.front()
            && self.out.len() >= self.limit
        {
            return Err(oldest.expires.saturating_since(now));
        }
        self.taken += 1;
        self.out.push_back(Slot {
            probe: self.taken,
            expires: now.saturating_add(self.timeout),
        });
        Ok(self.taken)
    }

    /// Frees the slot; whether it was still out.
    pub(super) fn release(&mut self, probe: u64) -> bool {
        match self.out.binary_search_by_key(&probe, |slot| slot.probe) {
            Ok(at) => self.out.remove(at).is_some(),
            Err(_) => false,
        }
    }

    /// Frees the slots that expired first, if any has by now; how many, and when that was.
    pub(super) fn expire(&mut self, now: Instant) -> Option<(u32, Instant)> {
        let at = self.out.front()?.expires;
        if at > now {
            return None;
        }
        let expired = self.out.partition_point(|slot| slot.expires <= at);
        self.out.drain(..expired);
        Some((expired as u32, at))
    }
}

//! Counts allocations, of the whole process: a counting allocator stands in the place of the
//! system's unless the feature `count-allocations` is off.

#[cfg(feature = "count-allocations")]
mod counted {
    use std::alloc::System;

    use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

    #[global_allocator]
    static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

    pub(crate) fn count() -> Option<usize> {
        let stats = GLOBAL.stats();
        Some(stats.allocations + stats.reallocations)
    }
}

/// Allocations and reallocations so far, if they are counted.
#[cfg(feature = "count-allocations")]
pub(crate) use self::counted::count;

/// Allocations and reallocations so far, if they are counted.
#[cfg(not(feature = "count-allocations"))]
pub(crate) fn count() -> Option<usize> {
    None
}

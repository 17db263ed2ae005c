//! The laws of time, for each machine that takes `now`:
//!
//! - an early or spurious call is a no-op;
//! - time stepping back is ignored;
//! - a late call equals the on-time call plus the time since;
//! - the same seed and inputs give the same trace.

use proptest::prelude::*;
use steadfast_core::Instant;

mod breaker;
mod call;
mod connection;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Moments that mostly go on and sometimes step back.
fn moments<T: std::fmt::Debug>(
    input: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<(u64, T)>> {
    let step = prop_oneof![9 => 0_i64..12, 1 => -60_i64..0];
    prop::collection::vec((step, input), 0..120).prop_map(|steps| {
        let mut now = 0_u64;
        steps
            .into_iter()
            .map(|(step, input)| {
                now = now.saturating_add_signed(step);
                (now, input)
            })
            .collect()
    })
}

/// The same inputs, with a clock that stands still where the other one steps back. Time goes
/// on with the inputs that tell it.
fn never_back<T: Clone>(inputs: &[(u64, T)], tells_time: fn(&T) -> bool) -> Vec<(u64, T)> {
    let mut latest = 0;
    let hold = |(now, input): &(u64, T)| {
        if tells_time(input) {
            latest = latest.max(*now);
        }
        (latest, input.clone())
    };
    inputs.iter().map(hold).collect()
}

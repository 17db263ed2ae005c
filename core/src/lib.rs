//! What to do next: the pure state machines of the Steadfast gRPC client.
//!
//! Retries, budget, breaker and connection backoff are decisions about time and
//! probability. Here they are made without a clock, a generator of randomness, a lock, an
//! executor or a socket: every machine takes `&mut self`, an input and `now`, and answers
//! what to do. The crate is `no_std` with `alloc`, has no dependency, and runs on a tokio
//! server, in a test that steps time by hand, or in firmware.
//!
//! # The loop
//!
//! A driver of one [`Call`]:
//!
//! 1. [`Call::handle_start`] answers [`Next::Attempt`], or [`Next::Finish`] if the
//!    deadline has passed already or the breaker rejects the call.
//! 2. Make the attempt, giving it what is left until [`Call::deadline`]. Meanwhile, if
//!    [`Call::poll_timeout`] passes, [`Call::handle_timeout`] ends the call.
//! 3. Judge the result ([`Classification::of`]) and report it with [`Call::handle_result`],
//!    or report that a stream opened with [`Call::handle_opened`].
//! 4. [`Next::Wait`]: wait until then, and call [`Call::handle_timeout`], which answers 1 or 5.
//! 5. [`Next::Finish`]: the call is over, and [`End`] says why.
//! 6. If the caller leaves at any point, [`Call::handle_abandoned`].
//!
//! After each step, while the [`Protection`] is still in hand, drain
//! [`Breaker::poll_transition`].
//!
//! ```
//! use core::time::Duration;
//! use steadfast_core::{
//!     Backoff, Breaker, BreakerSettings, Budget, Call, Classification, Code, End, Instant, Next,
//!     Protection, Pushback, RetryBudget, RetryPolicy, SeededRandom,
//! };
//!
//! let mut protection = Protection {
//!     breaker: Breaker::new(BreakerSettings::default()),
//!     budget: Budget::new(RetryBudget::default()),
//! };
//! let policy = RetryPolicy {
//!     max_attempts: 3,
//!     backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
//! };
//! let mut random = SeededRandom::new(42);
//! let mut now = Instant::ZERO;
//!
//! let mut call = Call::new(policy, Some(now.saturating_add(Duration::from_secs(10))));
//! let mut next = call.handle_start(now, &mut protection);
//! let end = loop {
//!     next = match next {
//!         Next::Attempt { number } => {
//!             // Here the attempt would be made. This server answers the second one.
//!             let code = if number == 1 { Code::Unavailable } else { Code::Ok };
//!             let result = Classification::of(code, Pushback::Absent);
//!             call.handle_result(result, true, now, &mut protection, &mut random)
//!         }
//!         Next::Wait(wait) => {
//!             now = wait.until; // Here time would pass.
//!             call.handle_timeout(now, &mut protection).expect("the wait is over")
//!         }
//!         Next::Finish(end) => break end,
//!     };
//! };
//! assert_eq!(end, End::Succeeded);
//! assert_eq!(call.attempts(), 2);
//! ```
//!
//! # Laws
//!
//! An early or spurious call is a no-op. Time stepping back is ignored. A late call equals
//! the on-time call plus the time since. The same seed and inputs give the same trace.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backoff;
mod breaker;
mod budget;
mod call;
pub mod check;
mod classify;
mod code;
mod connection;
mod keepalive;
mod latch;
mod pushback;
mod random;
mod seam;
mod time;
mod timeout;

pub use self::backoff::Backoff;
pub use self::breaker::{
    Breaker, BreakerOutcome, BreakerPolicy, BreakerSettings, BreakerState, Counts, DefaultPolicy,
    NeverOpen, Pass, ProbeVerdict, Rejected, Ticket, Transition, policy_fn,
};
pub use self::budget::{Budget, RetryBudget};
pub use self::call::{Call, End, Next, Protection, RetryPolicy, Unprocessed, Wait, WaitReason};
pub use self::classify::{Classification, RetryOutcome};
pub use self::code::Code;
pub use self::connection::{
    Connection, ConnectionAction, ConnectionSettings, ConnectionState, Usage,
};
pub use self::keepalive::{Keepalive, KeepaliveAction, KeepaliveSettings};
pub use self::latch::Latch;
pub use self::pushback::{PUSHBACK_TRAILER, Pushback};
pub use self::random::{Random, SeededRandom};
pub use self::seam::{Progress, Timer, Transport};
pub use self::time::Instant;
pub use self::timeout::{EncodedTimeout, InvalidTimeout, TIMEOUT_HEADER, decode_timeout};

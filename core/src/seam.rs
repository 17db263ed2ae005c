//! The two things a call needs from outside: somebody to make an attempt, and time.
//!
//! Everything above this seam (deadlines, retries, breaker) is the same whether an attempt
//! goes over HTTP/2, into a script of a test, or through a wrapped service of the user's.

use core::future::Future;

use crate::Instant;

/// Makes one attempt: a request in, the future of a response out.
///
/// Dropping the future gives the attempt up; whatever it holds must be released then.
///
/// ```
/// use core::future::{Ready, ready};
/// use steadfast_core::Transport;
///
/// struct Echo;
///
/// impl Transport<String> for Echo {
///     type Response = String;
///     type Error = core::convert::Infallible;
///     type Future = Ready<Result<String, Self::Error>>;
///
///     fn attempt(&self, request: String) -> Self::Future {
///         ready(Ok(request))
///     }
/// }
/// ```
pub trait Transport<Request> {
    /// What a served attempt answers.
    type Response;
    /// Why an attempt brought no answer.
    type Error;
    /// The attempt under way.
    type Future: Future<Output = Result<Self::Response, Self::Error>>;

    /// Starts one attempt.
    fn attempt(&self, request: Request) -> Self::Future;
}

/// Tells the time and waits for a point of it.
///
/// The contract: `now` never needs to be the wall clock, only the clock that
/// [`sleep_until`](Self::sleep_until) waits by. A sleep may end late and must not end early;
/// one that ends early is taken up again by the driver, which trusts `now` alone. Dropping a
/// sleep cancels it.
///
/// ```
/// use core::future::{Pending, pending};
/// use steadfast_core::{Instant, Timer};
///
/// /// Time that never passes.
/// struct Frozen;
///
/// impl Timer for Frozen {
///     type Sleep = Pending<()>;
///
///     fn now(&self) -> Instant {
///         Instant::ZERO
///     }
///
///     fn sleep_until(&self, _: Instant) -> Self::Sleep {
///         pending()
///     }
/// }
/// ```
pub trait Timer {
    /// A wait under way.
    type Sleep: Future<Output = ()>;

    /// The present time.
    fn now(&self) -> Instant;

    /// Waits until `deadline`, or not at all if that has passed.
    fn sleep_until(&self, deadline: Instant) -> Self::Sleep;
}

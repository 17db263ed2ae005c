//! The two things a call needs from outside: somebody to make an attempt, and time.
//!
//! Everything above this seam (deadlines, retries, breaker) is the same whether an attempt
//! goes over HTTP/2, into a script of a test, or through a wrapped service of the user's.

use core::fmt;
use core::future::Future;
use core::pin::Pin;

use crate::Instant;

/// How far a request got: the fact that decides whether the server may have acted on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// It never left this process.
    NotSent,
    /// It was sent, and the server said that it did not process it.
    NotProcessed,
    /// The server may have acted on it, or has.
    MaybeProcessed,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSent => "not sent",
            Self::NotProcessed => "sent, not processed",
            Self::MaybeProcessed => "may have been processed",
        })
    }
}

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

    /// How far the request of an attempt under way has got, for a call whose deadline passes
    /// meanwhile. A transport that can't tell leaves it at [`Progress::MaybeProcessed`].
    fn progress(&self, attempt: Pin<&Self::Future>) -> Progress {
        let _ = attempt;
        Progress::MaybeProcessed
    }

    /// What keeps an attempt under way from being sent, such as the last failure to connect,
    /// for a call whose deadline passes meanwhile. A transport that can't tell leaves it at
    /// `None`.
    fn obstacle(&self, attempt: Pin<&Self::Future>) -> Option<Self::Error> {
        let _ = attempt;
        None
    }
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

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use core::future::{Ready, ready};

    use super::*;

    struct Plain;

    impl Transport<()> for Plain {
        type Response = ();
        type Error = ();
        type Future = Ready<Result<(), ()>>;

        fn attempt(&self, (): ()) -> Self::Future {
            ready(Ok(()))
        }
    }

    #[test]
    fn a_transport_that_can_not_tell_may_have_sent_it() {
        let attempt = Plain.attempt(());
        assert_eq!(Plain.progress(Pin::new(&attempt)), Progress::MaybeProcessed);
        assert_eq!(Plain.obstacle(Pin::new(&attempt)), None);
    }

    #[test]
    fn progress_reads_as_a_fact_about_the_request() {
        assert_eq!(Progress::NotSent.to_string(), "not sent");
        assert_eq!(Progress::NotProcessed.to_string(), "sent, not processed");
        assert_eq!(
            Progress::MaybeProcessed.to_string(),
            "may have been processed"
        );
    }
}

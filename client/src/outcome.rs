//! The one judgement on an attempt's result, and the place where a user's stands in for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use steadfast_core::{
    BreakerOutcome, Classification, PUSHBACK_TRAILER, Progress, Pushback, RetryOutcome,
};
use tonic::{Code, Status};

use crate::attempt::{Failure, core_code};

/// The result of one attempt, as a classifier sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outcome<'a> {
    /// The method's path, `/package.Service/Method`.
    pub path: &'a str,
    /// The status code.
    pub code: Code,
    /// The status with its message and details; `None` for OK.
    pub status: Option<&'a Status>,
    /// The trailers, or the headers of a trailers-only response; empty if there were none.
    pub trailers: &'a HeaderMap,
    /// How far the request got.
    pub progress: Progress,
    origin: Origin,
}

/// Whose result it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The server's, or the way's to it.
    Server,
    /// Nobody's: nothing was tried, and nothing can be before then.
    Untried { after: Duration },
    /// This side's failure.
    Own,
}

impl Origin {
    /// What it leaves of a judgement.
    fn limit(self, judged: Classification) -> Classification {
        match (self, judged.retry) {
            (Self::Server, _) => judged,
            (Self::Own, _) => Classification::IGNORE,
            (Self::Untried { after }, RetryOutcome::Retry { after: asked }) => Classification {
                retry: RetryOutcome::Untried {
                    after: after.max(asked),
                },
                breaker: BreakerOutcome::Ignored,
            },
            (Self::Untried { .. }, _) => judged.breaker(BreakerOutcome::Ignored),
        }
    }
}

impl<'a> Outcome<'a> {
    pub(crate) fn failed(path: &'a str, failure: &'a Failure) -> Self {
        Self {
            origin: failure.origin,
            ..Self::of(path, &failure.status, failure.progress)
        }
    }

    pub(crate) fn succeeded(path: &'a str, trailers: &'a HeaderMap) -> Self {
        Self {
            path,
            code: Code::Ok,
            status: None,
            trailers,
            progress: Progress::MaybeProcessed,
            origin: Origin::Server,
        }
    }

    /// A failed attempt's, to try a classifier with.
    #[must_use]
    pub fn of(path: &'a str, status: &'a Status, progress: Progress) -> Self {
        Self {
            path,
            code: status.code(),
            status: Some(status),
            trailers: status.metadata().as_ref(),
            progress,
            origin: Origin::Server,
        }
    }

    /// What the server said about retrying.
    #[must_use]
    pub fn pushback(&self) -> Pushback {
        Pushback::parse(
            self.trailers
                .get_all(PUSHBACK_TRAILER)
                .iter()
                .map(|value| value.as_bytes()),
        )
    }

    /// How long nothing can be tried yet, if nothing was: the connection backs off.
    #[must_use]
    pub fn untried(&self) -> Option<Duration> {
        match self.origin {
            Origin::Untried { after } => Some(after),
            Origin::Server | Origin::Own => None,
        }
    }

    /// The default judgement: for a classifier that handles one thing and hands on the rest.
    ///
    /// [`Classification::of`] for what a server answered. Of an attempt that was not made, as
    /// [`AttemptError::untried`](crate::AttemptError::untried) says, only whether to try again
    /// is judged; one that failed on this side is
    /// [not retried](crate::AttemptError::own_fault). No classifier can change that.
    #[must_use]
    pub fn default_classification(&self) -> Classification {
        let judged = Classification::of(core_code(self.code), self.pushback());
        self.origin.limit(judged)
    }
}

/// Judges every attempt's result, but those that are about the call: a caller that left, a
/// deadline that passed, a stream that opened.
///
/// A method that must never run twice is stopped in three lines, where the default would
/// retry UNAVAILABLE also when the server may have acted on the request:
///
/// ```
/// use steadfast_client::{Classification, Classifier, Progress};
///
/// let classify = Classifier::new(|outcome| match (outcome.path, outcome.progress) {
///     ("/bank.v1.Transfers/Send", Progress::MaybeProcessed) => Classification::FAIL,
///     _ => outcome.default_classification(),
/// });
/// ```
///
/// The server's pushback prevails over any answer but a success
/// ([`Classification::with_pushback`]). A panic in a classifier passes to the caller of that
/// call and changes nothing for others.
#[derive(Clone, Default)]
pub struct Classifier(Option<Arc<Classify>>);

type Classify = dyn Fn(&Outcome<'_>) -> Classification + Send + Sync;

impl Classifier {
    /// A classifier of the user's own.
    pub fn new<F>(classify: F) -> Self
    where
        F: Fn(&Outcome<'_>) -> Classification + Send + Sync + 'static,
    {
        Self(Some(Arc::new(classify)))
    }

    /// What it answers, within what the server's pushback and the attempt itself allow.
    ///
    /// ```
    /// use steadfast_client::{Classification, Classifier, Outcome, Progress};
    ///
    /// let busy = tonic::Status::unavailable("busy");
    /// let outcome = Outcome::of("/carts.v1.CartService/AddItem", &busy, Progress::NotSent);
    /// assert_eq!(Classifier::default().judge(&outcome), Classification::RETRY);
    /// ```
    ///
    /// # Panics
    ///
    /// If the user's function does.
    #[must_use]
    pub fn judge(&self, outcome: &Outcome<'_>) -> Classification {
        match &self.0 {
            None if outcome.code == Code::Ok => Classification::SUCCESS,
            None => outcome.default_classification(),
            Some(classify) => {
                let judged = classify(outcome).with_pushback(outcome.pushback());
                outcome.origin.limit(judged)
            }
        }
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            None => "Classifier(default)",
            Some(_) => "Classifier(custom)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AttemptError;

    const PATH: &str = "/carts.v1.CartService/AddItem";

    fn unavailable() -> AttemptError {
        AttemptError::new(Status::unavailable("down"), Progress::NotSent)
    }

    #[test]
    fn a_classifier_sees_the_judgement_that_counts_for_an_attempt_that_was_not_made() {
        let after = Duration::from_millis(700);
        let failure = unavailable().untried(after).into_failure();
        let outcome = Outcome::failed(PATH, &failure);
        assert_eq!(outcome.untried(), Some(after));
        let untried = Classification {
            retry: RetryOutcome::Untried { after },
            breaker: BreakerOutcome::Ignored,
        };
        assert_eq!(outcome.default_classification(), untried);
        assert_eq!(Classifier::default().judge(&outcome), untried);

        let longer = Duration::from_secs(1);
        let asks = Classifier::new(move |_| Classification::retry_after(longer));
        let asked = RetryOutcome::Untried { after: longer };
        assert_eq!(asks.judge(&outcome).retry, asked);
        let stops = Classifier::new(|_| Classification::FAIL);
        assert_eq!(stops.judge(&outcome), Classification::IGNORE);
    }

    #[test]
    fn no_classifier_retries_what_failed_on_this_side() {
        let failure = unavailable().own_fault().into_failure();
        let outcome = Outcome::failed(PATH, &failure);
        assert_eq!(outcome.untried(), None);
        assert_eq!(outcome.default_classification(), Classification::IGNORE);
        let eager = Classifier::new(|_| Classification::RETRY);
        assert_eq!(eager.judge(&outcome), Classification::IGNORE);
    }
}

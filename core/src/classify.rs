//! What an attempt's result means: for the call's retries, and for the breaker.
//!
//! The two are judged apart. NOT_FOUND ends the call, and shows that the server is well;
//! INTERNAL ends it too, and shows that it is not.

use core::time::Duration;

use crate::breaker::BreakerOutcome;
use crate::{Code, Pushback};

/// What a result means for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryOutcome {
    /// The call succeeded; the budget earns its ratio.
    Success,
    /// Worth another attempt, at least `after` from now; the budget pays a token.
    Retry {
        /// The least wait that the server, or the classifier, asked for. Zero for none.
        after: Duration,
    },
    /// Nothing was tried, such as while a connection backs off: worth an attempt, once `after`
    /// and then the schedule's wait have passed. The budget pays nothing, since the server has
    /// had nothing to bear.
    Untried {
        /// The least wait before an attempt can be made.
        after: Duration,
    },
    /// The server refused to be called again; the budget pays a token all the same.
    Refused,
    /// Not worth another attempt.
    Stop,
}

/// The judgement on one attempt's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Classification {
    /// For the call and its budget.
    pub retry: RetryOutcome,
    /// For the breaker.
    pub breaker: BreakerOutcome,
}

impl Classification {
    /// The call succeeded and the server is well.
    pub const SUCCESS: Self = Self {
        retry: RetryOutcome::Success,
        breaker: BreakerOutcome::Success,
    };

    /// Try again on the schedule; the server is in trouble.
    pub const RETRY: Self = Self {
        retry: RetryOutcome::Retry {
            after: Duration::ZERO,
        },
        breaker: BreakerOutcome::Failure,
    };

    /// End the call; the server answered and is well.
    pub const STOP: Self = Self {
        retry: RetryOutcome::Stop,
        breaker: BreakerOutcome::Success,
    };

    /// End the call; the server is in trouble.
    pub const FAIL: Self = Self {
        retry: RetryOutcome::Stop,
        breaker: BreakerOutcome::Failure,
    };

    /// End the call; it says nothing about the server.
    pub const IGNORE: Self = Self {
        retry: RetryOutcome::Stop,
        breaker: BreakerOutcome::Ignored,
    };

    /// Try again, at least `after` from now.
    #[must_use]
    pub const fn retry_after(after: Duration) -> Self {
        Self {
            retry: RetryOutcome::Retry { after },
            breaker: BreakerOutcome::Failure,
        }
    }

    /// The same judgement, with another one for the breaker.
    #[must_use]
    pub const fn breaker(self, breaker: BreakerOutcome) -> Self {
        Self {
            retry: self.retry,
            breaker,
        }
    }

    /// The default judgement.
    ///
    /// | code | retry | breaker |
    /// |---|---|---|
    /// | OK | Success | Success |
    /// | UNAVAILABLE | Retry, after the pushback if any | Failure |
    /// | RESOURCE_EXHAUSTED with a pushback | Retry, after it | Failure |
    /// | RESOURCE_EXHAUSTED without | Stop | Failure |
    /// | DEADLINE_EXCEEDED, INTERNAL, UNKNOWN, DATA_LOSS | Stop | Failure |
    /// | CANCELLED | Stop | Ignored |
    /// | any other | Stop | Success |
    ///
    /// UNAVAILABLE is retried for every method, also where the server may have acted on the
    /// request before it failed. A method that must never run twice needs a classifier that
    /// stops it.
    #[must_use]
    pub fn of(code: Code, pushback: Pushback) -> Self {
        match (code, pushback) {
            (Code::Ok, _) => Self::SUCCESS,
            (Code::Unavailable, _) | (Code::ResourceExhausted, Pushback::After(_)) => {
                Self::RETRY.with_pushback(pushback)
            }
            (
                Code::ResourceExhausted
                | Code::DeadlineExceeded
                | Code::Internal
                | Code::Unknown
                | Code::DataLoss,
                _,
            ) => Self::FAIL.with_pushback(pushback),
            (Code::Cancelled, _) => Self::IGNORE.with_pushback(pushback),
            _ => Self::STOP.with_pushback(pushback),
        }
    }

    /// Lets the server's word on retrying prevail: a refusal turns every judgement but a
    /// success into [`RetryOutcome::Refused`], and a retry waits at least as long as asked.
    ///
    /// The client applies this to whatever a user's classifier answers (gRFC A6).
    #[must_use]
    pub fn with_pushback(mut self, pushback: Pushback) -> Self {
        self.retry = match (self.retry, pushback) {
            (RetryOutcome::Success, _) => RetryOutcome::Success,
            (_, Pushback::Refused) => RetryOutcome::Refused,
            (RetryOutcome::Retry { after }, Pushback::After(asked)) => RetryOutcome::Retry {
                after: after.max(asked),
            },
            (retry, _) => retry,
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BreakerOutcome::{Failure, Ignored, Success};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_table_row_by_row() {
        const ZERO: RetryOutcome = RetryOutcome::Retry {
            after: Duration::ZERO,
        };
        for code in Code::ALL {
            let (retry, breaker) = match code {
                Code::Ok => (RetryOutcome::Success, Success),
                Code::Unavailable => (ZERO, Failure),
                Code::Cancelled => (RetryOutcome::Stop, Ignored),
                Code::ResourceExhausted
                | Code::DeadlineExceeded
                | Code::Internal
                | Code::Unknown
                | Code::DataLoss => (RetryOutcome::Stop, Failure),
                _ => (RetryOutcome::Stop, Success),
            };
            let judged = Classification::of(code, Pushback::Absent);
            assert_eq!((judged.retry, judged.breaker), (retry, breaker), "{code}");
        }
    }

    #[test]
    fn a_pushback_delays_only_what_is_retried() {
        for code in Code::ALL {
            let judged = Classification::of(code, Pushback::After(SECOND)).retry;
            let expected = match code {
                Code::Unavailable | Code::ResourceExhausted => {
                    RetryOutcome::Retry { after: SECOND }
                }
                Code::Ok => RetryOutcome::Success,
                _ => RetryOutcome::Stop,
            };
            assert_eq!(judged, expected, "{code}");
        }
    }

    #[test]
    fn a_refusal_prevails_over_all_but_success() {
        for code in Code::ALL {
            let judged = Classification::of(code, Pushback::Refused);
            let plain = Classification::of(code, Pushback::Absent);
            assert_eq!(judged.breaker, plain.breaker, "{code}");
            let expected = if code == Code::Ok {
                RetryOutcome::Success
            } else {
                RetryOutcome::Refused
            };
            assert_eq!(judged.retry, expected, "{code}");
        }
    }

    #[test]
    fn a_classifiers_own_delay_and_the_servers_are_both_kept() {
        let own = Classification::retry_after(2 * SECOND);
        let after = |pushback| own.with_pushback(pushback).retry;
        assert_eq!(
            after(Pushback::Absent),
            RetryOutcome::Retry { after: 2 * SECOND }
        );
        assert_eq!(
            after(Pushback::After(SECOND)),
            RetryOutcome::Retry { after: 2 * SECOND }
        );
        assert_eq!(
            after(Pushback::After(3 * SECOND)),
            RetryOutcome::Retry { after: 3 * SECOND }
        );
        assert_eq!(own.breaker(Ignored).breaker, Ignored);
    }
}

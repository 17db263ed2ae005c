//! What happened to a failed call, attempt by attempt, and why it ended there.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::{End, Progress, Rejected, WaitReason};
use tonic::{Code, Status};

use crate::attempt::core_code;

/// One attempt of a failed call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AttemptReport {
    /// The status it ended with.
    pub code: Code,
    /// The status's message.
    pub message: String,
    /// What it waited for before it began, if it waited.
    pub wait_reason: Option<WaitReason>,
    /// How long it waited.
    pub waited: Duration,
    /// How long it took.
    pub took: Duration,
    /// How far its request got.
    pub progress: Progress,
    /// The HTTP/2 error code of a reset or GOAWAY, if one ended it.
    pub http2_code: Option<u32>,
}

/// The history of a failed call: in the source chain of its [`Status`].
///
/// ```
/// use steadfast_client::CallReport;
///
/// # fn explain(status: &tonic::Status) {
/// if let Some(report) = CallReport::of(status) {
///     println!("{} attempts: {report}", report.attempts().len());
/// }
/// # }
/// # explain(&tonic::Status::unavailable("x"));
/// ```
pub struct CallReport {
    attempts: Vec<AttemptReport>,
    end: End,
    /// The status of the last attempt as it came, with a source of its own.
    last: Option<Status>,
}

impl CallReport {
    /// Finds the report in a status's source chain. `None` for a status that did not come
    /// from a call of a [`Client`](crate::Client), or that tonic made of a response which
    /// was fine by HTTP/2, such as a message that can't be decoded.
    #[must_use]
    pub fn of(status: &Status) -> Option<&Self> {
        find(status)
    }

    /// The attempts, in order. Empty if the first one was rejected.
    #[must_use]
    pub fn attempts(&self) -> &[AttemptReport] {
        &self.attempts
    }

    /// Why the call ended.
    #[must_use]
    pub fn end(&self) -> &End {
        &self.end
    }

    /// Puts a report in the source chain of the status that a call fails with.
    pub(crate) fn attach(
        mut status: Status,
        attempts: Vec<AttemptReport>,
        end: End,
        last: Option<Status>,
    ) -> Status {
        status.set_source(Arc::new(Self {
            attempts,
            end,
            last,
        }));
        status
    }
}

/// Finds in a status's source chain the breaker's rejection that ended its call.
#[must_use]
pub fn rejected(status: &Status) -> Option<&Rejected> {
    find(status)
}

fn find<E: Error + 'static>(status: &Status) -> Option<&E> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

impl fmt::Display for CallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, attempt) in self.attempts.iter().enumerate() {
            if attempt.wait_reason.is_some() {
                write!(f, "waited {:?}; ", attempt.waited)?;
            }
            write!(
                f,
                "attempt {}: {} in {:?} ({}): {}; ",
                n + 1,
                core_code(attempt.code),
                attempt.took,
                attempt.progress,
                attempt.message,
            )?;
        }
        write!(f, "ended: {}", self.end)
    }
}

/// As its `Display`: it stands in the `Debug` text of every status that is logged.
impl fmt::Debug for CallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallReport({self})")
    }
}

impl Error for CallReport {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match (&self.end, &self.last) {
            (End::Rejected(rejected), _) => Some(rejected),
            (_, Some(last)) => Some(last),
            (_, None) => None,
        }
    }
}

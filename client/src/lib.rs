//! One gRPC call, driven.
//!
//! tonic's channel sends a request once. This crate stands between a tonic-generated client
//! and whatever makes one attempt (a [`Transport`]): it gives the call a deadline, asks the
//! circuit breaker, retries what may be retried within a budget, and says of a call that
//! failed what was tried and why it ended there.
//!
//! It knows no socket and no runtime: attempts go through a [`Transport`], time through a
//! [`Timer`]. Services on tokio take `steadfast-tokio`, which brings both.
//!
//! The way of a call: [`Client`] is the [`tower_service::Service`] that generated code calls;
//! [`CallFuture`] drives it with [`steadfast_core::Call`]; the response comes back through
//! [`ResponseBody`].
//!
//! ```
//! use std::future::{Ready, ready};
//! use std::time::Duration;
//! use steadfast_client::{
//!     AttemptError, Client, Instant, Progress, RequestBody, Settings, Timer, Transport,
//! };
//!
//! /// A server that can't be reached.
//! struct Nowhere;
//!
//! impl Transport<http::Request<RequestBody>> for Nowhere {
//!     type Response = http::Response<http_body_util::Empty<bytes::Bytes>>;
//! #   /*
//!     ...
//! #   */
//! #   type Error = AttemptError;
//! #   type Future = Ready<Result<Self::Response, AttemptError>>;
//! #   fn attempt(&self, _: http::Request<RequestBody>) -> Self::Future {
//! #       ready(Err(AttemptError::new(tonic::Status::unavailable("no route"), Progress::NotSent)))
//! #   }
//! }
//! ```

mod address;
mod attempt;
mod call;
mod client;
mod messages;
mod options;
mod outcome;
mod report;
mod request;
mod response;
mod settings;
mod shared;
mod sleeper;
mod status;

pub use self::address::{Address, InvalidAddress};
pub use self::attempt::{AttemptError, GrpcTransport};
pub use self::call::{CallFuture, CallResponse};
pub use self::client::Client;
pub use self::options::{CallKind, Deadline, ReplayLimit};
pub use self::outcome::{Classifier, Outcome};
pub use self::report::{AttemptReport, CallReport, rejected};
pub use self::request::{Chunks, RequestBody};
pub use self::response::ResponseBody;
pub use self::settings::{InvalidField, Settings, SettingsError};
pub use self::sleeper::Sleeper;

pub use steadfast_core::{
    BreakerOutcome, BreakerPolicy, BreakerSettings, BreakerState, Classification, Counts,
    DefaultPolicy, End, Instant, NeverOpen, ProbeVerdict, Progress, Pushback, Random, Rejected,
    RetryBudget, RetryOutcome, SeededRandom, Timer, Transition, Transport, Unprocessed, WaitReason,
    check, policy_fn,
};

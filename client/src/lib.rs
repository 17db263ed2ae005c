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
//! A transport of your own is one method; here one that knows of a server only that it is
//! away. The client tries it, waits by the timer's clock, tries again, and says so:
//!
//! ```
//! # use std::task::{Context, Poll, Waker};
//! use std::future::{Ready, ready};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use steadfast_client::{
//!     AttemptError, CallReport, Client, Instant, Progress, RequestBody, Settings, Timer, Transport,
//! };
//! use tower_service::Service;
//!
//! struct Away;
//!
//! impl Transport<http::Request<RequestBody>> for Away {
//!     type Response = http::Response<Nothing>;
//!     type Error = AttemptError;
//!     type Future = Ready<Result<Self::Response, AttemptError>>;
//!
//!     fn attempt(&self, _: http::Request<RequestBody>) -> Self::Future {
//!         let status = tonic::Status::unavailable("no route");
//!         ready(Err(AttemptError::new(status, Progress::NotSent)))
//!     }
//! }
//!
//! /// Time that passes by being looked at: enough for any of these waits.
//! struct Hasty(AtomicU64);
//!
//! impl Timer for Hasty {
//!     type Sleep = Ready<()>;
//!
//!     fn now(&self) -> Instant {
//!         Instant::from_nanos(self.0.fetch_add(200_000_000, Ordering::Relaxed))
//!     }
//!
//!     fn sleep_until(&self, _: Instant) -> Ready<()> {
//!         ready(())
//!     }
//! }
//!
//! # struct Nothing;
//! # impl http_body::Body for Nothing {
//! #     type Data = bytes::Bytes;
//! #     type Error = AttemptError;
//! #     fn poll_frame(
//! #         self: std::pin::Pin<&mut Self>,
//! #         _: &mut Context<'_>,
//! #     ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, AttemptError>>> {
//! #         Poll::Ready(None)
//! #     }
//! # }
//! let settings = Settings {
//!     addr: "carts.internal:50051".to_owned(),
//!     ..Settings::default()
//! };
//! let mut client = Client::new(Away, Hasty(AtomicU64::new(0)), &settings, 1)?;
//! // A tonic-generated client makes this request.
//! let request = http::Request::new(tonic::body::Body::empty());
//! let mut call = std::pin::pin!(client.call(request));
//! # let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
//! #     panic!("nothing is waited for")
//! # };
//! # /*
//! let result = call.await;
//! # */
//! let status = result.err().expect("the server is away");
//! assert_eq!(status.message(), "no route");
//! assert_eq!(CallReport::of(&status).map(|report| report.attempts().len()), Some(3));
//! # Ok::<(), steadfast_client::SettingsError>(())
//! ```

mod address;
mod attempt;
mod call;
mod client;
mod messages;
mod methods;
mod options;
mod outcome;
mod report;
mod request;
mod response;
mod service;
mod settings;
mod shared;
mod sleeper;
mod status;

pub use self::address::{Address, InvalidAddress};
pub use self::attempt::{AttemptError, GrpcTransport};
pub use self::call::{CallFuture, CallResponse};
pub use self::client::Client;
pub use self::methods::{InvalidDescriptors, MethodTable};
pub use self::options::{CallKind, Deadline, ReplayLimit, WaitForReady};
pub use self::outcome::{Classifier, Outcome};
pub use self::report::{AttemptReport, CallReport, rejected};
pub use self::request::{Chunks, RequestBody};
pub use self::response::ResponseBody;
pub use self::service::{ServiceAttempt, ServiceBody, ServiceTransport};
pub use self::settings::{InvalidField, Settings, SettingsError};
pub use self::sleeper::Sleeper;

pub use steadfast_core::{
    BreakerOutcome, BreakerPolicy, BreakerSettings, BreakerState, Classification, Counts,
    DefaultPolicy, End, Instant, NeverOpen, ProbeVerdict, Progress, Pushback, Random, Rejected,
    RetryBudget, RetryOutcome, SeededRandom, Timer, Transition, Transport, Unprocessed, WaitReason,
    check, policy_fn,
};

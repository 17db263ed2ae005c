//! Attempts through a tower service that the user already has.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use steadfast_core::{Progress, Transport};
use tonic::{ConnectError, Status};
use tower_service::Service;

use crate::attempt::AttemptError;
use crate::request::RequestBody;

type BoxError = Box<dyn Error + Send + Sync>;
type Request = http::Request<tonic::body::Body>;

/// A [`Transport`] over any tower service that takes what tonic's generated clients send: a
/// tonic `Channel`, a balanced one, an in-process router, a stack of layers.
///
/// Each attempt goes through a clone of the service, once that is ready. The service keeps its
/// own connections, so what happens to an attempt on the wire is as it makes it: with a tonic
/// `Channel` there is no connection backoff and no transparent retry, and an attempt that failed
/// may always have been processed, unless the service was never ready or a
/// [`tonic::ConnectError`] says that there was no connection.
///
/// ```
/// use steadfast_client::ServiceTransport;
///
/// # fn around<S>(channel: S) -> ServiceTransport<S> {
/// let transport = ServiceTransport::new(channel);
/// # transport
/// # }
/// ```
pub struct ServiceTransport<S> {
    /// Locked to be cloned: a service need not be `Sync`, and a client has to be.
    service: Mutex<S>,
}

impl<S> ServiceTransport<S> {
    /// A transport whose attempts go through clones of `service`.
    pub fn new(service: S) -> Self {
        Self {
            service: Mutex::new(service),
        }
    }
}

impl<S> fmt::Debug for ServiceTransport<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceTransport").finish_non_exhaustive()
    }
}

impl<S, B> Transport<http::Request<RequestBody>> for ServiceTransport<S>
where
    S: Service<Request, Response = http::Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = http::Response<ServiceBody<B>>;
    type Error = AttemptError;
    type Future = ServiceAttempt<S, S::Future>;

    fn attempt(&self, request: http::Request<RequestBody>) -> Self::Future {
        let service = self.service.lock();
        let service = service.unwrap_or_else(PoisonError::into_inner).clone();
        ServiceAttempt {
            request: Some((service, request.map(tonic::body::Body::new))),
            response: None,
        }
    }

    fn progress(&self, attempt: Pin<&Self::Future>) -> Progress {
        match attempt.request {
            Some(_) => Progress::NotSent,
            None => Progress::MaybeProcessed,
        }
    }
}

pin_project! {
    /// An attempt through a [`ServiceTransport`].
    ///
    /// Cancel safe if the service's future is: it is dropped.
    #[must_use = "futures do nothing unless polled"]
    pub struct ServiceAttempt<S, F> {
        // Until the service is ready.
        request: Option<(S, Request)>,
        #[pin]
        response: Option<F>,
    }
}

impl<S, B> Future for ServiceAttempt<S, S::Future>
where
    S: Service<Request, Response = http::Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Output = Result<http::Response<ServiceBody<B>>, AttemptError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some((service, _)) = this.request {
            ready!(service.poll_ready(cx)).map_err(|error| {
                AttemptError::new(Status::from_error(error.into()), Progress::NotSent)
            })?;
        }
        if let Some((mut service, request)) = this.request.take() {
            this.response.set(Some(service.call(request)));
        }
        let response = this.response.as_mut().as_pin_mut();
        let result = ready!(response.expect("polled after it ended").poll(cx));
        this.response.set(None);
        Poll::Ready(match result {
            Ok(response) => Ok(response.map(|body| ServiceBody(Box::pin(body)))),
            Err(error) => Err(failed(error.into())),
        })
    }
}

impl<S, F> fmt::Debug for ServiceAttempt<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.request {
            Some(_) => "ServiceAttempt(waiting)",
            None => "ServiceAttempt(sent)",
        })
    }
}

/// The body of a response that came through a [`ServiceTransport`].
pub struct ServiceBody<B>(Pin<Box<B>>);

impl<B> Body for ServiceBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = AttemptError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AttemptError>>> {
        let frame = ready!(self.0.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(|error| failed(error.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl<B> fmt::Debug for ServiceBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceBody")
    }
}

/// What a service's error is to a call: the status in it, or the one that tonic takes it for.
fn failed(error: BoxError) -> AttemptError {
    let first: &(dyn Error + 'static) = &*error;
    let unconnected = std::iter::successors(Some(first), |error| (*error).source())
        .any(<dyn Error>::is::<ConnectError>);
    let progress = match unconnected {
        true => Progress::NotSent,
        false => Progress::MaybeProcessed,
    };
    AttemptError::new(Status::from_error(error), progress)
}

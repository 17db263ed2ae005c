//! The client: what tonic-generated code is put on.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use steadfast_core::{BreakerState, Counts, Instant, Timer, Transition};
use tonic::Status;
use tower_service::Service;

use crate::address::Address;
use crate::attempt::GrpcTransport;
use crate::call::{CallFuture, CallResponse};
use crate::settings::{Settings, SettingsError};
use crate::shared::{Listener, Shared};

/// A gRPC client for one server: one address, one breaker, one budget, around one transport.
///
/// A cheap clone; all clones share everything. tonic's generated clients take it as they
/// take a tonic `Channel`: `CartServiceClient::new(client)`.
pub struct Client<T, C> {
    inner: Arc<Inner<T, C>>,
}

pub(crate) struct Inner<T, C> {
    pub(crate) transport: T,
    pub(crate) shared: Arc<Shared<C>>,
    address: Address,
}

impl<T: GrpcTransport, C: Timer> Client<T, C> {
    /// A client of `transport`, whose waits and deadlines go by `timer`.
    ///
    /// `seed` starts the jitter of its retries: give each client of a fleet its own, and a
    /// test always the same.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] names every field of `settings` that is wrong.
    pub fn new(
        transport: T,
        timer: C,
        settings: &Settings,
        seed: u64,
    ) -> Result<Self, SettingsError> {
        Self::build(transport, timer, settings, seed, None)
    }

    /// The same, with somebody who hears of every change of the breaker's state.
    ///
    /// Transitions are told one at a time, in order, outside any lock, by the call that made
    /// one or by another that is just telling. A panic in `listener` passes to that call.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_listener(
        transport: T,
        timer: C,
        settings: &Settings,
        seed: u64,
        listener: impl Fn(&Transition) + Send + Sync + 'static,
    ) -> Result<Self, SettingsError> {
        Self::build(transport, timer, settings, seed, Some(Arc::new(listener)))
    }

    fn build(
        transport: T,
        timer: C,
        settings: &Settings,
        seed: u64,
        listener: Option<Listener>,
    ) -> Result<Self, SettingsError> {
        let address = settings.parse()?;
        let shared = Arc::new(Shared::new(timer, settings, listener, seed));
        Ok(Self {
            inner: Arc::new(Inner {
                transport,
                shared,
                address,
            }),
        })
    }

    /// The present time by the client's timer, for a [`Deadline`](crate::Deadline).
    #[must_use]
    pub fn now(&self) -> Instant {
        self.inner.shared.timer.now()
    }
}

impl<T, C> Client<T, C> {
    /// The transport that its attempts go through.
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.inner.transport
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// Where the breaker stands, and what that state has seen.
    #[must_use]
    pub fn breaker(&self) -> (BreakerState, Counts) {
        self.inner
            .shared
            .read(|protection| (protection.breaker.state(), protection.breaker.counts()))
    }

    /// What is left of the retry budget, in thousandths of a token.
    #[must_use]
    pub fn budget_millitokens(&self) -> u32 {
        self.inner
            .shared
            .read(|protection| protection.budget.millitokens())
    }
}

impl<T, C> Clone for Client<T, C> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<T, C> fmt::Debug for Client<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.inner.address)
            .field("shared", &self.inner.shared)
            .finish_non_exhaustive()
    }
}

impl<T: GrpcTransport, C: Timer> Service<http::Request<tonic::body::Body>> for Client<T, C> {
    type Response = CallResponse<T, C>;
    type Error = Status;
    type Future = CallFuture<T, C>;

    /// Always ready: a call is rejected, or waits for its connection, in its own future,
    /// where tonic keeps the status.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        CallFuture::new(Arc::clone(&self.inner), request)
    }
}

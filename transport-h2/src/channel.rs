//! The handle on the one connection: what a client sends its attempts through.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use steadfast_client::{Address, AttemptError, Progress, RequestBody, Timer, Transport};
use steadfast_core::ConnectionSettings;

use crate::attempt::{Attempt, ResponseStream};
use crate::driver::Driver;
use crate::host::Host;
use crate::http2::Http2Settings;
use crate::shared::Shared;

/// A [`Transport`] over HTTP/2: attempts of many calls at once on one connection.
///
/// A cheap clone. When the last one is gone the connection takes no more calls, lets those
/// under way finish, and closes.
pub struct Channel<C: Timer> {
    handle: Arc<Handle<C>>,
}

struct Handle<C: Timer> {
    shared: Arc<Shared<C>>,
}

/// A channel to `address` and the driver of its connection, which must be run for anything
/// to happen.
///
/// Nothing is dialed before the first attempt. `seed` starts the jitter of the connection
/// backoff.
pub fn channel<H, C>(
    address: Address,
    host: H,
    timer: C,
    settings: ConnectionSettings,
    http2: Http2Settings,
    seed: u64,
) -> (Channel<C>, Driver<H, C>)
where
    H: Host,
    C: Timer + Clone,
{
    let shared = Shared::new(address, timer);
    let driver = Driver::new(host, Arc::clone(&shared), settings, http2, seed);
    let channel = Channel {
        handle: Arc::new(Handle { shared }),
    };
    (channel, driver)
}

impl<C: Timer> Transport<http::Request<RequestBody>> for Channel<C> {
    type Response = http::Response<ResponseStream<C>>;
    type Error = AttemptError;
    type Future = Attempt<C>;

    fn attempt(&self, request: http::Request<RequestBody>) -> Attempt<C> {
        Attempt::new(&self.handle.shared, request)
    }

    fn progress(&self, attempt: Pin<&Attempt<C>>) -> Progress {
        attempt.progress()
    }

    fn obstacle(&self, attempt: Pin<&Attempt<C>>) -> Option<AttemptError> {
        attempt.obstacle()
    }
}

impl<C: Timer> Channel<C> {
    /// Dials now, unless a connection is up or on its way: a backoff is cut short, and the next
    /// one is the first again.
    ///
    /// For somebody who knows more than the backoff does: a person at a button, a network that
    /// has just come back. Calls dial by themselves. A caller in a loop undoes the backoff,
    /// which protects the server. Nothing happens on a closed client.
    pub fn connect_now(&self) {
        self.handle.shared.urge();
    }
}

impl<C: Timer> Clone for Channel<C> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
        }
    }
}

impl<C: Timer> Drop for Handle<C> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl<C: Timer> fmt::Debug for Channel<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("address", &self.handle.shared.address)
            .finish_non_exhaustive()
    }
}

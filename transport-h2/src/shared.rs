//! What the channel's attempts and its driver tell each other about the connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use steadfast_client::{Address, AttemptError, Instant, Timer};

use crate::error::{self, ConnectError};
use crate::live::{Live, Ready, StreamGuard};
use crate::pump::Pump;

pub(crate) struct Shared<C> {
    pub(crate) address: Address,
    pub(crate) timer: C,
    state: Mutex<State<C>>,
}

struct State<C> {
    status: Status<C>,
    /// Calls that wait for a connection, by their places.
    waiters: BTreeMap<u64, Waker>,
    /// Calls whose wait has failed, until they look.
    failed: BTreeMap<u64, AttemptError>,
    next_place: u64,
    /// Request bodies on their way to the driver, which sends them.
    pumps: Vec<Pump>,
    driver: Option<Waker>,
}

/// Where the connection stands, for a call that wants one.
pub(crate) enum Status<C> {
    /// None; it will be dialed if somebody waits, or is being dialed.
    Waiting,
    Ready(Ready<C>),
    /// The last attempt failed so, and the next is not before then.
    Failed {
        error: Arc<ConnectError>,
        until: Instant,
    },
    Closed,
    DriverGone,
}

/// A call's place among those that wait for a connection. Dropped with the call.
pub(crate) struct Waiter<C> {
    shared: Arc<Shared<C>>,
    place: Option<u64>,
}

/// What the driver finds on a visit.
pub(crate) struct Visit {
    /// The client is closed.
    pub(crate) closed: bool,
    /// Somebody waits for a connection.
    pub(crate) wanted: bool,
    pub(crate) pumps: Vec<Pump>,
}

impl<C> Shared<C> {
    pub(crate) fn new(address: Address, timer: C) -> Arc<Self> {
        Arc::new(Self {
            address,
            timer,
            state: Mutex::new(State {
                status: Status::Waiting,
                waiters: BTreeMap::new(),
                failed: BTreeMap::new(),
                next_place: 0,
                pumps: Vec::new(),
                driver: None,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver looks in, and asks to be woken when there is something new.
    pub(crate) fn visit(&self, waker: &Waker) -> Visit {
        let mut state = self.lock();
        match &mut state.driver {
            Some(driver) => driver.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        Visit {
            closed: matches!(state.status, Status::Closed),
            wanted: !state.waiters.is_empty(),
            pumps: std::mem::take(&mut state.pumps),
        }
    }

    /// The driver sets where the connection stands, and everybody who waits looks again.
    pub(crate) fn set_status(&self, status: Status<C>) {
        let mut state = self.lock();
        if matches!(state.status, Status::Closed | Status::DriverGone) {
            return;
        }
        let old = std::mem::replace(&mut state.status, status);
        let wakers: Vec<_> = state.waiters.values().cloned().collect();
        // Wakers and h2's handles run code of others: not under the lock.
        drop(state);
        drop(old);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A connection attempt failed: who waits fails with it, and waits no longer. The next
    /// attempt is not before `until`, if that is still to come.
    pub(crate) fn set_failed(&self, error: Arc<ConnectError>, until: Option<Instant>) {
        let waiters = {
            let mut state = self.lock();
            let waiters = std::mem::take(&mut state.waiters);
            for (n, place) in waiters.keys().enumerate() {
                // One connection failed once, however many wait for it.
                let failure = match n {
                    0 => error.attempt_error(),
                    _ => error.attempt_error().neutral(),
                };
                state.failed.insert(*place, failure);
            }
            waiters
        };
        self.set_status(match until {
            Some(until) => Status::Failed { error, until },
            None => Status::Waiting,
        });
        waiters.into_values().for_each(Waker::wake);
    }

    /// Hands a request body to the driver.
    pub(crate) fn send(&self, pump: Pump) {
        self.lock().pumps.push(pump);
        self.wake_driver();
    }

    pub(crate) fn wake_driver(&self) {
        let driver = self.lock().driver.clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// No call is sent from now on; those under way finish.
    pub(crate) fn close(&self) {
        self.set_status(Status::Closed);
        self.wake_driver();
    }
}

/// A stream that h2 has taken.
pub(crate) type Opened<C> = (ResponseFuture, SendStream<Bytes>, StreamGuard<C>);

impl<C: Timer> Shared<C> {
    /// Opens a stream on the ready connection. h2 queues it without waiting, also beyond what
    /// the server allows at once. `None`, and the head is left, if there is no connection that
    /// takes streams.
    pub(crate) fn open_stream(
        &self,
        head: &mut Option<http::Request<()>>,
        end: bool,
    ) -> Result<Option<Opened<C>>, AttemptError> {
        // A handle of its own: h2 wakes its connection in here, and a handle whose last stream
        // is queued takes no other.
        let Some(Ready { mut sender, live }) = self.ready() else {
            return Ok(None);
        };
        let Some(head) = head.take() else {
            return Ok(None);
        };
        match sender.send_request(head, end) {
            Ok((response, stream)) => {
                let guard = live.open_stream(response.stream_id().as_u32());
                Ok(Some((response, stream, guard)))
            }
            Err(refused) => Err(self.not_opened(&mut sender, &live, &refused)),
        }
    }

    fn ready(&self) -> Option<Ready<C>> {
        match &self.lock().status {
            Status::Ready(ready) if !ready.live.is_over() => Some(ready.clone()),
            _ => None,
        }
    }

    fn not_opened(
        &self,
        sender: &mut SendRequest<Bytes>,
        live: &Live<C>,
        refused: &h2::Error,
    ) -> AttemptError {
        match sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Err(error)) => {
                live.set_dead();
                self.wake_driver();
                error::not_sent(&self.address, error)
            }
            // The connection would take another: it is this request that it won't.
            Poll::Ready(Ok(())) | Poll::Pending => error::malformed(refused),
        }
    }
}

impl<C> Waiter<C> {
    pub(crate) fn new(shared: Arc<Shared<C>>) -> Self {
        Self {
            shared,
            place: None,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<C>> {
        &self.shared
    }
}

impl<C: Timer> Waiter<C> {
    /// Ready once there is a connection that takes streams, or with why there is none.
    ///
    /// Waits while idle and connecting; in transient failure fails at once with the last
    /// error, until its backoff is over.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AttemptError>> {
        let mut state = self.shared.lock();
        let failed = self.place.and_then(|place| state.failed.remove(&place));
        if let Some(error) = failed {
            return Poll::Ready(Err(error));
        }
        match &state.status {
            Status::Ready(ready) if !ready.live.is_over() => return Poll::Ready(Ok(())),
            Status::Failed { error, until } if self.shared.timer.now() < *until => {
                return Poll::Ready(Err(error.attempt_error().neutral()));
            }
            Status::Closed => return Poll::Ready(Err(error::closed())),
            Status::DriverGone => {
                return Poll::Ready(Err(error::driver_gone(&self.shared.address)));
            }
            Status::Waiting | Status::Failed { .. } | Status::Ready(_) => {}
        }
        let first = state.waiters.is_empty();
        let place = *self.place.get_or_insert_with(|| {
            state.next_place += 1;
            state.next_place
        });
        state.waiters.insert(place, cx.waker().clone());
        let driver = state.driver.clone().filter(|_| first);
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Pending
    }
}

impl<C> Drop for Waiter<C> {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            let mut state = self.shared.lock();
            state.waiters.remove(place);
            state.failed.remove(place);
        }
    }
}

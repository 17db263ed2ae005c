//! What the channel's attempts and its driver tell each other about the connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use steadfast_client::{Address, AttemptError, Instant, Timer};

use crate::error::{self, ConnectError};
use crate::live::Ready;
use crate::pump::Pump;

pub(crate) struct Shared<C> {
    pub(crate) address: Address,
    pub(crate) timer: C,
    state: Mutex<State<C>>,
}

struct State<C> {
    status: Status<C>,
    /// Connection attempts that failed so far: a call that waits sees the next one.
    failures: u64,
    last_error: Option<Arc<ConnectError>>,
    /// Calls that wait for a connection, by their tickets.
    waiters: BTreeMap<u64, Waker>,
    next_waiter: u64,
    /// Request bodies on their way to the driver, which sends them.
    pumps: Vec<Pump>,
    driver: Option<Waker>,
}

/// Where the connection stands, for a call that wants one.
pub(crate) enum Status<C> {
    /// None; it will be dialed if somebody waits, or is being dialed.
    Waiting,
    Ready(Ready<C>),
    /// The last attempt failed, and the next is not before then.
    Failed {
        until: Instant,
    },
    Closed,
    DriverGone,
}

/// A call's place among those that wait for a connection. Dropped with the call.
pub(crate) struct Waiter<C> {
    shared: Arc<Shared<C>>,
    place: Option<Place>,
}

struct Place {
    id: u64,
    /// Failures when it began to wait.
    failures: u64,
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
                failures: 0,
                last_error: None,
                waiters: BTreeMap::new(),
                next_waiter: 0,
                pumps: Vec::new(),
                driver: None,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that takes streams, if there is one now.
    pub(crate) fn ready(&self) -> Option<Ready<C>> {
        match &self.lock().status {
            Status::Ready(ready) if !ready.live.is_over() => Some(ready.clone()),
            _ => None,
        }
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

    /// A connection attempt failed: who waits fails with it.
    pub(crate) fn set_failed(&self, error: Arc<ConnectError>, status: Status<C>) {
        {
            let mut state = self.lock();
            state.failures += 1;
            state.last_error = Some(error);
        }
        self.set_status(status);
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
    /// Ready with a connection that takes streams, or with why there is none.
    ///
    /// Waits while idle and connecting; in transient failure fails at once with the last
    /// error, until its backoff is over.
    pub(crate) fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Ready<C>, AttemptError>> {
        let mut state = self.shared.lock();
        let failed = match &state.status {
            Status::Ready(ready) if !ready.live.is_over() => return Poll::Ready(Ok(ready.clone())),
            Status::Closed => return Poll::Ready(Err(error::closed())),
            Status::DriverGone => {
                return Poll::Ready(Err(error::driver_gone(&self.shared.address)));
            }
            Status::Failed { until } => self.shared.timer.now() < *until,
            Status::Waiting | Status::Ready(_) => false,
        };
        let failed = failed
            || self
                .place
                .as_ref()
                .is_some_and(|place| place.failures != state.failures);
        if failed && let Some(error) = &state.last_error {
            return Poll::Ready(Err(error.attempt_error()));
        }
        let first = state.waiters.is_empty();
        let place = self.place.get_or_insert_with(|| {
            state.next_waiter += 1;
            Place {
                id: state.next_waiter,
                failures: state.failures,
            }
        });
        state.waiters.insert(place.id, cx.waker().clone());
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
            self.shared.lock().waiters.remove(&place.id);
        }
    }
}

//! What the channel's attempts and its driver tell each other about the connection.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use steadfast_client::{Address, AttemptError, Instant, Timer};

use crate::error::{self, ConnectError};
use crate::live::{Live, Place, Ready, StreamGuard};
use crate::pump::Pump;

pub(crate) struct Shared<C: Timer> {
    pub(crate) address: Address,
    pub(crate) timer: C,
    state: Mutex<State<C>>,
    /// Whether the queue is not empty, for who has no reason to lock it otherwise.
    waiting: AtomicBool,
}

struct State<C: Timer> {
    status: Status<C>,
    /// The last failure to connect, until a connection is up.
    obstacle: Option<Arc<ConnectError>>,
    /// Somebody wants a connection now.
    urged: bool,
    /// Calls that wait for a connection, or for a place on it, in the order they came.
    waiters: BTreeMap<u64, Waiting>,
    /// Those that were given a place, until they look.
    served: BTreeMap<u64, Place<C>>,
    /// Those whose wait has failed, until they look.
    failed: BTreeMap<u64, AttemptError>,
    next_number: u64,
    /// Request bodies on their way to the driver, which sends them.
    pumps: Vec<Pump>,
    driver: Option<Waker>,
}

/// One call that waits.
struct Waiting {
    waker: Waker,
    /// Through failures, too.
    for_ready: bool,
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

/// A call among those that wait. Dropped with the call.
pub(crate) struct Waiter<C: Timer> {
    shared: Arc<Shared<C>>,
    number: Option<u64>,
    /// Whether it waits through failures, too.
    for_ready: bool,
}

/// What the driver finds on a visit.
pub(crate) struct Visit {
    /// The client is closed.
    pub(crate) closed: bool,
    /// Somebody wants a connection now.
    pub(crate) urged: bool,
    /// Somebody waits for a connection.
    pub(crate) wanted: bool,
    pub(crate) pumps: Vec<Pump>,
}

impl<C: Timer> Shared<C> {
    pub(crate) fn new(address: Address, timer: C) -> Arc<Self> {
        Arc::new(Self {
            address,
            timer,
            state: Mutex::new(State {
                status: Status::Waiting,
                obstacle: None,
                urged: false,
                waiters: BTreeMap::new(),
                served: BTreeMap::new(),
                failed: BTreeMap::new(),
                next_number: 0,
                pumps: Vec::new(),
                driver: None,
            }),
            waiting: AtomicBool::new(false),
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
            urged: std::mem::take(&mut state.urged),
            wanted: !state.waiters.is_empty(),
            pumps: std::mem::take(&mut state.pumps),
        }
    }

    /// The driver sets where the connection stands. Who waits gets a place if there are some,
    /// and looks again if there is no use in waiting.
    pub(crate) fn set_status(self: &Arc<Self>, status: Status<C>) {
        let mut state = self.lock();
        if matches!(state.status, Status::Closed | Status::DriverGone) {
            return;
        }
        let old = std::mem::replace(&mut state.status, status);
        let woken = match state.status {
            Status::Waiting | Status::Failed { .. } => Vec::new(),
            Status::Ready(_) => {
                state.obstacle = None;
                self.give_places(&mut state)
            }
            Status::Closed | Status::DriverGone => {
                let waiters = self.take_waiters(&mut state, |_| true);
                waiters.into_values().map(|waiting| waiting.waker).collect()
            }
        };
        // Wakers and h2's handles run code of others: not under the lock.
        drop(state);
        drop(old);
        woken.into_iter().for_each(Waker::wake);
    }

    /// A connection attempt failed: who waits fails with it, and waits no longer, but for those
    /// who wait until it is ready. The next attempt is not before `until`, if that is still to
    /// come.
    pub(crate) fn set_failed(self: &Arc<Self>, error: Arc<ConnectError>, until: Option<Instant>) {
        let after = self.until(until);
        let failed = {
            let mut state = self.lock();
            state.obstacle = Some(Arc::clone(&error));
            let failed = self.take_waiters(&mut state, |waiting| !waiting.for_ready);
            for (n, number) in failed.keys().enumerate() {
                // One connection failed once, however many wait for it.
                let failure = match n {
                    0 => error.attempt_error(),
                    _ => error.untried(after),
                };
                state.failed.insert(*number, failure);
            }
            failed
        };
        self.set_status(match until {
            Some(until) => Status::Failed { error, until },
            None => Status::Waiting,
        });
        failed
            .into_values()
            .for_each(|waiting| waiting.waker.wake());
    }

    /// How long it is until then.
    fn until(&self, until: Option<Instant>) -> Duration {
        until.map_or(Duration::ZERO, |until| {
            until.saturating_since(self.timer.now())
        })
    }

    /// Whether a call waits for a connection, or for a place on it.
    pub(crate) fn anybody_waits(&self) -> bool {
        self.waiting.load(Ordering::SeqCst)
    }

    /// There may be free places on the connection: they go to who has waited longest.
    pub(crate) fn serve_waiters(self: &Arc<Self>) {
        let woken = self.give_places(&mut self.lock());
        woken.into_iter().for_each(Waker::wake);
    }

    /// Gives every free place to a waiter, to be woken. A place is given and not just pointed
    /// out, or a caller that never waits could take each before the queue gets to look.
    fn give_places(self: &Arc<Self>, state: &mut State<C>) -> Vec<Waker> {
        let mut woken = Vec::new();
        let Status::Ready(Ready { live, .. }) = &state.status else {
            return woken;
        };
        while !live.is_over()
            && let Some(first) = state.waiters.first_entry()
            && let Some(place) = Place::take(self, live)
        {
            let (number, waiting) = first.remove_entry();
            state.served.insert(number, place);
            woken.push(waiting.waker);
        }
        self.waiting
            .store(!state.waiters.is_empty(), Ordering::SeqCst);
        woken
    }

    fn take_waiters(
        &self,
        state: &mut State<C>,
        which: impl Fn(&Waiting) -> bool,
    ) -> BTreeMap<u64, Waiting> {
        let waiters = std::mem::take(&mut state.waiters);
        let (taken, left) = waiters.into_iter().partition(|(_, waiting)| which(waiting));
        state.waiters = left;
        self.waiting
            .store(!state.waiters.is_empty(), Ordering::SeqCst);
        taken
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

    /// Asks for a connection now.
    pub(crate) fn urge(&self) {
        self.lock().urged = true;
        self.wake_driver();
    }

    /// Why there is no connection, if that is known.
    pub(crate) fn obstacle(&self) -> Option<AttemptError> {
        let obstacle = self.lock().obstacle.clone();
        obstacle.map(|error| error.attempt_error())
    }

    /// No call is sent from now on; those under way finish.
    pub(crate) fn close(self: &Arc<Self>) {
        self.set_status(Status::Closed);
        self.wake_driver();
    }
}

/// A stream that h2 has taken.
pub(crate) type Opened<C> = (ResponseFuture, SendStream<Bytes>, StreamGuard<C>);

impl<C: Timer> Shared<C> {
    /// Opens a stream on the ready connection, in the place that was given or in a free one.
    /// `None`, and the head is left, if there is none.
    ///
    /// Calls wait for a place here and not in h2, which would send what its caller has given up
    /// long since.
    pub(crate) fn open_stream(
        self: &Arc<Self>,
        given: Option<Place<C>>,
        head: &mut Option<http::Request<()>>,
        end: bool,
    ) -> Result<Option<Opened<C>>, AttemptError> {
        // A handle of its own, since h2 wakes its connection in here: not under the lock.
        let Some(Ready { mut sender, live }) = self.ready() else {
            return Ok(None);
        };
        let place = match given {
            // It may be one of a connection that is gone.
            Some(place) => place.is_on(&live).then_some(place),
            None => Place::take(self, &live),
        };
        let Some(place) = place else {
            return Ok(None);
        };
        let Some(head) = head.take() else {
            return Ok(None);
        };
        match sender.send_request(head, end) {
            Ok((response, stream)) => {
                let guard = place.stream(response.stream_id().as_u32());
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

impl<C: Timer> Waiter<C> {
    pub(crate) fn new(shared: Arc<Shared<C>>, for_ready: bool) -> Self {
        Self {
            shared,
            number: None,
            for_ready,
        }
    }

    /// What it waits for.
    pub(crate) fn obstacle(&self) -> Option<AttemptError> {
        self.shared.obstacle()
    }

    /// Ready with what `open` makes of a place on a connection, or with why there is none.
    /// `open` answers `None` if the place's connection is gone.
    ///
    /// Waits while idle and connecting, and for a place while there are none; in transient
    /// failure fails at once with the last error, until its backoff is over, unless it waits
    /// for ready.
    pub(crate) fn poll_open<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut open: impl FnMut(&Arc<Shared<C>>, Place<C>) -> Option<T>,
    ) -> Poll<Result<T, AttemptError>> {
        loop {
            // In the queue first, then a look: what comes free in between is given to it.
            self.enqueue(cx.waker())?;
            self.shared.serve_waiters();
            let Some(place) = self.take_place() else {
                return Poll::Pending;
            };
            if let Some(opened) = open(&self.shared, place) {
                return Poll::Ready(Ok(opened));
            }
        }
    }

    fn take_place(&self) -> Option<Place<C>> {
        self.shared.lock().served.remove(&self.number?)
    }

    /// Fails if there is no use in waiting.
    fn enqueue(&mut self, waker: &Waker) -> Result<(), AttemptError> {
        let mut state = self.shared.lock();
        if let Some(number) = self.number {
            if let Some(failure) = state.failed.remove(&number) {
                return Err(failure);
            }
            if state.served.contains_key(&number) {
                return Ok(());
            }
        }
        match &state.status {
            Status::Failed { error, until } if !self.for_ready => {
                let after = self.shared.until(Some(*until));
                if !after.is_zero() {
                    return Err(error.untried(after));
                }
            }
            Status::Closed => return Err(error::closed()),
            Status::DriverGone => return Err(error::driver_gone(&self.shared.address)),
            Status::Waiting | Status::Ready(_) | Status::Failed { .. } => {}
        }
        let first = state.waiters.is_empty();
        let number = *self.number.get_or_insert_with(|| {
            state.next_number += 1;
            state.next_number
        });
        let waiting = Waiting {
            waker: waker.clone(),
            for_ready: self.for_ready,
        };
        let old = state.waiters.insert(number, waiting);
        self.shared.waiting.store(true, Ordering::SeqCst);
        let driver = state.driver.clone().filter(|_| first);
        drop(state);
        drop(old);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }
}

impl<C: Timer> Drop for Waiter<C> {
    fn drop(&mut self) {
        let Some(number) = self.number else {
            return;
        };
        let mut state = self.shared.lock();
        let waiting = state.waiters.remove(&number);
        let failure = state.failed.remove(&number);
        let place = state.served.remove(&number);
        self.shared
            .waiting
            .store(!state.waiters.is_empty(), Ordering::SeqCst);
        // A place goes on to the next, who gets it under this lock.
        drop(state);
        drop((waiting, failure, place));
    }
}

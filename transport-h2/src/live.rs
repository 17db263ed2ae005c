//! One ready connection, as its streams see it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use steadfast_client::{Address, Instant, Timer};
use steadfast_core::Usage;

use crate::error::StreamFacts;
use crate::shared::Shared;
use crate::tap::Passed;

/// A connection that takes streams.
pub(crate) struct Ready<C> {
    pub(crate) sender: SendRequest<Bytes>,
    pub(crate) live: Arc<Live<C>>,
}

impl<C> Clone for Ready<C> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            live: Arc::clone(&self.live),
        }
    }
}

/// What the streams of one connection and its driver tell each other.
pub(crate) struct Live<C> {
    timer: C,
    passed: Arc<Passed>,
    /// It takes no more streams; an attempt found out before the driver did.
    dead: AtomicBool,
    /// A call was answered on it.
    answered: AtomicBool,
    streams: AtomicUsize,
    /// How many the server allows at once.
    allowed: AtomicUsize,
    idle_since: AtomicU64,
    /// A ping had no answer for so long.
    silent: OnceLock<Duration>,
}

impl<C: Timer> Live<C> {
    pub(crate) fn new(timer: C, passed: Arc<Passed>) -> Arc<Self> {
        let now = timer.now().as_nanos();
        Arc::new(Self {
            timer,
            passed,
            dead: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            streams: AtomicUsize::new(0),
            allowed: AtomicUsize::new(0),
            idle_since: AtomicU64::new(now),
            silent: OnceLock::new(),
        })
    }

    /// Takes one of the places that the server allows at once.
    fn enter(&self) -> bool {
        let allowed = self.allowed.load(Ordering::SeqCst);
        let one_more = |streams| (streams < allowed).then_some(streams + 1);
        self.streams
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more)
            .is_ok()
    }

    fn leave(&self) {
        // The last one out notes the time. A look in between finds no stream and an older time;
        // the worst of it is an unused connection closed a little early.
        if self.streams.fetch_sub(1, Ordering::SeqCst) == 1 {
            let now = self.timer.now().as_nanos();
            self.idle_since.fetch_max(now, Ordering::AcqRel);
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        match self.streams.load(Ordering::Acquire) {
            0 => Usage::IdleSince(Instant::from_nanos(self.idle_since.load(Ordering::Acquire))),
            _ => Usage::Busy,
        }
    }
}

impl<C> Live<C> {
    pub(crate) fn passed(&self) -> &Passed {
        &self.passed
    }

    /// How many streams the server allows now; what it allowed before.
    pub(crate) fn set_allowed(&self, streams: usize) -> usize {
        self.allowed.swap(streams, Ordering::SeqCst)
    }

    /// The peer has left a ping unanswered for so long, and the connection is given up.
    pub(crate) fn set_silent(&self, timeout: Duration) {
        let _ = self.silent.set(timeout);
    }

    pub(crate) fn set_dead(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// Whether new streams must go elsewhere.
    pub(crate) fn is_over(&self) -> bool {
        self.dead.load(Ordering::Acquire) || self.passed.goaway().is_some()
    }

    /// Whether the connection was of use: a call was answered on it, or is being worked on as
    /// the server says goodbye. One that never was is not dialed again at once.
    pub(crate) fn served(&self) -> bool {
        self.answered.load(Ordering::Acquire) || self.passed.goaway_accepts()
    }
}

/// A place among the streams of a connection. Dropped, it goes to whoever waits for one.
pub(crate) struct Place<C: Timer> {
    shared: Arc<Shared<C>>,
    live: Arc<Live<C>>,
}

impl<C: Timer> Place<C> {
    /// One of the places that the server allows at once, if one is free.
    pub(crate) fn take(shared: &Arc<Shared<C>>, live: &Arc<Live<C>>) -> Option<Self> {
        live.enter().then(|| Self {
            shared: Arc::clone(shared),
            live: Arc::clone(live),
        })
    }

    /// Whether it is a place on this connection.
    pub(crate) fn is_on(&self, live: &Arc<Live<C>>) -> bool {
        Arc::ptr_eq(&self.live, live)
    }

    /// The stream that has taken it.
    pub(crate) fn stream(self, id: u32) -> StreamGuard<C> {
        StreamGuard {
            place: self,
            id,
            answered: false,
        }
    }
}

impl<C: Timer> Drop for Place<C> {
    fn drop(&mut self) {
        self.live.leave();
        // Whoever waits says so before it looks for a place, and this one looks after it left:
        // one of the two sees the other.
        if self.shared.anybody_waits() {
            self.shared.serve_waiters();
        }
    }
}

/// One stream of a connection.
pub(crate) struct StreamGuard<C: Timer> {
    place: Place<C>,
    id: u32,
    answered: bool,
}

impl<C: Timer> StreamGuard<C> {
    /// The server answered.
    pub(crate) fn on_answer(&mut self) {
        self.answered = true;
        let live = &self.place.live;
        if !live.answered.load(Ordering::Relaxed) {
            live.answered.store(true, Ordering::Release);
        }
    }

    pub(crate) fn facts(&self) -> StreamFacts {
        let passed = &self.place.live.passed;
        StreamFacts {
            answered: self.answered,
            written: passed.was_written(self.id),
            above_goaway: passed.goaway().is_some_and(|last| self.id > last),
            silent: self.place.live.silent.get().copied(),
        }
    }

    /// Whether all of the request was handed to the peer's connection. Now and then not known
    /// of one that was.
    pub(crate) fn request_left(&self) -> bool {
        self.place.live.passed.was_ended(self.id)
    }

    pub(crate) fn address(&self) -> &Address {
        &self.place.shared.address
    }
}

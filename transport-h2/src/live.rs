//! One ready connection, as its streams see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use h2::client::SendRequest;
use steadfast_client::{Instant, Timer};
use steadfast_core::Usage;

use crate::error::StreamFacts;
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
    idle_since: AtomicU64,
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
            idle_since: AtomicU64::new(now),
        })
    }

    /// Counts a stream in, until the guard is dropped.
    pub(crate) fn open_stream(self: &Arc<Self>, id: u32) -> StreamGuard<C> {
        self.streams.fetch_add(1, Ordering::AcqRel);
        StreamGuard {
            live: Arc::clone(self),
            id,
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

/// One stream of a connection. Dropping it counts the stream out.
pub(crate) struct StreamGuard<C: Timer> {
    live: Arc<Live<C>>,
    id: u32,
}

impl<C: Timer> StreamGuard<C> {
    /// The server answered.
    pub(crate) fn on_answer(&self) {
        if !self.live.answered.load(Ordering::Relaxed) {
            self.live.answered.store(true, Ordering::Release);
        }
    }

    pub(crate) fn facts(&self) -> StreamFacts {
        let passed = &self.live.passed;
        StreamFacts {
            written: passed.was_written(self.id),
            above_goaway: passed.goaway().is_some_and(|last| self.id > last),
        }
    }
}

impl<C: Timer> Drop for StreamGuard<C> {
    fn drop(&mut self) {
        // The last one out notes the time. A look in between finds no stream and an older time;
        // the worst of it is an unused connection closed a little early.
        if self.live.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            let now = self.live.timer.now().as_nanos();
            self.live.idle_since.fetch_max(now, Ordering::AcqRel);
        }
    }
}

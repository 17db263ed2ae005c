//! What all calls of one client share: the breaker and the budget under one lock, and the
//! delivery of the breaker's transitions.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use steadfast_core::{
    EncodedTimeout, Instant, Pass, Protection, RetryPolicy, SeededRandom, Timer, Transition,
};

use crate::methods::MethodTable;
use crate::outcome::Classifier;

/// Hears of every change of the breaker's state.
pub(crate) type Listener = Arc<dyn Fn(&Transition) + Send + Sync>;

pub(crate) struct Shared<C> {
    pub(crate) timer: C,
    pub(crate) timeout: Duration,
    /// The timeout as a header, made once: almost every first attempt is told just this.
    timeout_header: HeaderValue,
    pub(crate) policy: RetryPolicy,
    pub(crate) classify: Classifier,
    pub(crate) methods: MethodTable,
    protection: Mutex<Protection>,
    /// The closed breaker's pass, published under the lock and taken without it: so a call that
    /// succeeds takes the lock once.
    pass: AtomicU64,
    outbox: Mutex<Outbox>,
    listener: Option<Listener>,
    seed: u64,
    streams: AtomicU64,
}

#[derive(Default)]
struct Outbox {
    transitions: VecDeque<Transition>,
    delivering: bool,
}

impl<C: Timer> Shared<C> {
    pub(crate) fn new(
        timer: C,
        settings: &crate::Settings,
        listener: Option<Listener>,
        seed: u64,
    ) -> Self {
        let protection = settings.protection();
        Self {
            timer,
            timeout: settings.timeout,
            timeout_header: encode(settings.timeout),
            policy: settings.retry_policy(),
            classify: settings.classify.clone(),
            methods: settings.methods.clone(),
            pass: AtomicU64::new(protection.breaker.pass().map_or(0, Pass::to_bits)),
            protection: Mutex::new(protection),
            outbox: Mutex::default(),
            listener,
            seed,
            streams: AtomicU64::new(0),
        }
    }

    /// Lets a machine work on breaker and budget, then delivers what changed.
    ///
    /// A breaker policy is a user's and may panic in here. The machines are consistent then,
    /// so a poisoned lock is taken all the same.
    pub(crate) fn protect<R>(&self, work: impl FnOnce(&mut Protection) -> R) -> R {
        let mut protection = lock(&self.protection);
        let answer = work(&mut protection);
        let pass = protection.breaker.pass().map_or(0, Pass::to_bits);
        // Written only when it changes, so that the line stays with all who read it.
        if self.pass.load(Ordering::Relaxed) != pass {
            self.pass.store(pass, Ordering::Release);
        }
        if let Some(first) = protection.breaker.poll_transition() {
            self.post(first, &mut protection);
            drop(protection);
            self.deliver();
        }
        answer
    }

    /// What is left of a deadline, as the server is told.
    pub(crate) fn told_timeout(&self, left: Duration) -> HeaderValue {
        if left == self.timeout {
            self.timeout_header.clone()
        } else {
            encode(left)
        }
    }

    /// The time to report a result with. A plain success that changes nothing but counts needs
    /// none of its own and takes `quiet`, when its attempt began: while all is well a call
    /// reads the clock once.
    pub(crate) fn time_to_settle(
        &self,
        protection: &Protection,
        quiet: Option<Instant>,
    ) -> Instant {
        quiet
            .filter(|_| protection.breaker.is_quiet())
            .unwrap_or_else(|| self.timer.now())
    }

    /// The breaker's leave, while it is closed.
    pub(crate) fn pass(&self) -> Option<Pass> {
        Pass::from_bits(self.pass.load(Ordering::Acquire))
    }

    /// Randomness for one call, in step with no other call's.
    pub(crate) fn random(&self) -> SeededRandom {
        SeededRandom::stream(self.seed, self.streams.fetch_add(1, Ordering::Relaxed))
    }

    /// Queues transitions while the protection is still locked, which gives them their order.
    fn post(&self, first: Transition, protection: &mut Protection) {
        if self.listener.is_none() {
            while protection.breaker.poll_transition().is_some() {}
            return;
        }
        let mut outbox = lock(&self.outbox);
        outbox.transitions.push_back(first);
        while let Some(next) = protection.breaker.poll_transition() {
            outbox.transitions.push_back(next);
        }
    }

    /// Delivers one at a time, in order, outside any lock: whoever finds nobody delivering
    /// delivers all there is, a listener's own changes included.
    fn deliver(&self) {
        let Some(listener) = &self.listener else {
            return;
        };
        let mut turn = match Turn::take(&self.outbox) {
            Some(turn) => turn,
            None => return,
        };
        // A panic of the listener is its caller's to hear of, once nothing is left to tell.
        let mut panic = None;
        while let Some(transition) = turn.next() {
            let told = catch_unwind(AssertUnwindSafe(|| listener(&transition)));
            match (&panic, told) {
                (None, Err(payload)) => panic = Some(payload),
                // Nobody to hear of it, and its drop may panic too.
                (Some(_), Err(payload)) => std::mem::forget(payload),
                (_, Ok(())) => {}
            }
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

/// The right to deliver. Given back when nothing is left.
struct Turn<'a>(&'a Mutex<Outbox>);

impl<'a> Turn<'a> {
    fn take(outbox: &'a Mutex<Outbox>) -> Option<Self> {
        let free = !std::mem::replace(&mut lock(outbox).delivering, true);
        free.then_some(Self(outbox))
    }

    /// The next transition; gives the turn back in the same step that finds none.
    fn next(&mut self) -> Option<Transition> {
        let mut outbox = lock(self.0);
        let next = outbox.transitions.pop_front();
        outbox.delivering = next.is_some();
        next
    }
}

impl<C> fmt::Debug for Shared<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protection = lock(&self.protection);
        f.debug_struct("Shared")
            .field("breaker", &protection.breaker)
            .field("budget", &protection.budget)
            .finish_non_exhaustive()
    }
}

impl<C> Shared<C> {
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Protection) -> R) -> R {
        look(&lock(&self.protection))
    }
}

fn encode(timeout: Duration) -> HeaderValue {
    let encoded = EncodedTimeout::new(timeout);
    HeaderValue::from_bytes(encoded.as_bytes()).expect("digits and a letter")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

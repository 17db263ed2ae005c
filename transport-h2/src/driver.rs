//! Keeps the one connection: does what its state machine says.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use h2::client::SendRequest;
use pin_project_lite::pin_project;
use steadfast_client::{Instant, SeededRandom, Sleeper, Timer};
use steadfast_core::{
    Connection, ConnectionAction, ConnectionSettings, ConnectionState, KeepaliveSettings, Usage,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::ConnectError;
use crate::host::{DialError, Host};
use crate::http2::Http2Settings;
use crate::link::{Handshake, Link, handshake};
use crate::live::Live;
use crate::pump::Pump;
use crate::shared::{Shared, Status};

pin_project! {
    /// Dials, keeps and closes the connection of one [`Channel`](crate::Channel).
    ///
    /// A future for an executor to run: nothing is dialed or sent unless it is polled. It
    /// ends when the last handle of its channel is gone and the streams under way have
    /// finished. Dropping it ends every call with UNAVAILABLE.
    #[must_use = "no call can be made unless the driver runs"]
    pub struct Driver<H, C>
    where
        H: Host,
        C: Timer,
    {
        keeper: Keeper<H, C>,
        #[pin]
        sleeper: Sleeper<C::Sleep>,
    }
}

/// The parts of the driver that don't need pinning.
struct Keeper<H: Host, C: Timer> {
    host: H,
    shared: Arc<Shared<C>>,
    settings: ConnectionSettings,
    http2: Http2Settings,
    machine: Connection,
    random: SeededRandom,
    /// The attempt under way.
    dialing: Option<Dialing<H::Stream, C>>,
    /// The connection that takes new streams.
    current: Option<Current<H::Stream, C>>,
    /// Those that only finish the streams they have.
    draining: Vec<Draining<H::Stream, C>>,
    pumps: FuturesUnordered<Pump>,
}

struct Current<S, C> {
    generation: u64,
    link: Link<S, C>,
}

struct Draining<S, C> {
    link: Link<S, C>,
    /// When it is dropped, since its last stream is gone and the peer doesn't take our farewell.
    until: Option<Instant>,
}

type Dial<S> = Pin<Box<dyn Future<Output = Result<Handshake<S>, DialFailure>> + Send>>;

enum DialFailure {
    Dial(DialError),
    Handshake(h2::Error),
}

impl DialFailure {
    /// The panic's payload is left alone: its drop is the user's code as well.
    fn panicked(payload: Box<dyn Any + Send>) -> Self {
        std::mem::forget(payload);
        Self::Dial(DialError::Connect(io::Error::other("the host panicked")))
    }
}

struct Dialing<S, C> {
    generation: u64,
    step: DialStep<S, C>,
}

enum DialStep<S, C> {
    /// On the way to a byte stream and our half of the HTTP/2 handshake.
    Dial(Dial<S>),
    /// Waiting for the server's SETTINGS.
    Settings(Box<Link<S, C>>, SendRequest<Bytes>),
}

impl<H: Host, C: Timer + Clone> Driver<H, C> {
    pub(crate) fn new(
        host: H,
        shared: Arc<Shared<C>>,
        settings: ConnectionSettings,
        http2: Http2Settings,
        seed: u64,
    ) -> Self {
        Self {
            keeper: Keeper {
                host,
                shared,
                settings,
                http2,
                machine: Connection::new(settings),
                random: SeededRandom::new(seed),
                dialing: None,
                current: None,
                draining: Vec::new(),
                pumps: FuturesUnordered::new(),
            },
            sleeper: Sleeper::new(),
        }
    }
}

impl<H: Host, C: Timer + Clone> Future for Driver<H, C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let keeper = this.keeper;
        loop {
            // What the machine has asked for comes before a new demand on it.
            while keeper.act() {}
            keeper.look_in(cx);
            if keeper.act() || keeper.poll_dialing(cx) || keeper.poll_current(cx) {
                continue;
            }
            while let Poll::Ready(Some(())) = keeper.pumps.poll_next_unpin(cx) {}
            keeper.poll_draining(cx);
            if keeper.is_done() {
                return Poll::Ready(());
            }
            let Some(until) = keeper.next_timeout() else {
                return Poll::Pending;
            };
            match this
                .sleeper
                .as_mut()
                .poll_until(until, &keeper.shared.timer, cx)
            {
                Poll::Ready(now) => keeper.on_timeout(now),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<H: Host, C: Timer + Clone> Keeper<H, C> {
    /// Takes what the calls have left for the driver.
    fn look_in(&mut self, cx: &mut Context<'_>) {
        let visit = self.shared.visit(cx.waker());
        self.pumps.extend(visit.pumps);
        if visit.closed {
            self.machine.handle_close();
        } else if visit.urged {
            self.machine.handle_connect_now(self.shared.timer.now());
        } else if visit.wanted {
            self.machine.handle_demand(self.shared.timer.now());
        }
    }

    /// Whether the attempt came to something.
    fn poll_dialing(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(dialing) = &mut self.dialing else {
            return false;
        };
        let address = &self.shared.address;
        if let DialStep::Dial(dial) = &mut dialing.step {
            // The host is the user's code; a panic of it is a dial that failed.
            let polled = catch_unwind(AssertUnwindSafe(|| dial.as_mut().poll(cx)));
            match polled.unwrap_or_else(|panic| Poll::Ready(Err(DialFailure::panicked(panic)))) {
                Poll::Pending => return false,
                Poll::Ready(Err(DialFailure::Dial(error))) => {
                    return self.on_dial_failed(ConnectError::dial(address, error));
                }
                Poll::Ready(Err(DialFailure::Handshake(error))) => {
                    return self.on_dial_failed(ConnectError::handshake(address, Some(error)));
                }
                Poll::Ready(Ok(handshake)) => {
                    let timer = self.shared.timer.clone();
                    let (link, sender) = Link::new(handshake, timer, self.settings.keepalive);
                    dialing.step = DialStep::Settings(Box::new(link), sender);
                }
            }
        }
        let DialStep::Settings(link, _) = &mut dialing.step else {
            return false;
        };
        match link.poll(cx) {
            Poll::Ready(ended) => {
                self.on_dial_failed(ConnectError::handshake(address, ended.err()))
            }
            Poll::Pending => link.is_served() && self.on_served(),
        }
    }

    fn on_served(&mut self) -> bool {
        let Some(Dialing { generation, step }) = self.dialing.take() else {
            return false;
        };
        let DialStep::Settings(link, sender) = step else {
            return false;
        };
        self.machine
            .handle_served(generation, self.shared.timer.now());
        let _ = link.live().set_allowed(link.allowed());
        self.shared.set_status(Status::Ready(link.ready(sender)));
        self.current = Some(Current {
            generation,
            link: *link,
        });
        true
    }

    fn on_dial_failed(&mut self, error: Arc<ConnectError>) -> bool {
        if let Some(dialing) = self.dialing.take() {
            let now = self.shared.timer.now();
            self.machine
                .handle_failed(dialing.generation, now, &mut self.random);
            self.fail(error);
        }
        true
    }

    /// Tells the calls of a failure that the machine has taken in.
    fn fail(&mut self, error: Arc<ConnectError>) {
        self.shared.set_failed(error, self.machine.poll_timeout());
    }

    /// Whether the connection is lost to new calls.
    fn poll_current(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(Current { generation, link }) = &mut self.current else {
            return false;
        };
        let ended = link.poll(cx).is_ready();
        let live = link.live();
        if !ended && !live.is_over() {
            let allowed = link.allowed();
            if live.set_allowed(allowed) < allowed {
                self.shared.serve_waiters();
            }
            return false;
        }
        live.set_dead();
        self.machine
            .handle_lost(*generation, live.served(), &mut self.random);
        self.retire(ended);
        true
    }

    /// The current connection takes no more streams; those it has finish.
    fn retire(&mut self, ended: bool) {
        if let Some(Current { link, .. }) = self.current.take() {
            self.heed(link.live());
            if !ended {
                self.draining.push(Draining { link, until: None });
            }
        }
        self.shared.set_status(Status::Waiting);
    }

    /// A server that is pinged too often has the next connections pinged half as often.
    fn heed(&mut self, live: &Live<C>) {
        if live.passed().take_too_many_pings() {
            let keepalive = &mut self.settings.keepalive;
            *keepalive = keepalive.map(KeepaliveSettings::backed_off);
        }
    }

    fn poll_draining(&mut self, cx: &mut Context<'_>) {
        for mut draining in std::mem::take(&mut self.draining) {
            let ended = draining.link.poll(cx).is_ready();
            self.heed(draining.link.live());
            if ended {
                continue;
            }
            match draining.link.live().usage() {
                // A call may have got in as the last one left.
                Usage::Busy => draining.until = None,
                Usage::IdleSince(_) if draining.until.is_some() => {}
                Usage::IdleSince(_) => {
                    let now = self.shared.timer.now();
                    draining.until = Some(now.saturating_add(self.settings.connect_timeout));
                }
            }
            self.draining.push(draining);
        }
    }

    /// When time itself is the next event.
    fn next_timeout(&self) -> Option<Instant> {
        let current = self.current.iter().map(|current| &current.link);
        let draining = self.draining.iter().map(|draining| &draining.link);
        let pings = current.chain(draining).filter_map(Link::next_timeout);
        let farewells = self.draining.iter().filter_map(|draining| draining.until);
        let machine = self.machine.poll_timeout();
        pings.chain(farewells).chain(machine).min()
    }

    /// Does what the machine asks for; whether it asked for anything.
    fn act(&mut self) -> bool {
        let Some(action) = self.machine.poll_action() else {
            return false;
        };
        match action {
            ConnectionAction::Dial { generation } => {
                let (host, address) = (&self.host, &self.shared.address);
                let stream = catch_unwind(AssertUnwindSafe(|| host.dial(address)));
                let dial: Dial<H::Stream> = match stream {
                    Ok(stream) => Box::pin(dial(stream, self.http2)),
                    Err(panic) => Box::pin(std::future::ready(Err(DialFailure::panicked(panic)))),
                };
                self.dialing = Some(Dialing {
                    generation,
                    step: DialStep::Dial(dial),
                });
                self.shared.set_status(Status::Waiting);
            }
            ConnectionAction::Abandon { .. } => {
                self.dialing = None;
                if self.machine.state() != ConnectionState::Closed {
                    let timeout = self.settings.connect_timeout;
                    self.fail(ConnectError::timeout(&self.shared.address, timeout));
                }
            }
            ConnectionAction::Retire { .. } => self.retire(false),
        }
        true
    }

    fn on_timeout(&mut self, now: Instant) {
        self.draining.retain(|draining| {
            draining.link.live().usage() == Usage::Busy
                || draining.until.is_none_or(|until| now < until)
        });
        let usage = match &self.current {
            Some(Current { link, .. }) => link.live().usage(),
            None => Usage::Busy,
        };
        self.machine.handle_timeout(now, usage, &mut self.random);
        if self.machine.state() == ConnectionState::Idle && self.current.is_none() {
            self.shared.set_status(Status::Waiting);
        }
    }

    /// The client is gone and nothing is left to finish.
    fn is_done(&self) -> bool {
        self.machine.state() == ConnectionState::Closed
            && self.draining.is_empty()
            && self.pumps.is_empty()
    }
}

/// A byte stream, and our half of the HTTP/2 handshake on it.
async fn dial<S>(
    stream: impl Future<Output = Result<S, DialError>>,
    http2: Http2Settings,
) -> Result<Handshake<S>, DialFailure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = stream.await.map_err(DialFailure::Dial)?;
    handshake(stream, &http2)
        .await
        .map_err(DialFailure::Handshake)
}

impl<H: Host, C: Timer> Drop for Keeper<H, C> {
    fn drop(&mut self) {
        self.shared.set_status(Status::DriverGone);
    }
}

impl<H: Host, C: Timer> fmt::Debug for Driver<H, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("address", &self.keeper.shared.address)
            .field("connection", &self.keeper.machine.state())
            .field("draining", &self.keeper.draining.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

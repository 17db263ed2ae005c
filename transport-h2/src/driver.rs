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
use h2::client::{Connection as Http2, SendRequest};
use pin_project_lite::pin_project;
use steadfast_client::{Instant, SeededRandom, Sleeper, Timer};
use steadfast_core::{Connection, ConnectionAction, ConnectionSettings, ConnectionState, Usage};

use crate::error::ConnectError;
use crate::host::{DialError, Host};
use crate::live::{Live, Ready};
use crate::pump::Pump;
use crate::shared::{Shared, Status};
use crate::tap::{Passed, Tap};

/// How much one stream may send before its caller reads. Large enough for a round trip of a
/// fast network, small enough that no single reader holds much of the connection.
const STREAM_WINDOW: u32 = 256 * 1024;

/// How much all streams may: sixty-four unread ones fit before the rest would starve.
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;

/// What response headers and trailers may take, uncompressed.
const MAX_HEADER_LIST: u32 = 64 * 1024;

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
    machine: Connection,
    random: SeededRandom,
    /// The attempt under way.
    dialing: Option<Dialing<H::Stream, C>>,
    /// The connection that takes new streams.
    current: Option<Link<H::Stream, C>>,
    /// Those that only finish the streams they have.
    draining: Vec<Draining<H::Stream, C>>,
    pumps: FuturesUnordered<Pump>,
}

struct Link<S, C> {
    generation: u64,
    http2: Http2<Tap<S>, Bytes>,
    live: Arc<Live<C>>,
}

struct Draining<S, C> {
    http2: Http2<Tap<S>, Bytes>,
    live: Arc<Live<C>>,
    /// When it is dropped, since its last stream is gone and the peer doesn't take our farewell.
    until: Option<Instant>,
}

type Handshake<S> = (SendRequest<Bytes>, Http2<Tap<S>, Bytes>, Arc<Passed>);
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
    Settings(Box<Http2<Tap<S>, Bytes>>, Ready<C>),
}

impl<H: Host, C: Timer + Clone> Driver<H, C> {
    pub(crate) fn new(
        host: H,
        shared: Arc<Shared<C>>,
        settings: ConnectionSettings,
        seed: u64,
    ) -> Self {
        Self {
            keeper: Keeper {
                host,
                shared,
                settings,
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
                Poll::Ready(Ok((sender, http2, passed))) => {
                    let live = Live::new(self.shared.timer.clone(), passed);
                    dialing.step = DialStep::Settings(Box::new(http2), Ready { sender, live });
                }
            }
        }
        let DialStep::Settings(http2, ready) = &mut dialing.step else {
            return false;
        };
        match Pin::new(http2.as_mut()).poll(cx) {
            Poll::Ready(ended) => {
                self.on_dial_failed(ConnectError::handshake(address, ended.err()))
            }
            Poll::Pending => ready.live.passed().settings() && self.on_served(),
        }
    }

    fn on_served(&mut self) -> bool {
        let Some(Dialing { generation, step }) = self.dialing.take() else {
            return false;
        };
        let DialStep::Settings(http2, ready) = step else {
            return false;
        };
        self.machine
            .handle_served(generation, self.shared.timer.now());
        let _ = ready.live.set_allowed(http2.max_concurrent_send_streams());
        self.current = Some(Link {
            generation,
            http2: *http2,
            live: Arc::clone(&ready.live),
        });
        self.shared.set_status(Status::Ready(ready));
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
        let Some(link) = &mut self.current else {
            return false;
        };
        let ended = Pin::new(&mut link.http2).poll(cx).is_ready();
        if !ended && !link.live.is_over() {
            // h2 applies SETTINGS in its own time, so it is asked and not the tap.
            let allowed = link.http2.max_concurrent_send_streams();
            if link.live.set_allowed(allowed) < allowed {
                self.shared.serve_waiters();
            }
            return false;
        }
        link.live.set_dead();
        let served = link.live.served();
        self.machine
            .handle_lost(link.generation, served, &mut self.random);
        self.retire(ended);
        true
    }

    /// The current connection takes no more streams; those it has finish.
    fn retire(&mut self, ended: bool) {
        if let Some(link) = self.current.take()
            && !ended
        {
            self.draining.push(Draining {
                http2: link.http2,
                live: link.live,
                until: None,
            });
        }
        self.shared.set_status(Status::Waiting);
    }

    fn poll_draining(&mut self, cx: &mut Context<'_>) {
        let (timer, patience) = (&self.shared.timer, self.settings.connect_timeout);
        self.draining.retain_mut(|draining| {
            if Pin::new(&mut draining.http2).poll(cx).is_ready() {
                return false;
            }
            match draining.live.usage() {
                // A call may have got in as the last one left.
                Usage::Busy => draining.until = None,
                Usage::IdleSince(_) if draining.until.is_some() => {}
                Usage::IdleSince(_) => {
                    draining.until = Some(timer.now().saturating_add(patience));
                }
            }
            true
        });
    }

    /// When time itself is the next event.
    fn next_timeout(&self) -> Option<Instant> {
        let draining = self.draining.iter().filter_map(|draining| draining.until);
        draining.chain(self.machine.poll_timeout()).min()
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
                    Ok(stream) => Box::pin(dial(stream)),
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
            draining.live.usage() == Usage::Busy || draining.until.is_none_or(|until| now < until)
        });
        let usage = match &self.current {
            Some(link) => link.live.usage(),
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
) -> Result<Handshake<S>, DialFailure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (tap, passed) = Tap::new(stream.await.map_err(DialFailure::Dial)?);
    let (sender, http2) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_LIST)
        // Frames that arrive late for streams whose callers left are no attack.
        .max_local_error_reset_streams(None)
        .handshake(tap)
        .await
        .map_err(DialFailure::Handshake)?;
    Ok((sender, http2, passed))
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

//! One HTTP/2 connection: its handshake, its polling, and the pings that find a peer gone.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection as Http2, SendRequest};
use h2::{Ping, PingPong};
use steadfast_client::{Instant, Timer};
use steadfast_core::{Keepalive, KeepaliveAction, KeepaliveSettings, Usage};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::http2::Http2Settings;
use crate::live::{Live, Ready};
use crate::tap::{Passed, Tap};

/// One connection, as the driver keeps it: it moves only while it is polled.
pub(crate) struct Link<S, C> {
    http2: Http2<Tap<S>, Bytes>,
    live: Arc<Live<C>>,
    timer: C,
    pinger: Option<Pinger>,
}

struct Pinger {
    machine: Keepalive,
    timeout: Duration,
    pings: PingPong,
}

/// A connection on which our half of HTTP/2's handshake has left.
pub(crate) struct Handshake<S> {
    sender: SendRequest<Bytes>,
    http2: Http2<Tap<S>, Bytes>,
    passed: Arc<Passed>,
}

/// Sends our half of HTTP/2's handshake on a byte stream.
pub(crate) async fn handshake<S>(
    stream: S,
    settings: &Http2Settings,
) -> Result<Handshake<S>, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (tap, passed) = Tap::new(stream);
    let (sender, http2) = settings.builder().handshake(tap).await?;
    Ok(Handshake {
        sender,
        http2,
        passed,
    })
}

impl<S, C> Link<S, C>
where
    S: AsyncRead + AsyncWrite + Unpin,
    C: Timer,
{
    /// A connection is of use once the peer's half of the handshake has come too:
    /// [`is_served`](Self::is_served).
    pub(crate) fn new(
        handshake: Handshake<S>,
        timer: C,
        keepalive: Option<KeepaliveSettings>,
    ) -> (Self, SendRequest<Bytes>)
    where
        C: Clone,
    {
        let Handshake {
            sender,
            mut http2,
            passed,
        } = handshake;
        let pinger = keepalive
            .zip(http2.ping_pong())
            .map(|(settings, pings)| Pinger {
                machine: Keepalive::new(settings, timer.now()),
                timeout: settings.timeout,
                pings,
            });
        let link = Self {
            http2,
            live: Live::new(timer.clone(), passed),
            timer,
            pinger,
        };
        (link, sender)
    }

    /// Moves what there is to move. Ready when the connection has ended, with an error or
    /// without.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        loop {
            if let Poll::Ready(ended) = Pin::new(&mut self.http2).poll(cx) {
                return Poll::Ready(ended);
            }
            // What has arrived counts, even in the moment in which a wait for it is over.
            match self.keep_alive(cx) {
                None => return Poll::Pending,
                // It goes out with the next poll.
                Some(KeepaliveAction::Ping) => {}
                Some(KeepaliveAction::GiveUp) => return Poll::Ready(Ok(())),
            }
        }
    }

    fn keep_alive(&mut self, cx: &mut Context<'_>) -> Option<KeepaliveAction> {
        let pinger = self.pinger.as_mut()?;
        let now = self.timer.now();
        if self.live.passed().take_read() {
            pinger.machine.handle_read(now);
        }
        // h2 sends no ping before it was asked about the answer to the last one.
        let _ = pinger.pings.poll_pong(cx);
        let in_use = self.live.usage() == Usage::Busy;
        let action = pinger.machine.handle_timeout(now, in_use)?;
        match action {
            // One that is still out, since the peer sent other things, does as well.
            KeepaliveAction::Ping => drop(pinger.pings.send_ping(Ping::opaque())),
            KeepaliveAction::GiveUp => self.live.set_silent(pinger.timeout),
        }
        Some(action)
    }

    /// When time itself is the next event.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let in_use = self.live.usage() == Usage::Busy;
        self.pinger.as_ref()?.machine.poll_timeout(in_use)
    }
}

impl<S, C> Link<S, C> {
    pub(crate) fn live(&self) -> &Arc<Live<C>> {
        &self.live
    }

    /// Whether the peer's SETTINGS came.
    pub(crate) fn is_served(&self) -> bool {
        self.live.passed().settings()
    }

    /// How many streams the peer allows now. h2 applies SETTINGS in its own time, so it is
    /// asked and not the tap.
    pub(crate) fn allowed(&self) -> usize
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.http2.max_concurrent_send_streams()
    }

    /// What calls open streams with.
    pub(crate) fn ready(&self, sender: SendRequest<Bytes>) -> Ready<C> {
        Ready {
            sender,
            live: Arc::clone(&self.live),
        }
    }
}

//! The body of a request that isn't wholly in hand: sent by the driver, as flow control lets
//! it, whether or not the caller is reading the response.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body;
use steadfast_client::RequestBody;

/// Sends one request body to its end. A future for the driver.
pub(crate) struct Pump {
    body: RequestBody,
    chunk: Bytes,
    stream: SendStream<Bytes>,
    link: Arc<Link>,
}

/// How the reader of the response tells the pump that it left.
#[derive(Default)]
struct Link {
    left: AtomicBool,
    pump: Mutex<Option<Waker>>,
}

/// Held by whoever reads the response. Dropping it stops the pump, which then resets the
/// stream if its end has not been sent.
pub(crate) struct PumpGuard(Arc<Link>);

impl Drop for PumpGuard {
    fn drop(&mut self) {
        self.0.left.store(true, Ordering::Release);
        let waker = self
            .0
            .pump
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Pump {
    pub(crate) fn new(body: RequestBody, stream: SendStream<Bytes>) -> (Self, PumpGuard) {
        let link = Arc::new(Link::default());
        let pump = Self {
            body,
            chunk: Bytes::new(),
            stream,
            link: Arc::clone(&link),
        };
        (pump, PumpGuard(link))
    }

    /// Sends what can be sent. `Err` if the stream is to be reset: half a request must never
    /// look like a whole one.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        loop {
            if self.link.left.load(Ordering::Acquire) {
                return Poll::Ready(Err(()));
            }
            // An end of the stream from the other side ends the upload too.
            if self.stream.poll_reset(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if !self.chunk.is_empty() {
                let capacity = match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(capacity)) => capacity,
                    Some(Err(_)) | None => return Poll::Ready(Ok(())),
                };
                let piece = self.chunk.split_to(capacity.min(self.chunk.len()));
                if self.stream.send_data(piece, false).is_err() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    self.chunk = frame.into_data().unwrap_or_default();
                    self.stream.reserve_capacity(self.chunk.len());
                }
                Some(Err(_)) => return Poll::Ready(Err(())),
                None => {
                    let _ = self.stream.send_data(Bytes::new(), true);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        *self
            .link
            .pump
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if ready!(self.poll_send(cx)).is_err() {
            self.stream.send_reset(Reason::CANCEL);
        }
        Poll::Ready(())
    }
}

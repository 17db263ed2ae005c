//! The body of a request that isn't wholly in hand: sent by the driver, as flow control lets
//! it, whether or not the caller is reading the response.
//!
//! The body is the caller's code, and the driver is everybody's: a panic in it, or a status
//! that it ends with, is carried to the caller through the stream it belongs to.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body;
use steadfast_client::RequestBody;
use tonic::Status;

/// Sends one request body to its end. A future for the driver.
pub(crate) struct Pump {
    /// Dropped with care as soon as it is done.
    body: Option<RequestBody>,
    /// What the body gave, and no window was there for.
    left: Bytes,
    stream: SendStream<Bytes>,
    link: Arc<Mutex<Link>>,
}

/// What the pump and the reader of the response tell each other.
#[derive(Default)]
struct Link {
    /// The reader is gone.
    left: bool,
    pump: Option<Waker>,
    failure: Option<BodyFailure>,
}

/// Why a body gave no more.
enum BodyFailure {
    Status(Status),
    Panic(Payload),
}

/// What a panic was thrown with. It is dropped with as much care as what threw it: its own drop
/// may panic too.
struct Payload(Option<Box<dyn Any + Send>>);

impl Drop for Payload {
    fn drop(&mut self) {
        let payload = self.0.take();
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
    }
}

/// Held by whoever reads the response. Dropping it stops the pump, which then resets the
/// stream if its end has not been sent.
pub(crate) struct PumpGuard(Arc<Mutex<Link>>);

fn lock(link: &Mutex<Link>) -> MutexGuard<'_, Link> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PumpGuard {
    /// The status that the request's body failed with, if that is why its stream did.
    ///
    /// # Panics
    ///
    /// With the body's own panic, if it panicked.
    pub(crate) fn body_failure(&self) -> Option<Status> {
        let failure = lock(&self.0).failure.take();
        match failure? {
            BodyFailure::Status(status) => Some(status),
            BodyFailure::Panic(mut panic) => match panic.0.take() {
                Some(payload) => resume_unwind(payload),
                None => None,
            },
        }
    }
}

impl Drop for PumpGuard {
    fn drop(&mut self) {
        let waker = {
            let mut link = lock(&self.0);
            link.left = true;
            link.pump.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Pump {
    pub(crate) fn new(body: RequestBody, stream: SendStream<Bytes>) -> (Self, PumpGuard) {
        let link = Arc::<Mutex<Link>>::default();
        let pump = Self {
            body: Some(body),
            left: Bytes::new(),
            stream,
            link: Arc::clone(&link),
        };
        (pump, PumpGuard(link))
    }

    /// Sends what can be sent. `Err` if the stream is to be reset: half a request must never
    /// look like a whole one.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        loop {
            // An end of the stream from the other side ends the upload too.
            if self.stream.poll_reset(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            // The body is not asked for more than there is a window for.
            let wanted = self.left.len().max(1);
            if self.stream.capacity() < wanted {
                self.stream.reserve_capacity(wanted);
            }
            if self.stream.capacity() == 0 {
                match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(0)) => continue,
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(Ok(())),
                }
            }
            if !self.left.is_empty() {
                // And h2 gets no more than may leave, or it would hold it beyond the stream's
                // end.
                let room = self.stream.capacity().min(self.left.len());
                let piece = self.left.split_to(room);
                if self.stream.send_data(piece, false).is_err() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let Some(body) = &mut self.body else {
                return Poll::Ready(Ok(()));
            };
            let body = Pin::new(body);
            let frame = match catch_unwind(AssertUnwindSafe(|| body.poll_frame(cx))) {
                Ok(polled) => ready!(polled),
                Err(panic) => return self.fail(BodyFailure::Panic(Payload(Some(panic)))),
            };
            match frame {
                Some(Ok(frame)) => {
                    // Empty ones are never sent: h2 ends a connection over too many.
                    self.left = frame.into_data().unwrap_or_default();
                }
                Some(Err(status)) => return self.fail(BodyFailure::Status(status)),
                None => {
                    let _ = self.stream.send_data(Bytes::new(), true);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// The body is the caller's code to the last: a panic in its drop is not the driver's.
    fn drop_body(&mut self) {
        let body = self.body.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(body))) {
            lock(&self.link).failure = Some(BodyFailure::Panic(Payload(Some(panic))));
        }
    }

    fn fail(&self, failure: BodyFailure) -> Poll<Result<(), ()>> {
        lock(&self.link).failure = Some(failure);
        Poll::Ready(Err(()))
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let left = {
            let mut link = lock(&self.link);
            link.pump = Some(cx.waker().clone());
            link.left
        };
        if left || ready!(self.poll_send(cx)).is_err() {
            self.stream.send_reset(Reason::CANCEL);
        }
        self.drop_body();
        Poll::Ready(())
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.drop_body();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a panic was thrown with, and panics itself.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("again");
        }
    }

    #[test]
    fn a_payload_that_panics_is_nobodys_panic() {
        drop(BodyFailure::Panic(Payload(Some(Box::new(Bomb)))));
    }
}

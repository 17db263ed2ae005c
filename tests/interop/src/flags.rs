//! Which messages of a call went, and came, compressed: read off the five bytes before each.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tower_service::Service;

/// The compressed flags of a body's messages, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(Arc<Mutex<Prefixes>>);

#[derive(Debug, Default)]
struct Prefixes {
    flags: Vec<bool>,
    prefix: Vec<u8>,
    /// What is left of the message after its prefix.
    left: usize,
}

impl Flags {
    pub(crate) fn seen(&self) -> Vec<bool> {
        self.lock().flags.clone()
    }

    pub(crate) fn read(&self, mut bytes: &[u8]) {
        let mut this = self.lock();
        while !bytes.is_empty() {
            if this.left > 0 {
                let skipped = this.left.min(bytes.len());
                this.left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            this.prefix.push(bytes[0]);
            bytes = &bytes[1..];
            if let [flag, length @ ..] = &this.prefix[..]
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                let flag = *flag == 1;
                this.left = u32::from_be_bytes(length) as usize;
                this.flags.push(flag);
                this.prefix.clear();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Prefixes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body whose messages' flags are kept.
#[derive(Debug)]
pub(crate) struct Flagged {
    body: Body,
    flags: Flags,
}

impl Flagged {
    pub(crate) fn body(body: Body, flags: &Flags) -> Body {
        let flags = flags.clone();
        Body::new(Self { body, flags })
    }
}

impl http_body::Body for Flagged {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.flags.read(data);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A client whose messages' flags are kept.
#[derive(Clone, Debug)]
pub(crate) struct Watched<S> {
    client: S,
    pub(crate) sent: Flags,
    pub(crate) received: Flags,
}

impl<S> Watched<S> {
    pub(crate) fn new(client: S) -> Self {
        Self {
            client,
            sent: Flags::default(),
            received: Flags::default(),
        }
    }
}

impl<S, B> Service<http::Request<Body>> for Watched<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error = tonic::Status>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = http::Response<Body>;
    type Error = tonic::Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, tonic::Status>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), tonic::Status>> {
        self.client.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let call = self
            .client
            .call(request.map(|body| Flagged::body(body, &self.sent)));
        let received = self.received.clone();
        Box::pin(async move {
            let response = call.await?;
            Ok(response.map(|body| Flagged::body(Body::new(body), &received)))
        })
    }
}

//! The least that can stand between a tonic stub and h2: what any client that takes tonic's
//! stubs pays before it does anything of its own.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use tower_service::Service;

use super::connection;
use crate::Failure;

#[derive(Clone)]
pub(crate) struct Bare {
    sender: SendRequest<Bytes>,
    authority: Authority,
}

impl Bare {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        Ok(Self {
            sender: connection::connect(address).await?,
            authority: address.to_string().parse()?,
        })
    }

    fn absolute(&self, uri: Uri) -> Result<Uri, Failure> {
        let mut parts = uri.into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.authority.clone());
        Ok(Uri::from_parts(parts)?)
    }
}

impl Service<Request<tonic::body::Body>> for Bare {
    type Response = Response<BareBody>;
    type Error = Failure;
    type Future = BareFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(ready!(self.sender.poll_ready(cx))?))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> BareFuture {
        let (mut parts, body) = request.into_parts();
        let uri = std::mem::take(&mut parts.uri);
        let sent = self.absolute(uri).and_then(|uri| {
            parts.uri = uri;
            parts.extensions.clear();
            let head = Request::from_parts(parts, ());
            Ok(self.sender.send_request(head, false)?)
        });
        match sent {
            Ok((response, stream)) => BareFuture::Sending {
                body,
                last: None,
                stream,
                response: Some(response),
            },
            Err(error) => BareFuture::Failed(Some(error)),
        }
    }
}

/// A call under way.
pub(crate) enum BareFuture {
    Sending {
        body: tonic::body::Body,
        last: Option<Bytes>,
        stream: h2::SendStream<Bytes>,
        response: Option<ResponseFuture>,
    },
    Sent(ResponseFuture),
    Failed(Option<Failure>),
}

impl Future for BareFuture {
    type Output = Result<Response<BareBody>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut *self {
                Self::Sending {
                    body,
                    last,
                    stream,
                    response,
                } => {
                    // The last chunk carries the end of the stream, and only the body's end
                    // tells which one that was.
                    while let Some(frame) = ready!(Pin::new(&mut *body).poll_frame(cx)) {
                        if let Ok(data) = frame?.into_data()
                            && let Some(earlier) = last.replace(data)
                        {
                            stream.send_data(earlier, false)?;
                        }
                    }
                    stream.send_data(last.take().unwrap_or_default(), true)?;
                    let response = response.take().expect("it is taken once");
                    *self = Self::Sent(response);
                }
                Self::Sent(response) => {
                    let response = ready!(Pin::new(response).poll(cx))?;
                    return Poll::Ready(Ok(response.map(BareBody)));
                }
                Self::Failed(error) => {
                    let error = error.take().expect("polled after it ended");
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

/// A response's body.
pub(crate) struct BareBody(RecvStream);

impl Body for BareBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(data) = ready!(self.0.poll_data(cx)) {
            let data = data?;
            self.0.flow_control().release_capacity(data.len())?;
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let trailers = ready!(self.0.poll_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

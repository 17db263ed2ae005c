//! h2 alone: the same bytes on the wire, without codec, stub or client.

use std::future::poll_fn;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::header::{CONTENT_TYPE, HeaderValue, TE, USER_AGENT};
use http::{Method, Request, Uri, Version};

use super::{Caller, connection};
use crate::Failure;
use crate::payload::Payload;

#[derive(Clone)]
pub(crate) struct Raw {
    sender: SendRequest<Bytes>,
    uri: Uri,
}

impl Raw {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self, Failure> {
        Ok(Self {
            sender: connection::connect(address).await?,
            uri: format!("http://{address}/carts.v1.CartService/AddItem").parse()?,
        })
    }
}

impl Caller for Raw {
    async fn call(&mut self, payload: &Payload) -> Result<usize, Failure> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(USER_AGENT, HeaderValue::from_static("benches"));
        let (response, mut stream) = self.sender.send_request(request, false)?;
        stream.send_data(payload.framed.clone(), true)?;
        let mut body = response.await?.into_body();
        let mut size = 0;
        while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
            let data = data?;
            size += data.len();
            body.flow_control().release_capacity(data.len())?;
        }
        match poll_fn(|cx| body.poll_trailers(cx)).await? {
            Some(trailers) if trailers.get("grpc-status").is_some_and(|code| code == "0") => {
                Ok(size)
            }
            trailers => Err(format!("the call failed: {trailers:?}").into()),
        }
    }
}

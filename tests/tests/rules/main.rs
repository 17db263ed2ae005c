//! Rules that no other scenario holds: each was broken once, and nothing had noticed.

mod connection;
mod judging;
mod streams;

use std::pin::Pin;

use std::sync::atomic::{AtomicUsize, Ordering};

use std::sync::{Arc, Mutex, OnceLock};

use std::task::{Context, Poll};

use std::time::Duration;

use bytes::Bytes;

use h2::Reason;

use h2::server::SendResponse;

use http::{HeaderMap, HeaderValue, Response};

use http_body::Frame;

use prost::Message as _;

use steadfast_tests::carts::cart_service_client::CartServiceClient;

use steadfast_tests::carts::{AddItemRequest, AddItemResponse, ListItemsRequest};

use steadfast_tests::peer::answer_ok;

use steadfast_tests::{
    Answer, Peer, PipeHost, Raw, World, driven, item, piped, raw, unary, unavailable,
};

use steadfast_tokio::*;

use tokio::io::{AsyncWriteExt as _, DuplexStream};

use tokio::sync::mpsc;

use tokio::time::{advance, timeout};

use tokio_stream::wrappers::ReceiverStream;

use tonic::{Code, Status};

use tower_service::Service as _;

const SECOND: Duration = Duration::from_secs(1);

fn settings() -> Settings {
    Settings {
        breaker_policy: Arc::new(NeverOpen),
        ..Settings::default()
    }
}

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn poll_once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

fn message(len: usize) -> Bytes {
    let m = AddItemResponse {
        items: 1,
        item: vec![9; len],
    }
    .encode_to_vec();
    let mut framed = vec![0];
    framed.extend((m.len() as u32).to_be_bytes());
    framed.extend(m);
    framed.into()
}

fn trailers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(n, v)| {
            (
                http::HeaderName::from_static(n),
                HeaderValue::from_str(v).unwrap(),
            )
        })
        .collect()
}

fn head() -> Response<()> {
    Response::builder()
        .header("content-type", "application/grpc")
        .body(())
        .unwrap()
}

fn answer(mut to: SendResponse<Bytes>, chunks: &[Bytes], end: Option<HeaderMap>) {
    let mut stream = to.send_response(head(), false).expect("sent");
    for (n, chunk) in chunks.iter().enumerate() {
        stream
            .send_data(chunk.clone(), end.is_none() && n + 1 == chunks.len())
            .expect("sent");
    }
    if let Some(end) = end {
        stream.send_trailers(end).expect("sent");
    }
}

fn listing() -> tonic::Request<ListItemsRequest> {
    CallKind::Streaming.mark(ListItemsRequest { count: 1 })
}

fn carts(client: &TokioClient) -> CartServiceClient<TokioClient> {
    CartServiceClient::new(client.clone())
}

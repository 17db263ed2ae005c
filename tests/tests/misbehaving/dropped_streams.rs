//! Answers that nobody reads to their end give their part of the windows back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use steadfast_tests::carts::ListItemsRequest;
use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::{Peer, item, settle, unary};
use steadfast_tokio::{CallKind, Http2Settings, NeverOpen, RetryBudget, Settings};

const DROPPED: usize = 1_000;
const UNREAD: usize = 32 * 1024;
const ANSWER: usize = 1024 * 1024;

fn settings() -> Settings {
    Settings {
        breaker_policy: Arc::new(NeverOpen),
        ..Settings::default()
    }
}

/// The least that HTTP/2 allows: two such answers fill it.
fn small_windows() -> Http2Settings {
    Http2Settings {
        stream_window: 65_535,
        connection_window: 65_535,
        ..Http2Settings::default()
    }
}

/// An empty message and the beginning of a large one, or a whole large one and OK.
fn respond(whole: bool, mut to: h2::server::SendResponse<Bytes>) {
    let head = Response::builder().header("content-type", "application/grpc");
    let mut stream = to
        .send_response(head.body(()).expect("a head"), false)
        .expect("sent");
    if whole {
        // Field 2, bytes, of ANSWER bytes.
        let mut message = vec![0x12, 0x80, 0x80, 0x40];
        message.resize(4 + ANSWER, 0);
        let mut framed = vec![0];
        framed.extend((message.len() as u32).to_be_bytes());
        framed.extend(message);
        stream.send_data(framed.into(), false).expect("sent");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        stream.send_trailers(trailers).expect("sent");
    } else {
        let mut bytes = vec![0; 5];
        bytes.push(0);
        bytes.extend(1_000_000_u32.to_be_bytes());
        bytes.resize(bytes.len() + UNREAD, 0);
        stream.send_data(bytes.into(), false).expect("sent");
        // Kept open until the client resets it.
        tokio::spawn(async move {
            let _ = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_dropped_streams_leave_the_windows_whole() {
    let peer = Peer::with_http2(settings(), small_windows(), |number, _, to| {
        respond(number == DROPPED, to);
    });
    let mut carts = CartServiceClient::new(peer.client.clone());
    for _ in 0..DROPPED {
        let request = CallKind::Streaming.mark(ListItemsRequest { count: 1 });
        let mut items = carts
            .list_items(request)
            .await
            .expect("opened")
            .into_inner();
        items.message().await.expect("OK").expect("the empty one");
        settle().await;
        drop(items);
    }
    let answer = carts.add_item(unary(item(b"x"))).await.expect("OK");
    assert_eq!(answer.into_inner().item.len(), ANSWER);
}

#[tokio::test(start_paused = true)]
async fn retried_answers_that_had_begun_give_theirs_back_too() {
    // Each is held back, and then lost to its trailers.
    let peer = Peer::with_http2(
        Settings {
            max_attempts: 200,
            backoff_base: Duration::from_millis(1),
            backoff_max: Duration::from_millis(1),
            retry_budget: RetryBudget {
                max_tokens: 1_000,
                ..RetryBudget::default()
            },
            ..settings()
        },
        small_windows(),
        |number, _, mut to| {
            if number == 100 {
                return respond(true, to);
            }
            let head = Response::builder().header("content-type", "application/grpc");
            let mut stream = to
                .send_response(head.body(()).expect("a head"), false)
                .expect("sent");
            let mut bytes = vec![0];
            bytes.extend((UNREAD as u32).to_be_bytes());
            bytes.resize(5 + UNREAD, 0);
            stream.send_data(bytes.into(), false).expect("sent");
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("14"));
            stream.send_trailers(trailers).expect("sent");
        },
    );
    let mut carts = CartServiceClient::new(peer.client.clone());
    let answer = carts.add_item(unary(item(b"x"))).await.expect("OK");
    assert_eq!(answer.into_inner().item.len(), ANSWER);
}

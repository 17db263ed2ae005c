//! The server's limit on streams: calls queue for it here, within their deadlines, and what
//! was given up in the queue is never sent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_tests::carts::AddItemResponse;
use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::{PipeHost, Raw, item, piped, raw, unary};
use steadfast_tokio::{CallReport, NeverOpen, Progress, Settings, TokioClient};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

const SECOND: Duration = Duration::from_secs(1);
const MAX_CONCURRENT_STREAMS: u8 = 3;

fn client() -> (TokioClient, UnboundedReceiver<DuplexStream>) {
    let (host, connections) = PipeHost::new();
    let settings = Settings {
        max_attempts: 1,
        timeout: 600 * SECOND,
        breaker_policy: Arc::new(NeverOpen),
        ..Settings::default()
    };
    (piped(host, settings, |_| {}), connections)
}

type Call = JoinHandle<Result<AddItemResponse, Status>>;

fn call(client: &TokioClient, timeout: Duration) -> Call {
    let mut carts = CartServiceClient::new(client.clone());
    let mut request = unary(item(b"x"));
    request.set_timeout(timeout);
    tokio::spawn(async move {
        carts
            .add_item(request)
            .await
            .map(tonic::Response::into_inner)
    })
}

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Allows this many streams at once.
async fn allow(peer: &mut Raw, streams: u32) {
    let mut setting = vec![0, MAX_CONCURRENT_STREAMS];
    setting.extend(streams.to_be_bytes());
    peer.send(raw::SETTINGS, 0, 0, &setting).await;
}

async fn limited(connections: &mut UnboundedReceiver<DuplexStream>, streams: u32) -> Raw {
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    allow(&mut peer, streams).await;
    settle().await;
    peer
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_place_in_order() {
    let (client, mut connections) = client();
    let first = call(&client, 60 * SECOND);
    let mut peer = limited(&mut connections, 1).await;
    let later: Vec<_> = (0..3).map(|_| call(&client, 60 * SECOND)).collect();
    settle().await;
    for stream in [1, 3, 5, 7] {
        assert_eq!(peer.next_of(raw::HEADERS).await.stream, stream);
        settle().await;
        peer.answer(stream).await;
        settle().await;
    }
    for call in [first].into_iter().chain(later) {
        call.await.expect("no panic").expect("answered");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_expired_in_the_queue_is_never_sent() {
    let (client, mut connections) = client();
    let long = call(&client, 60 * SECOND);
    let mut peer = limited(&mut connections, 1).await;
    peer.next_of(raw::HEADERS).await;
    let status = call(&client, SECOND)
        .await
        .expect("no panic")
        .expect_err("expired");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts()[0].progress, Progress::NotSent);
    let dropped = call(&client, 60 * SECOND);
    settle().await;
    dropped.abort();
    settle().await;
    peer.answer(1).await;
    long.await.expect("no panic").expect("answered");
    let next = call(&client, 60 * SECOND);
    assert_eq!(
        peer.next_of(raw::HEADERS).await.stream,
        3,
        "the next is the next call's"
    );
    peer.answer(3).await;
    next.await.expect("no panic").expect("answered");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_hands_its_turn_on() {
    let (client, mut connections) = client();
    let first = call(&client, 60 * SECOND);
    let mut peer = limited(&mut connections, 1).await;
    peer.next_of(raw::HEADERS).await;
    let queue: Vec<_> = (0..10).map(|_| call(&client, 60 * SECOND)).collect();
    settle().await;
    // All but the last leave in the moment in which the place comes free.
    peer.answer(1).await;
    for call in &queue[..9] {
        call.abort();
    }
    first.await.expect("no panic").expect("answered");
    settle().await;
    loop {
        let stream = peer.next_of(raw::HEADERS).await.stream;
        peer.answer(stream).await;
        settle().await;
        if queue[9].is_finished() {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_lets_all_who_wait_go_on() {
    let (client, mut connections) = client();
    let first = call(&client, 60 * SECOND);
    let mut peer = limited(&mut connections, 0).await;
    let later: Vec<_> = (0..20).map(|_| call(&client, 60 * SECOND)).collect();
    settle().await;
    allow(&mut peer, 100).await;
    for _ in 0..21 {
        let stream = peer.next_of(raw::HEADERS).await.stream;
        peer.answer(stream).await;
    }
    for call in [first].into_iter().chain(later) {
        call.await.expect("no panic").expect("answered");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_expired_in_the_queue_do_not_end_the_connection() {
    let (client, mut connections) = client();
    let long = [call(&client, 600 * SECOND), call(&client, 600 * SECOND)];
    let stream = connections.recv().await.expect("dialed");
    let mut connection = h2::server::Builder::new()
        .max_concurrent_streams(2)
        .handshake::<_, Bytes>(stream)
        .await
        .expect("HTTP/2");
    let (_one, first) = connection
        .accept()
        .await
        .expect("a call")
        .expect("a request");
    let (_two, _second) = connection
        .accept()
        .await
        .expect("a call")
        .expect("a request");
    tokio::spawn(async move { while connection.accept().await.is_some() {} });
    let expired: Vec<_> = (0..50).map(|_| call(&client, SECOND)).collect();
    for call in expired {
        call.await.expect("no panic").expect_err("expired");
    }
    steadfast_tests::peer::answer_ok(first);
    let [one, two] = long;
    one.await.expect("no panic").expect("answered");
    settle().await;
    assert!(!two.is_finished(), "the other is well");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_comes_in_two_pieces_is_noticed() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (client, mut connections) = client();
    let _first = call(&client, 60 * SECOND);
    let mut peer = connections.recv().await.expect("dialed");
    let none = [
        0,
        0,
        6,
        4,
        0,
        0,
        0,
        0,
        0,
        0,
        MAX_CONCURRENT_STREAMS,
        0,
        0,
        0,
        0,
    ];
    peer.write_all(&none).await.expect("written");
    settle().await;
    for piece in [
        &[0, 0, 6, 4, 0, 0, 0, 0, 0][..],
        &[0, MAX_CONCURRENT_STREAMS, 0, 0, 0, 100],
    ] {
        peer.write_all(piece).await.expect("written");
        settle().await;
    }
    let mut sent = vec![0; 64 * 1024];
    let mut len = 0;
    while let Ok(Ok(more)) = tokio::time::timeout(SECOND, peer.read(&mut sent[len..])).await {
        len += more;
    }
    let mut frames = &sent[24..len];
    let mut headers = 0;
    while let Some((head, rest)) = frames.split_at_checked(9) {
        headers += usize::from(head[3] == raw::HEADERS);
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        frames = &rest[length..];
    }
    assert_eq!(headers, 1);
}

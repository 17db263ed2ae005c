//! Who gets a place on a connection that has none free, and when a connection has any.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::{PipeHost, Raw, item, piped, raw, unary};
use steadfast_tokio::{NeverOpen, Settings, TokioClient};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc::UnboundedReceiver;

const SECOND: Duration = Duration::from_secs(1);
/// SETTINGS with MAX_CONCURRENT_STREAMS 1.
const ONE_STREAM: [u8; 15] = [0, 0, 6, raw::SETTINGS, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1];

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

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// One call after another, without a pause; each adds to `made`.
async fn call_in_a_loop(client: TokioClient, made: Arc<AtomicUsize>) {
    let mut carts = CartServiceClient::new(client);
    loop {
        carts.add_item(unary(item(b"x"))).await.expect("answered");
        made.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_in_a_loop_takes_no_place_from_the_queue() {
    let (client, mut connections) = client();
    let looped = Arc::new(AtomicUsize::new(0));
    let looping = tokio::spawn(call_in_a_loop(client.clone(), Arc::clone(&looped)));
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    peer.send(raw::SETTINGS, 0, 0, &ONE_STREAM[9..]).await;
    settle().await;
    let waited = Arc::new(AtomicUsize::new(0));
    let waiting: Vec<_> = (0..3)
        .map(|_| tokio::spawn(call_in_a_loop(client.clone(), Arc::clone(&waited))))
        .collect();
    settle().await;
    for _ in 0..40 {
        let stream = peer.next_of(raw::HEADERS).await.stream;
        peer.answer(stream).await;
        settle().await;
    }
    let (looped, waited) = (looped.load(Ordering::SeqCst), waited.load(Ordering::SeqCst));
    assert_eq!((looped, waited), (10, 30), "four callers, turn by turn");
    looping.abort();
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_whole_of_the_settings_came() {
    let (client, mut connections) = client();
    let calls: Vec<_> = (0..2)
        .map(|_| tokio::spawn(call_in_a_loop(client.clone(), Arc::default())))
        .collect();
    let mut peer = connections.recv().await.expect("dialed");
    let mut preface = [0; 24];
    peer.read_exact(&mut preface).await.expect("a preface");
    peer.write_all(&ONE_STREAM[..9]).await.expect("written");
    settle().await;
    let mut sent = vec![0; 4096];
    let len = peer.read(&mut sent).await.expect("read");
    assert!(
        !frame_kinds(&sent[..len]).contains(&raw::HEADERS),
        "the server has not said yet how many it takes"
    );
    peer.write_all(&ONE_STREAM[9..]).await.expect("written");
    settle().await;
    let len = peer.read(&mut sent).await.expect("read");
    let headers = frame_kinds(&sent[..len])
        .iter()
        .filter(|kind| **kind == raw::HEADERS)
        .count();
    assert_eq!(headers, 1);
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The types of whole frames.
fn frame_kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        kinds.push(head[3]);
        bytes = &rest[length..];
    }
    kinds
}

//! Peers and bodies that would hurt somebody else, or read as what they are not.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::carts::{AddItemRequest, ListItemsRequest};
use steadfast_tests::peer::answer_ok;
use steadfast_tests::{Answer, Peer, PipeHost, Raw, World, driven, item, piped, raw, unary};
use steadfast_tokio::{
    CallKind, CallReport, Classification, Classifier, ConnectionSettings, Http2Settings, NeverOpen,
    Progress, Settings, TokioClient,
};
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_stream::Stream;
use tonic::{Code, Status};
use tower_service::Service as _;

const SECOND: Duration = Duration::from_secs(1);

fn settings() -> Settings {
    Settings {
        breaker_policy: Arc::new(NeverOpen),
        ..Settings::default()
    }
}

fn raw_client(settings: Settings) -> (TokioClient, UnboundedReceiver<DuplexStream>) {
    let (host, connections) = PipeHost::new();
    (piped(host, settings, |_| {}), connections)
}

fn stream_request() -> tonic::Request<ListItemsRequest> {
    CallKind::Streaming.mark(ListItemsRequest { count: 1 })
}

async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn open_head(more: &[(&str, &str)]) -> Vec<u8> {
    let head = [(":status", "200"), ("content-type", "application/grpc")];
    raw::headers(&[&head, more].concat())
}

#[tokio::test(start_paused = true)]
async fn broken_headers_beside_a_trailers_only_ok_do_not_hurt() {
    for (name, value) in [("grpc-status-details-bin", "!"), ("grpc-message", "%ff")] {
        let peer = Peer::new(settings(), move |_, _, mut to| {
            let head = http::Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", "0")
                .header(name, value);
            to.send_response(head.body(()).unwrap(), true)
                .expect("sent");
        });
        let mut carts = CartServiceClient::new(peer.client);
        let items = carts
            .list_items(stream_request())
            .await
            .expect("an empty stream");
        assert!(items.into_inner().message().await.expect("clean").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn an_ok_in_the_headers_of_a_cut_stream_is_no_clean_end() {
    let (client, mut connections) = raw_client(settings());
    let mut carts = CartServiceClient::new(client.clone());
    let reading = tokio::spawn(async move {
        let mut items = carts.list_items(stream_request()).await?.into_inner();
        while items.message().await?.is_some() {}
        Ok::<_, Status>(())
    });
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    peer.next_of(raw::HEADERS).await;
    let head = open_head(&[("grpc-status", "0")]);
    peer.send(raw::HEADERS, raw::END_HEADERS, 1, &head).await;
    peer.send(raw::DATA, 0, 1, &[0; 5]).await;
    peer.send(raw::RST_STREAM, 0, 1, &2_u32.to_be_bytes()).await;
    let status = reading.await.expect("no panic").expect_err("cut");
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(client.breaker().1.failures, 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_has_begun_is_not_sent_again_by_itself() {
    for goaway in [false, true] {
        let (client, mut connections) = raw_client(Settings {
            classify: Classifier::new(|outcome| match outcome.progress {
                Progress::MaybeProcessed => Classification::FAIL,
                _ => outcome.default_classification(),
            }),
            ..settings()
        });
        let mut carts = CartServiceClient::new(client);
        let call = tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await });
        let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
        peer.next_of(raw::HEADERS).await;
        peer.send(raw::HEADERS, raw::END_HEADERS, 1, &open_head(&[]))
            .await;
        peer.send(raw::DATA, 0, 1, &[0; 5]).await;
        settle().await;
        match goaway {
            false => peer.send(raw::RST_STREAM, 0, 1, &7_u32.to_be_bytes()).await,
            true => peer.goaway(0, 0, b"").await,
        }
        let status = call.await.expect("no panic").expect_err("refused");
        let report = CallReport::of(&status).expect("a report");
        assert_eq!(report.attempts().len(), 1, "{report}");
        assert_eq!(report.attempts()[0].progress, Progress::MaybeProcessed);
        assert!(connections.try_recv().is_err(), "no other connection");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_ended_for_what_was_sent_is_not_tried_with_it_again() {
    let (client, mut connections) = raw_client(Settings {
        max_attempts: 1,
        ..settings()
    });
    let mut carts = CartServiceClient::new(client);
    let call = tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await });
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    peer.next_of(raw::HEADERS).await;
    peer.goaway(0, 0xb, b"enhance your calm").await;
    let status = call.await.expect("no panic").expect_err("ended");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts()[0].progress, Progress::NotProcessed);
    settle().await;
    assert!(connections.try_recv().is_err(), "no other connection");
}

/// Waits for ever, and panics when it is given up.
struct DropBomb;

impl Stream for DropBomb {
    type Item = AddItemRequest;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<AddItemRequest>> {
        Poll::Pending
    }
}

impl Drop for DropBomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a bug in the body's drop");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_panics_when_dropped_hurts_nobody_else() {
    let world = World::new(settings());
    world.carts().add_item(unary(item(b"x"))).await.expect("up");
    world.script.then([Answer::Hang]);
    let mut carts = world.carts();
    let buggy = tokio::spawn(async move { carts.add_items(DropBomb).await });
    world.script.saw(2).await;
    buggy.abort();
    assert!(buggy.await.is_err());
    settle().await;
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("the connection is well");
}

/// Three hundred empty frames, then a message.
struct Empties(u32);

impl http_body::Body for Empties {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0 += 1;
        Poll::Ready(match self.0 {
            1..=300 => Some(Ok(Frame::data(Bytes::new()))),
            301 => Some(Ok(Frame::data(Bytes::from_static(&[0; 5])))),
            _ => None,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn empty_frames_of_one_caller_do_not_end_the_connection() {
    let world = World::new(settings());
    world.script.then([Answer::Hang]);
    let mut other = world.carts();
    let other = tokio::spawn(async move { other.add_item(unary(item(b"x"))).await });
    world.script.saw(1).await;
    let request = http::Request::builder()
        .method("POST")
        .uri("/carts.v1.CartService/AddItems")
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::new(Empties(0)))
        .expect("a request");
    let mut client = world.client.clone();
    client.call(request).await.map(drop).expect("served");
    settle().await;
    assert!(!other.is_finished(), "the other call is well");
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_does_not_keep_a_closed_client() {
    let (host, mut connections) = PipeHost::new();
    let settings = Settings { ..settings() };
    let (client, driver) = driven(
        host,
        settings,
        ConnectionSettings::default(),
        Http2Settings::default(),
        |_| {},
    );
    let driver = tokio::spawn(driver);
    let mut carts = CartServiceClient::new(client);
    let upload = tokio::spawn(async move {
        let mut request = unary(item(&[1; 200_000]));
        request.set_timeout(SECOND);
        carts.add_item(request).await
    });
    // Windows for all of it, and then never a read.
    let mut peer = connections.recv().await.expect("dialed");
    let window = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0x7f, 0, 0, 0];
    peer.write_all(&window).await.expect("written");
    let update = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x70, 0, 0, 0];
    peer.write_all(&update).await.expect("written");
    upload.await.expect("no panic").expect_err("expired");
    let ended = tokio::time::timeout(60 * SECOND, driver).await;
    assert!(ended.is_ok(), "the driver is still there after a minute");
}

#[tokio::test(start_paused = true)]
async fn an_interceptor_takes_the_client() {
    let peer = Peer::new(settings(), |_, headers, to| {
        assert_eq!(headers.get("authorization").expect("intercepted"), "token");
        answer_ok(to);
    });
    let authorize = |mut request: tonic::Request<()>| {
        let token = "token".parse().expect("a value");
        request.metadata_mut().insert("authorization", token);
        Ok(request)
    };
    let mut carts = CartServiceClient::with_interceptor(peer.client, authorize);
    carts.add_item(unary(item(b"x"))).await.expect("answered");
}

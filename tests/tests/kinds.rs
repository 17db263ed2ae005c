//! Unary or stream: told by the descriptors of the services, or by the request.

use std::time::Duration;

use http::HeaderMap;
use steadfast_tests::{Answer, DESCRIPTORS, Peer, World, item, peer, settle};
use steadfast_tokio::{CallKind, MethodTable, Settings};
use tokio::time::Instant;
use tonic::Code;

use steadfast_tests::carts::ListItemsRequest;
use steadfast_tests::carts::cart_service_client::CartServiceClient;

const SECOND: Duration = Duration::from_secs(1);

fn described() -> Settings {
    Settings {
        timeout: 10 * SECOND,
        methods: MethodTable::from_descriptor_set(DESCRIPTORS).expect("descriptors"),
        ..Settings::default()
    }
}

#[test]
fn the_test_services_descriptors_are_understood() {
    let methods = described().methods;
    for (name, kind) in [
        ("AddItem", CallKind::Unary),
        ("ListItems", CallKind::Streaming),
        ("AddItems", CallKind::Streaming),
        ("Chat", CallKind::Streaming),
    ] {
        let path = format!("/carts.v1.CartService/{name}");
        assert_eq!(methods.kind(&path), Some(kind), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_described_unary_call_tells_the_server_its_timeout() {
    let world = World::new(described());
    world.carts().add_item(item(b"x")).await.expect("OK");
    assert_eq!(world.script.seen()[0].timeout(), Some(10 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_described_unary_call_that_fails_after_its_headers_is_retried() {
    let peer = Peer::new(described(), |number, _, mut to| {
        if number > 0 {
            return peer::answer_ok(to);
        }
        let head = http::Response::builder().header("content-type", "application/grpc");
        let mut stream = to
            .send_response(head.body(()).expect("a head"), false)
            .expect("sent");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "14".parse().expect("a value"));
        stream.send_trailers(trailers).expect("sent");
    });
    let mut carts = CartServiceClient::new(peer.client);
    carts.add_item(item(b"x")).await.expect("the second is OK");
}

#[tokio::test(start_paused = true)]
async fn a_described_stream_is_not_ended_by_the_timeout() {
    let world = World::new(described());
    world.script.otherwise(Answer::Hang);
    let mut carts = world.carts();
    let call = tokio::spawn(async move { carts.list_items(ListItemsRequest { count: 1 }).await });
    world.script.saw(1).await;
    tokio::time::sleep(100 * SECOND).await;
    settle().await;
    assert!(!call.is_finished());
    assert_eq!(world.script.seen()[0].timeout(), None);
}

#[tokio::test(start_paused = true)]
async fn what_the_request_says_counts_before_the_descriptors() {
    let world = World::new(described());
    world.script.otherwise(Answer::Hang);
    let mut carts = world.carts();
    let began = Instant::now();
    let request = CallKind::Unary.mark(ListItemsRequest { count: 1 });
    let status = carts.list_items(request).await.expect_err("ended");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(began.elapsed(), 10 * SECOND);
}

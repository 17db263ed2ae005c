//! Requests whose body is the caller's code: streams, failures, panics, and headers that
//! HTTP/2 does not allow.

use std::pin::Pin;
use std::task::{Context, Poll};

use steadfast_tests::carts::{AddItemRequest, Item, ListItemsRequest};
use steadfast_tests::{Answer, World, item, unary, unavailable};
use steadfast_tokio::{BreakerState, CallReport, End, Settings};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

#[tokio::test(start_paused = true)]
async fn all_four_kinds_go_through() {
    let world = World::new(Settings::default());
    let mut carts = world.carts();
    let answer = carts.add_item(unary(item(b"milk"))).await.expect("unary");
    assert_eq!(answer.into_inner().item, b"milk");

    let request = ListItemsRequest { count: 1_000 };
    let mut items = carts
        .list_items(request)
        .await
        .expect("opened")
        .into_inner();
    for n in 0..1_000_u32 {
        let next = items
            .message()
            .await
            .expect("an item")
            .expect("not the end");
        assert_eq!(next.item, n.to_be_bytes());
    }
    assert!(items.message().await.expect("a clean end").is_none());

    // More than any window, so that flow control has to let it through.
    let items = (0..300_u32).map(|n| item(&[n as u8; 10_000]));
    let answer = carts
        .add_items(tokio_stream::iter(items))
        .await
        .expect("a client stream");
    assert_eq!(answer.into_inner().items, 300);

    let (sender, receiver) = mpsc::channel(1);
    let mut echo = carts
        .chat(ReceiverStream::new(receiver))
        .await
        .expect("opened")
        .into_inner();
    for n in 0..100 {
        let item = Item {
            item: vec![n; 5_000],
        };
        sender.send(item.clone()).await.expect("taken");
        assert_eq!(echo.message().await.expect("an item"), Some(item));
    }
    drop(sender);
    assert!(echo.message().await.expect("a clean end").is_none());
    let (state, counts) = world.client.breaker();
    assert_eq!(
        (state, counts.successes, counts.failures),
        (BreakerState::Closed, 4, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_made_the_client_wait_is_not_sent_again() {
    let world = World::new(Settings::default());
    world.script.then([unavailable(None)]);
    let (sender, receiver) = mpsc::channel::<AddItemRequest>(1);
    let status = world
        .carts()
        .add_items(ReceiverStream::new(receiver))
        .await
        .expect_err("down");
    assert_eq!(
        CallReport::of(&status).expect("a report").end(),
        &End::Committed
    );
    assert_eq!(world.script.attempts(), 1);
    drop(sender);
}

/// One item, then what a bug does.
struct Buggy(bool);

impl Stream for Buggy {
    type Item = AddItemRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AddItemRequest>> {
        assert!(!self.0, "a bug in the body");
        self.0 = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_body_reaches_its_caller_and_nobody_else() {
    let world = World::new(Settings::default());
    world.script.then([Answer::Hang]);
    let mut other = world.carts();
    let other = tokio::spawn(async move { other.add_item(unary(item(b"x"))).await });
    world.script.saw(1).await;

    let mut carts = world.carts();
    let buggy = tokio::spawn(async move { carts.add_items(Buggy(false)).await });
    let panic = buggy.await.expect_err("it panicked").into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"a bug in the body"));

    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("the connection is well");
    assert!(!other.is_finished(), "and so are its other streams");
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn headers_that_http2_forbids_are_the_callers_mistake() {
    let world = World::new(Settings::default());
    world.carts().add_item(unary(item(b"x"))).await.expect("up");
    for (name, value) in [("connection", "close"), ("transfer-encoding", "chunked")] {
        let mut request = unary(item(b"x"));
        request
            .metadata_mut()
            .insert(name, value.parse().expect("a value"));
        let status = world
            .carts()
            .add_item(request)
            .await
            .expect_err("forbidden");
        assert_eq!(status.code(), Code::Internal, "{status:?}");
        assert!(
            status.message().contains("can't be sent over HTTP/2"),
            "{}",
            status.message()
        );
        assert_eq!(
            CallReport::of(&status).expect("a report").attempts().len(),
            1
        );
    }
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("still up");
    let counts = world.client.breaker().1;
    assert_eq!(
        (counts.successes, counts.failures),
        (2, 0),
        "not the server's fault"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_ends_its_call_and_tells_the_breaker_nothing() {
    let world = World::new(Settings::default());
    world.script.otherwise(Answer::Hang);
    for n in 1..=6 {
        let (sender, receiver) = mpsc::channel::<AddItemRequest>(1);
        let mut request = tonic::Request::new(ReceiverStream::new(receiver));
        let cancel = request.cancellation_handle();
        let mut carts = world.carts();
        let call = tokio::spawn(async move { carts.add_items(request).await });
        sender.send(item(b"x")).await.expect("taken");
        world.script.saw(n).await;
        cancel.cancel();
        let status = call.await.expect("no panic").expect_err("cancelled");
        assert_eq!(status.code(), Code::Cancelled);
        assert_eq!(
            CallReport::of(&status).expect("a report").end(),
            &End::Stopped
        );
    }
    assert_eq!(world.client.breaker().1.results(), 0);
}

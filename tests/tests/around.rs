//! A client around a tower service that there already is.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadfast_tests::carts::ListItemsRequest;
use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::{Answer, HeldClock, Script, Server, item, nobody, unary, unavailable};
use steadfast_tokio::{
    BreakerState, CallKind, CallReport, Classifier, NeverOpen, Progress, Settings, around, builder,
};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tower_service::Service;

const SECOND: Duration = Duration::from_secs(1);

fn settings() -> Settings {
    Settings {
        addr: "carts.test:1".to_owned(),
        ..Settings::default()
    }
}

/// A router in the same process.
fn routes(script: &Script) -> Routes {
    Routes::new(script.service())
}

#[tokio::test(start_paused = true)]
async fn calls_of_an_in_process_router_are_retried() {
    let script = Script::new();
    script.then([unavailable(None), unavailable(Some("2000"))]);
    let client = around(routes(&script), settings()).expect("valid");
    let began = Instant::now();
    let answer = CartServiceClient::new(client.clone())
        .add_item(unary(item(b"milk")))
        .await
        .expect("the third is OK");
    assert_eq!(answer.into_inner().item, b"milk");
    assert!(began.elapsed() >= 2 * SECOND);
    assert_eq!(script.attempts(), 3);
    let previous = |n: usize| {
        let seen = script.seen();
        seen[n]
            .header("grpc-previous-rpc-attempts")
            .map(str::to_owned)
    };
    assert_eq!((previous(0), previous(2)), (None, Some("2".to_owned())));
    assert_eq!(client.budget_millitokens(), 8_100);
}

#[tokio::test(start_paused = true)]
async fn streams_pass_through_and_their_end_is_judged() {
    let script = Script::new();
    let client = around(routes(&script), settings()).expect("valid");
    let mut carts = CartServiceClient::new(client.clone());
    let request = CallKind::Streaming.mark(ListItemsRequest { count: 100 });
    let mut items = carts
        .list_items(request)
        .await
        .expect("opened")
        .into_inner();
    let mut count = 0;
    while items.message().await.expect("an item").is_some() {
        count += 1;
    }
    assert_eq!(count, 100);
    drop(items);
    assert_eq!(client.breaker().1.successes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_service_ends_with_the_timeout_and_is_dropped() {
    let script = Script::new();
    script.otherwise(Answer::Hang);
    let client = around(routes(&script), settings()).expect("valid");
    let began = Instant::now();
    let result = CartServiceClient::new(client)
        .add_item(unary(item(b"x")))
        .await;
    assert_eq!(result.expect_err("hangs").code(), Code::DeadlineExceeded);
    assert_eq!(began.elapsed(), 10 * SECOND);
    script.left(1).await;
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_and_is_heard() {
    let script = Script::new();
    script.otherwise(unavailable(None));
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let client = builder(Settings {
        max_attempts: 1,
        ..settings()
    })
    .seed(7)
    .on_transition(move |transition| hears.lock().expect("no panic").push(transition.to))
    .around(routes(&script))
    .expect("valid");
    for _ in 0..6 {
        let mut carts = CartServiceClient::new(client.clone());
        carts.add_item(unary(item(b"x"))).await.expect_err("fails");
    }
    assert_eq!(script.attempts(), 5, "the sixth is not sent");
    assert_eq!(*heard.lock().expect("no panic"), [BreakerState::Open]);
}

#[tokio::test(start_paused = true)]
async fn a_tonic_channel_is_called_with_retries() {
    let clock = HeldClock::new();
    let script = Script::new();
    let server = Server::start(&script);
    script.then([unavailable(Some("2000"))]);
    let target = format!("http://{}", server.address());
    let channel = Endpoint::from_shared(target).expect("a URI").connect_lazy();
    let (judged, mut results) = tokio::sync::mpsc::unbounded_channel();
    let client = around(
        channel,
        Settings {
            classify: Classifier::new(move |outcome| {
                judged.send(outcome.code).expect("the test listens");
                outcome.default_classification()
            }),
            ..settings()
        },
    );
    let mut carts = CartServiceClient::new(client.expect("valid"));
    let call = tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await });
    assert_eq!(results.recv().await, Some(Code::Unavailable));
    clock.advance(Duration::from_millis(2_001)).await;
    assert_eq!(results.recv().await, Some(Code::Ok));
    call.await.expect("no panic").expect("retried");
    assert_eq!(script.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_can_not_connect_has_sent_nothing() {
    let _clock = HeldClock::new();
    let target = format!("http://{}", nobody());
    let channel = Endpoint::from_shared(target).expect("a URI").connect_lazy();
    let client = around(
        channel,
        Settings {
            max_attempts: 1,
            ..settings()
        },
    );
    let mut carts = CartServiceClient::new(client.expect("valid"));
    let status = carts.add_item(unary(item(b"x"))).await;
    let status = status.expect_err("nobody there");
    assert_eq!(status.code(), Code::Unavailable);
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts()[0].progress, Progress::NotSent);
}

/// Never ready, or not well.
#[derive(Clone)]
struct Unready {
    error: Option<Status>,
}

impl Service<http::Request<Body>> for Unready {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = std::future::Pending<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match self.error.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        panic!("called before it was ready");
    }
}

async fn unready(error: Option<Status>) -> (Status, Progress) {
    let settings = Settings {
        max_attempts: 1,
        breaker_policy: Arc::new(NeverOpen),
        ..settings()
    };
    let client = around(Unready { error }, settings).expect("valid");
    let status = CartServiceClient::new(client)
        .add_item(unary(item(b"x")))
        .await
        .expect_err("never ready");
    let progress = CallReport::of(&status).expect("a report").attempts()[0].progress;
    (status, progress)
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_ready_has_sent_nothing() {
    let (status, progress) = unready(None).await;
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(progress, Progress::NotSent);
    let (status, progress) = unready(Some(Status::resource_exhausted("shed"))).await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "shed");
    assert_eq!(progress, Progress::NotSent);
}

/// A client must be `Send` and `Sync` around a service that isn't `Sync`.
#[test]
fn a_service_need_not_be_sync() {
    #[derive(Clone)]
    struct NotSync(#[allow(dead_code)] std::cell::Cell<u32>);
    impl Service<http::Request<Body>> for NotSync {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            std::future::ready(Ok(http::Response::new(Body::empty())))
        }
    }
    fn is_shared<T: Send + Sync>(_: &T) {}
    is_shared(&around(NotSync(std::cell::Cell::new(0)), settings()).expect("valid"));
}

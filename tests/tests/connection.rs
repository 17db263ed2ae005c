//! The connection over real sockets: nobody there, killed, restarted, shared, and left.

use std::time::Duration;

use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::{Answer, HeldClock, Script, Server, item, nobody, unary, unavailable};
use steadfast_tokio::{
    CallReport, Classifier, ConnectError, ConnectErrorKind, NeverOpen, Progress, Settings,
    TokioClient, connect,
};
use tonic::{Code, Status};

/// A client that tries once, and whose breaker stays out of it.
fn client(address: impl ToString) -> TokioClient {
    let settings = Settings {
        addr: address.to_string(),
        max_attempts: 1,
        breaker_policy: std::sync::Arc::new(NeverOpen),
        ..Settings::default()
    };
    connect(settings).expect("valid settings")
}

/// A client can be shared in every way that a service shares its state.
#[tokio::test]
async fn a_client_is_clone_send_and_sync() {
    fn share<T: Clone + Send + Sync + 'static>(_: &T) {}
    let client = client("localhost:1");
    share(&client);
    share(&CartServiceClient::new(client.clone()));
    assert_eq!(client.clone().address(), client.address());
}

fn connect_error(status: &Status) -> &ConnectError {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return found;
        }
        source = error.source();
    }
    panic!("no ConnectError behind {status:?}");
}

#[tokio::test]
async fn an_address_nothing_listens_on_is_unavailable_with_the_reason() {
    let address = nobody();
    let mut carts = CartServiceClient::new(client(address));
    let status = carts
        .add_item(unary(item(b"x")))
        .await
        .expect_err("nobody there");
    assert_eq!(status.code(), Code::Unavailable);
    let text = status.message();
    assert!(
        text.starts_with(&format!("can't connect to {address}: ")),
        "{text}"
    );
    assert!(text.contains("refused"), "{text}");
    assert_eq!(connect_error(&status).kind(), ConnectErrorKind::Connect);
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts()[0].progress, Progress::NotSent);
    let io = std::iter::successors(std::error::Error::source(&status), |error| error.source())
        .find_map(|error| error.downcast_ref::<std::io::Error>())
        .expect("the io error is in the chain");
    assert_eq!(io.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn building_dials_nothing_and_the_first_call_does() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("non-blocking");
    let address = listener.local_addr().expect("bound");
    let client = client(address);
    tokio::task::yield_now().await;
    assert!(listener.accept().is_err(), "nothing was dialed");
    drop(listener);
    let script = Script::new();
    let _server = Server::start_at(address, &script);
    CartServiceClient::new(client)
        .add_item(unary(item(b"x")))
        .await
        .expect("dialed by the call");
}

#[tokio::test(start_paused = true)]
async fn a_server_killed_and_restarted_is_called_again_by_the_same_client() {
    let clock = HeldClock::new();
    let script = Script::new();
    let server = Server::start(&script);
    let address = server.address();
    let mut carts = CartServiceClient::new(client(address));
    carts.add_item(unary(item(b"1"))).await.expect("up");

    script.then([Answer::Hang]);
    let mut hanging = carts.clone();
    let hanging = tokio::spawn(async move { hanging.add_item(unary(item(b"2"))).await });
    script.saw(2).await;
    drop(server);
    let status = hanging
        .await
        .expect("no panic")
        .expect_err("killed under way");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts()[0].progress, Progress::MaybeProcessed);
    let status = carts.add_item(unary(item(b"3"))).await.expect_err("down");
    assert_eq!(connect_error(&status).kind(), ConnectErrorKind::Connect);

    // The connection backoff is a second, at most a fifth longer; until then calls fail.
    let _server = Server::start_at(address, &script);
    clock.advance(Duration::from_millis(790)).await;
    let status = carts
        .add_item(unary(item(b"4")))
        .await
        .expect_err("still backing off");
    assert_eq!(connect_error(&status).kind(), ConnectErrorKind::Connect);
    clock.advance(Duration::from_millis(410)).await;
    carts.add_item(unary(item(b"5"))).await.expect("back");
}

#[tokio::test]
async fn a_dropped_call_resets_its_stream_and_leaves_the_others() {
    let script = Script::new();
    let server = Server::start(&script);
    let mut carts = CartServiceClient::new(client(server.address()));
    script.then([Answer::Hang]);
    let mut dropped = carts.clone();
    let dropped = tokio::spawn(async move { dropped.add_item(unary(item(b"x"))).await });
    script.saw(1).await;
    dropped.abort();
    script.left(1).await;
    carts
        .add_item(unary(item(b"x")))
        .await
        .expect("on the same connection");
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("bound");
    let connections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&connections);
    let script = Script::new();
    let incoming = tokio_stream::StreamExt::map(
        tokio_stream::wrappers::TcpListenerStream::new(listener),
        move |stream| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            stream
        },
    );
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(script.service())
            .serve_with_incoming(incoming),
    );
    let carts = CartServiceClient::new(client(address));
    let calls: Vec<_> = (0..500_u32)
        .map(|n| {
            let mut carts = carts.clone();
            tokio::spawn(async move {
                let bytes = n.to_be_bytes().repeat(100);
                let answer = carts.add_item(unary(item(&bytes))).await.expect("OK");
                assert_eq!(answer.into_inner().item, bytes, "each gets its own answer");
            })
        })
        .collect();
    for call in calls {
        call.await.expect("no panic");
    }
    assert_eq!(connections.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(script.attempts(), 500);
}

#[tokio::test]
async fn the_last_clone_closes_the_connection() {
    use tokio::io::AsyncReadExt as _;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let client = client(listener.local_addr().expect("bound"));
    let mut carts = CartServiceClient::new(client.clone());
    let call = tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await });
    let (mut socket, _) = listener.accept().await.expect("dialed");
    let mut preface = [0; 24];
    socket.read_exact(&mut preface).await.expect("a preface");
    assert!(preface.starts_with(b"PRI * HTTP/2.0"));
    call.abort();
    drop(client);
    let mut rest = Vec::new();
    // Long before the connection attempt itself would be given up.
    let end = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut rest));
    end.await.expect("at once").expect("a clean end");
}

#[tokio::test(start_paused = true)]
async fn a_pushback_over_sockets_is_waited_for_in_paused_time() {
    let clock = HeldClock::new();
    let script = Script::new();
    let server = Server::start(&script);
    script.then([unavailable(Some("2000"))]);
    let (judged, mut results) = tokio::sync::mpsc::unbounded_channel();
    let settings = Settings {
        addr: server.address().to_string(),
        classify: Classifier::new(move |outcome| {
            judged.send(outcome.code).expect("the test listens");
            outcome.default_classification()
        }),
        ..Settings::default()
    };
    let mut carts = CartServiceClient::new(connect(settings).expect("valid settings"));
    let call = tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await });
    assert_eq!(results.recv().await, Some(Code::Unavailable));
    clock.advance(Duration::from_millis(1_999)).await;
    assert_eq!(script.attempts(), 1);
    clock.advance(Duration::from_millis(2)).await;
    assert_eq!(results.recv().await, Some(Code::Ok));
    call.await.expect("no panic").expect("retried");
    assert_eq!(script.attempts(), 2);
}

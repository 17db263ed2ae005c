//! The life of the connection in paused time: dead peers, backoff, GOAWAY, idleness.

use std::sync::Arc;
use std::time::Duration;

use steadfast_tests::carts::ListItemsRequest;
use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::peer::answer_ok;
use steadfast_tests::{PipeHost, Raw, driven, item, piped, raw, unary};
use steadfast_tokio::{
    Address, BreakerState, CallKind, CallReport, ConnectError, ConnectErrorKind,
    ConnectionSettings, DialError, Host, Http2Settings, NeverOpen, Progress, Settings, TokioClient,
};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance};
use tonic::{Code, Status};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(1);

fn settings() -> Settings {
    Settings {
        max_attempts: 1,
        breaker_policy: Arc::new(NeverOpen),
        ..Settings::default()
    }
}

fn client() -> (TokioClient, UnboundedReceiver<DuplexStream>) {
    let (host, connections) = PipeHost::new();
    (piped(host, settings(), |_| {}), connections)
}

type Call = JoinHandle<Result<(), Status>>;

fn call(client: &TokioClient) -> Call {
    let mut carts = CartServiceClient::new(client.clone());
    tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await.map(drop) })
}

/// Lets every task run until it waits.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Answers every request on this connection with OK. Aborted, it drops the connection.
fn serve(stream: DuplexStream) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        while let Some(Ok((_request, respond))) = connection.accept().await {
            answer_ok(respond);
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_dialed_again_at_once() {
    let (client, mut connections) = client();
    for _ in 0..20 {
        let call = call(&client);
        let server = serve(connections.recv().await.expect("dialed"));
        call.await.expect("no panic").expect("served");
        server.abort();
        settle().await;
    }
    assert_eq!(client.breaker().1.failures, 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_closes_before_its_settings_is_backed_off_from() {
    let (client, mut connections) = client();
    let mut dialed = Vec::new();
    let mut failures = 0;
    let start = Instant::now();
    while start.elapsed() < 60 * SECOND {
        let call = call(&client);
        settle().await;
        if let Ok(stream) = connections.try_recv() {
            dialed.push(Instant::now());
            drop(stream);
        }
        let status = call.await.expect("no panic").expect_err("nobody serves");
        assert_eq!(status.code(), Code::Unavailable);
        assert!(
            status
                .message()
                .starts_with("can't connect to carts.test:1: "),
            "{}",
            status.message()
        );
        failures += 1;
        advance(100 * TICK).await;
    }
    // 1 s, x1.6, each up to a fifth more or less: 1, 1.6, 2.6, 4.1, 6.6, 10.5, 16.8, ...
    let gaps: Vec<_> = dialed.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut backoff = SECOND;
    for gap in &gaps {
        let slack = 100 * TICK + TICK;
        assert!(
            *gap >= backoff * 4 / 5 && *gap <= backoff * 6 / 5 + slack,
            "{gaps:?}"
        );
        backoff = backoff * 8 / 5;
    }
    assert!(gaps.len() >= 5, "{gaps:?}");
    assert!(failures > 500, "calls fail at once meanwhile: {failures}");
}

#[tokio::test(start_paused = true)]
async fn one_refused_connection_told_to_many_calls_is_one_failure() {
    let (host, connections) = PipeHost::new();
    drop(connections);
    let client = piped(
        host,
        Settings {
            max_attempts: 1,
            ..Settings::default()
        },
        |_| {},
    );
    let waiting: Vec<_> = (0..50).map(|_| call(&client)).collect();
    let later = (0..50).map(|_| call(&client));
    for call in waiting.into_iter().chain(later) {
        let status = call.await.expect("no panic").expect_err("nobody serves");
        assert_eq!(status.code(), Code::Unavailable);
        let report = CallReport::of(&status).expect("a report");
        assert_eq!(report.attempts()[0].progress, Progress::NotSent);
    }
    // The first dialed; the others waited with it, or were told what it had found out.
    let (state, counts) = client.breaker();
    assert_eq!((state, counts.failures), (BreakerState::Closed, 1));
}

#[tokio::test(start_paused = true)]
async fn settings_served_start_the_backoff_anew() {
    let (client, mut connections) = client();
    for _ in 0..4 {
        let failing = call(&client);
        drop(connections.recv().await.expect("dialed"));
        failing.await.expect("no panic").expect_err("nobody serves");
        advance(10 * SECOND).await;
    }
    let served = call(&client);
    let server = serve(connections.recv().await.expect("dialed"));
    served.await.expect("no panic").expect("served");
    server.abort();
    settle().await;
    let failing = call(&client);
    drop(connections.recv().await.expect("dialed at once"));
    failing.await.expect("no panic").expect_err("nobody serves");
    advance(1_200 * TICK).await;
    let served = call(&client);
    serve(connections.recv().await.expect("after the first backoff"));
    served.await.expect("no panic").expect("served");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_given_up_in_time() {
    let (client, mut connections) = client();
    let start = Instant::now();
    let waiting = call(&client);
    let _silent = connections.recv().await.expect("dialed");
    let status = waiting.await.expect("no panic").expect_err("nothing came");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(start.elapsed(), 10 * SECOND, "its own deadline");
    assert_eq!(
        status.message(),
        "the deadline passed after 1 attempt, the last not sent yet"
    );
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts()[0].progress, Progress::NotSent);

    let mut carts = CartServiceClient::new(client.clone());
    let mut request = tonic::Request::new(ListItemsRequest::default());
    request.extensions_mut().insert(CallKind::Streaming);
    let patient = tokio::spawn(async move { carts.list_items(request).await.map(drop) });
    let status = patient.await.expect("no panic").expect_err("nothing came");
    assert_eq!(
        start.elapsed(),
        20 * SECOND,
        "the attempt went on meanwhile, and ends in time"
    );
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(
        status.message(),
        "can't connect to carts.test:1: no answer within 20s"
    );
    assert!(connections.try_recv().is_err(), "one attempt for both");
}

#[tokio::test(start_paused = true)]
async fn a_graceful_goaway_moves_new_calls_and_finishes_the_old() {
    let (client, mut connections) = client();
    let old = call(&client);
    let stream = connections.recv().await.expect("dialed");
    let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
    let (_request, respond) = connection
        .accept()
        .await
        .expect("a call")
        .expect("a request");
    connection.graceful_shutdown();
    let first = tokio::spawn(async move { while connection.accept().await.is_some() {} });
    settle().await;
    for _ in 0..3 {
        let new = call(&client);
        settle().await;
        if let Ok(stream) = connections.try_recv() {
            serve(stream);
        }
        new.await.expect("no panic").expect("on the new connection");
    }
    assert!(!old.is_finished());
    answer_ok(respond);
    old.await.expect("no panic").expect("on the old connection");
    first.await.expect("the old connection ends");
}

#[tokio::test(start_paused = true)]
async fn calls_above_a_goaways_last_stream_go_again_and_those_below_finish() {
    let (client, mut connections) = client();
    let calls: Vec<_> = (0..3).map(|_| call(&client)).collect();
    let mut old = Raw::accept(connections.recv().await.expect("dialed")).await;
    for stream in [1, 3, 5] {
        assert_eq!(old.next_of(raw::HEADERS).await.stream, stream);
    }
    old.goaway(3, 0, b"").await;
    let mut new = Raw::accept(connections.recv().await.expect("dialed anew")).await;
    assert_eq!(
        new.next_of(raw::HEADERS).await.stream,
        1,
        "the third goes again"
    );
    new.answer(1).await;
    old.answer(1).await;
    old.answer(3).await;
    for call in calls {
        call.await.expect("no panic").expect("no visible error");
    }
    assert_eq!(client.breaker().1.successes, 3);
    assert_eq!(client.budget_millitokens(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_call_below_a_goaways_last_stream_that_is_cut_may_have_been_processed() {
    let (client, mut connections) = client();
    let call = call(&client);
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    peer.next_of(raw::HEADERS).await;
    peer.goaway(1, 0, b"max_age").await;
    drop(peer);
    let status = call.await.expect("no panic").expect_err("cut");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts()[0].progress, Progress::MaybeProcessed);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_half_an_hour_and_dialed_again() {
    let (client, mut connections) = client();
    let half_hour = 30 * 60 * SECOND;
    let first = call(&client);
    let server = serve(connections.recv().await.expect("dialed"));
    first.await.expect("no panic").expect("served");
    advance(half_hour - TICK).await;
    settle().await;
    assert!(!server.is_finished());
    call(&client)
        .await
        .expect("no panic")
        .expect("on the same connection");
    advance(half_hour - TICK).await;
    settle().await;
    assert!(!server.is_finished(), "the last call started it anew");
    advance(2 * TICK).await;
    settle().await;
    assert!(server.is_finished(), "closed");
    let next = call(&client);
    serve(connections.recv().await.expect("dialed again"));
    next.await.expect("no panic").expect("served");
}

#[tokio::test(start_paused = true)]
async fn without_its_driver_a_call_fails_at_once() {
    let (host, _connections) = PipeHost::new();
    let settings = Settings { ..settings() };
    let (client, driver) = driven(
        host,
        settings,
        ConnectionSettings::default(),
        Http2Settings::default(),
        |_| {},
    );
    let waiting = call(&client);
    settle().await;
    drop(driver);
    for call in [waiting, call(&client)] {
        let status = call.await.expect("no panic").expect_err("no driver");
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(
            status.message(),
            "the driver of the connection to carts.test:1 is gone: its executor has ended, or it \
             panicked"
        );
    }
}

/// A host whose resolver knows no name.
struct NoNames;

impl Host for NoNames {
    type Stream = DuplexStream;

    fn dial(
        &self,
        _: &Address,
    ) -> impl Future<Output = Result<DuplexStream, DialError>> + Send + 'static {
        let unknown = std::io::Error::new(std::io::ErrorKind::NotFound, "no such host");
        std::future::ready(Err(DialError::Resolve(unknown)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_does_not_resolve_says_so() {
    let settings = Settings {
        addr: "no-such-host.test:1".to_owned(),
        ..settings()
    };
    let client = piped(NoNames, settings, |_| {});
    let status = call(&client)
        .await
        .expect("no panic")
        .expect_err("no such name");
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(
        status.message(),
        "can't connect to no-such-host.test:1: the name can't be resolved: no such host"
    );
    let kind = std::iter::successors(std::error::Error::source(&status), |error| error.source())
        .find_map(|error| error.downcast_ref::<ConnectError>())
        .map(ConnectError::kind);
    assert_eq!(kind, Some(ConnectErrorKind::Resolve));
}

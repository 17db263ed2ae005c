//! Calls that wait for a connection through failures, and a connection that is tried now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::wire::Call;
use steadfast_tests::{PipeHost, Raw, item, piped, raw, settle, unary};
use steadfast_tokio::{
    Address, CallReport, ConnectError, ConnectErrorKind, DialError, Host, NeverOpen, Progress,
    Settings, TokioClient, WaitForReady,
};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);

/// Refuses while it is down, and counts.
#[derive(Clone)]
struct Flaky {
    host: PipeHost,
    up: Arc<AtomicBool>,
    dials: Arc<AtomicUsize>,
}

impl Host for Flaky {
    type Stream = DuplexStream;

    fn dial(
        &self,
        address: &Address,
    ) -> impl Future<Output = Result<DuplexStream, DialError>> + Send + 'static {
        self.dials.fetch_add(1, Ordering::SeqCst);
        let up = self.up.load(Ordering::SeqCst);
        let pipe = up.then(|| self.host.dial(address));
        async move {
            match pipe {
                Some(pipe) => pipe.await,
                None => Err(DialError::Connect(
                    std::io::ErrorKind::ConnectionRefused.into(),
                )),
            }
        }
    }
}

struct Down {
    client: TokioClient,
    connections: UnboundedReceiver<DuplexStream>,
    host: Flaky,
}

impl Down {
    fn new() -> Self {
        let (host, connections) = PipeHost::new();
        let host = Flaky {
            host,
            up: Arc::default(),
            dials: Arc::default(),
        };
        let settings = Settings {
            max_attempts: 1,
            timeout: 600 * SECOND,
            breaker_policy: Arc::new(NeverOpen),
            ..Settings::default()
        };
        Self {
            client: piped(host.clone(), settings, |_| {}),
            connections,
            host,
        }
    }

    fn come_up(&self) {
        self.host.up.store(true, Ordering::SeqCst);
    }

    fn dials(&self) -> usize {
        self.host.dials.load(Ordering::SeqCst)
    }

    fn call(&self, ready: Option<WaitForReady>) -> Call {
        let mut carts = CartServiceClient::new(self.client.clone());
        let mut request = unary(item(b"x"));
        request.set_timeout(60 * SECOND);
        if let Some(ready) = ready {
            request.extensions_mut().insert(ready);
        }
        tokio::spawn(async move { Ok(carts.add_item(request).await?.into_inner()) })
    }

    async fn answer(&mut self) {
        let dialed = tokio::time::timeout(1_000 * SECOND, self.connections.recv()).await;
        let dialed = dialed.expect("in time").expect("the client lives");
        let mut peer = Raw::accept(dialed).await;
        let stream = peer.next_of(raw::HEADERS).await.stream;
        peer.answer(stream).await;
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_ready_outlasts_failures_to_connect() {
    let mut down = Down::new();
    let began = Instant::now();
    let waiting = down.call(Some(WaitForReady));
    let status = down.call(None).await.expect("no panic");
    assert_eq!(status.expect_err("down").code(), Code::Unavailable);
    tokio::time::sleep(10 * SECOND).await;
    assert!(!waiting.is_finished());
    assert!(down.dials() > 2, "the backoff goes on: {}", down.dials());
    down.come_up();
    down.answer().await;
    waiting.await.expect("no panic").expect("answered");
    assert!(began.elapsed() < 60 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_deadline_and_says_what_it_waited_for() {
    let down = Down::new();
    let began = Instant::now();
    let result = down.call(Some(WaitForReady)).await.expect("no panic");
    let status = result.expect_err("down");
    assert_eq!(began.elapsed(), 60 * SECOND);
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(
        status
            .message()
            .contains("can't connect to carts.test:1: connection refused"),
        "{status:?}"
    );
    let connect = std::iter::successors(std::error::Error::source(&status), |error| error.source())
        .find_map(|error| error.downcast_ref::<ConnectError>())
        .expect("the last failure is in the chain");
    assert_eq!(connect.kind(), ConnectErrorKind::Connect);
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts().len(), 1, "{report}");
    assert_eq!(report.attempts()[0].progress, Progress::NotSent);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_during_a_backoff_waits_it_out() {
    let mut down = Down::new();
    down.call(None).await.expect("no panic").expect_err("down");
    down.come_up();
    let began = Instant::now();
    let waiting = down.call(Some(WaitForReady));
    let refused = down.call(None).await.expect("no panic");
    refused.expect_err("does not wait");
    down.answer().await;
    waiting.await.expect("no panic").expect("answered");
    let waited = began.elapsed();
    assert!(
        (SECOND * 8 / 10..=SECOND * 12 / 10).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_tried_now_when_somebody_asks() {
    let mut down = Down::new();
    // The backoff has grown to minutes.
    let waiting = down.call(Some(WaitForReady));
    waiting.await.expect("no panic").expect_err("down");
    down.come_up();
    let dials = down.dials();
    settle().await;
    assert_eq!(down.dials(), dials);

    let began = Instant::now();
    down.client.transport().connect_now();
    settle().await;
    assert_eq!(down.dials(), dials + 1);
    let call = down.call(None);
    down.answer().await;
    call.await.expect("no panic").expect("answered");
    assert_eq!(began.elapsed(), Duration::ZERO);

    // With a connection up there is nothing to do.
    down.client.transport().connect_now();
    settle().await;
    assert_eq!(down.dials(), dials + 1);
}

#[tokio::test(start_paused = true)]
async fn an_unused_client_connects_before_the_first_call_when_asked() {
    let mut down = Down::new();
    down.come_up();
    settle().await;
    assert_eq!(down.dials(), 0);
    down.client.transport().connect_now();
    let _peer = Raw::accept(down.connections.recv().await.expect("dialed")).await;
    assert_eq!(down.dials(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_an_attempt_that_was_asked_for_the_backoff_begins_anew() {
    let down = Down::new();
    let waiting = down.call(Some(WaitForReady));
    waiting.await.expect("no panic").expect_err("down");
    down.client.transport().connect_now();
    settle().await;
    let dials = down.dials();
    let _waiting = down.call(Some(WaitForReady));
    tokio::time::sleep(SECOND * 12 / 10).await;
    settle().await;
    assert_eq!(down.dials(), dials + 1, "a second or so later");
}

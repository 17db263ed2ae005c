//! Requests that never left: their connection died under them, so they go again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::{PipeHost, Script, item, piped, unary};
use steadfast_tokio::{Address, DialError, Host, Settings, TokioClient};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Code;

/// A host of pipes, of which the first few break as a request is about to leave.
struct Fragile {
    host: PipeHost,
    broken: usize,
    dialed: Arc<AtomicUsize>,
}

struct Stream {
    pipe: DuplexStream,
    breaks: bool,
}

impl Host for Fragile {
    type Stream = Stream;

    fn dial(
        &self,
        address: &Address,
    ) -> impl Future<Output = Result<Stream, DialError>> + Send + 'static {
        let breaks = self.dialed.fetch_add(1, Ordering::Relaxed) < self.broken;
        let pipe = self.host.dial(address);
        async move {
            let pipe = pipe.await?;
            Ok(Stream { pipe, breaks })
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(cx, buf)
    }
}

/// Whether these bytes, which begin with the preface or a frame, hold a HEADERS frame.
fn has_headers(mut bytes: &[u8]) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    bytes = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        if head[3] == 1 {
            return true;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        bytes = rest.get(length..).unwrap_or_default();
    }
    false
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.breaks && has_headers(buf) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.pipe).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

fn client(broken: usize, max_attempts: u32) -> (TokioClient, Script, Arc<AtomicUsize>) {
    let script = Script::new();
    let (host, connections) = PipeHost::new();
    let incoming = UnboundedReceiverStream::new(connections).map(Ok::<_, io::Error>);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(script.service())
            .serve_with_incoming(incoming),
    );
    let dialed = Arc::new(AtomicUsize::new(0));
    let host = Fragile {
        host,
        broken,
        dialed: Arc::clone(&dialed),
    };
    let settings = Settings {
        addr: "carts.test:1".to_owned(),
        max_attempts,
        ..Settings::default()
    };
    let client = piped(host, settings, |_| {});
    (client, script, dialed)
}

#[tokio::test(start_paused = true)]
async fn an_unsent_request_goes_again_at_no_cost() {
    let (client, script, dialed) = client(3, 1);
    let mut carts = CartServiceClient::new(client.clone());
    let answer = carts
        .add_item(unary(item(b"milk")))
        .await
        .expect("on the fourth connection");
    assert_eq!(answer.into_inner().item, b"milk");
    assert_eq!(dialed.load(Ordering::Relaxed), 4);
    assert_eq!(script.attempts(), 1);
    assert_eq!(script.seen()[0].header("grpc-previous-rpc-attempts"), None);
    assert_eq!(client.budget_millitokens(), 10_000);
    let counts = client.breaker().1;
    assert_eq!((counts.successes, counts.failures), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_dying_connections_are_paced_until_the_deadline() {
    let (client, script, dialed) = client(1_000, 3);
    let mut carts = CartServiceClient::new(client.clone());
    let start = tokio::time::Instant::now();
    let status = carts
        .add_item(unary(item(b"x")))
        .await
        .expect_err("never sent");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let took = start.elapsed();
    assert!(took <= Duration::from_millis(10_001), "{took:?}");
    // At most one in the first backoff's shortest, 0.8 s.
    let dialed = dialed.load(Ordering::Relaxed);
    assert!((5..=13).contains(&dialed), "{dialed} connections");
    assert_eq!(script.attempts(), 0);
    assert_eq!(client.budget_millitokens(), 10_000);
}

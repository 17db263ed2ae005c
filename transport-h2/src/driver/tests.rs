//! What only a connection near its last stream shows; the rest is tested through the client.

use std::time::Duration;

use bytes::Bytes;
use steadfast_client::{Address, RequestBody, Transport as _};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Sleep, sleep_until};

use super::*;
use crate::channel;

#[derive(Clone, Copy)]
struct Clock(tokio::time::Instant);

impl Timer for Clock {
    type Sleep = Sleep;

    fn now(&self) -> Instant {
        Instant::ZERO.saturating_add(self.0.elapsed())
    }

    fn sleep_until(&self, deadline: Instant) -> Sleep {
        sleep_until(self.0 + Duration::from_nanos(deadline.as_nanos()))
    }
}

struct Pipes(UnboundedSender<DuplexStream>);

impl Host for Pipes {
    type Stream = DuplexStream;

    fn dial(
        &self,
        _: &Address,
    ) -> impl Future<Output = Result<DuplexStream, DialError>> + Send + 'static {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        self.0.send(theirs).expect("the test takes it");
        std::future::ready(Ok(ours))
    }
}

async fn accept(
    dialed: &mut UnboundedReceiver<DuplexStream>,
) -> h2::server::Connection<DuplexStream, Bytes> {
    let stream = dialed.recv().await.expect("dialed");
    h2::server::handshake(stream).await.expect("HTTP/2")
}

#[tokio::test(start_paused = true)]
async fn when_its_stream_numbers_are_used_up_another_connection_takes_its_place() {
    const LAST: u32 = (1 << 31) - 1;
    let (sender, mut dialed) = unbounded_channel();
    let http2 = Http2Settings {
        first_stream: LAST - 2,
        ..Http2Settings::default()
    };
    let (channel, driver) = channel(
        Address::parse("carts.test:1").expect("an address"),
        Pipes(sender),
        Clock(tokio::time::Instant::now()),
        ConnectionSettings::default(),
        http2,
        1,
    );
    tokio::spawn(driver);
    let call = || tokio::spawn(channel.attempt(http::Request::new(RequestBody::default())));

    let calls = [call(), call()];
    let mut first = accept(&mut dialed).await;
    let mut responses = Vec::new();
    for number in [LAST - 2, LAST] {
        let (request, response) = first.accept().await.expect("open").expect("a request");
        assert_eq!(request.body().stream_id().as_u32(), number);
        responses.push(response);
    }
    let first = tokio::spawn(async move { while first.accept().await.is_some() {} });

    // It is turned away unsent, for the client to send it again: the connection has no more.
    let error = call().await.expect("no panic").expect_err("no number");
    assert_eq!(error.progress(), steadfast_client::Progress::NotSent);
    let next = call();
    let mut second = accept(&mut dialed).await;
    let (request, mut response) = second.accept().await.expect("open").expect("a request");
    assert_eq!(request.body().stream_id().as_u32(), LAST - 2);
    tokio::spawn(async move { while second.accept().await.is_some() {} });

    // Those under way end in peace, and with them their connection.
    for response in responses.iter_mut().chain([&mut response]) {
        let head = http::Response::new(());
        response
            .send_response(head, true)
            .expect("it is waited for");
    }
    for call in calls.into_iter().chain([next]) {
        call.await.expect("no panic").expect("answered");
    }
    first.await.expect("closed");
}

//! A server answers while the client is still sending (RFC 9113, section 8.1).

use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::carts::{AddItemRequest, AddItemResponse};
use steadfast_tests::{Raw, Wire, item, raw};
use steadfast_tokio::{CallKind, ConnectionSettings};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

const NO_ERROR: u32 = 0;
const CANCEL: u32 = 8;

struct Upload {
    wire: Wire,
    peer: Raw,
    stream: u32,
    /// Closed when nobody reads the request any more.
    items: mpsc::Sender<AddItemRequest>,
    call: JoinHandle<Result<AddItemResponse, Status>>,
}

impl Upload {
    /// One item has been sent, and more could be.
    async fn begin() -> Self {
        let mut wire = Wire::new(ConnectionSettings::default());
        let mut carts = CartServiceClient::new(wire.client.clone());
        let (items, body) = mpsc::channel(1);
        items.send(item(b"first")).await.expect("room");
        let request = CallKind::Streaming.mark(ReceiverStream::new(body));
        let call = tokio::spawn(async move { Ok(carts.add_items(request).await?.into_inner()) });
        let mut peer = wire.accept().await;
        let stream = peer.next_of(raw::HEADERS).await.stream;
        peer.next_of(raw::DATA).await;
        Self {
            wire,
            peer,
            stream,
            items,
            call,
        }
    }

    async fn reset(&mut self, code: u32) {
        let code = code.to_be_bytes();
        self.peer.send(raw::RST_STREAM, 0, self.stream, &code).await;
    }

    /// The connection goes on with other calls.
    async fn next_call_is_ok(&mut self) {
        let call = self.wire.call();
        let stream = self.peer.next_of(raw::HEADERS).await.stream;
        self.peer.answer(stream).await;
        call.await.expect("no panic").expect("OK");
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_counts_although_the_stream_is_reset_after_it() {
    let mut upload = Upload::begin().await;
    upload.peer.answer(upload.stream).await;
    upload.reset(NO_ERROR).await;
    (&mut upload.call).await.expect("no panic").expect("OK");
    upload.items.closed().await;
    upload.next_call_is_ok().await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_stops_once_it_is_answered() {
    let mut upload = Upload::begin().await;
    upload.peer.answer(upload.stream).await;
    (&mut upload.call).await.expect("no panic").expect("OK");
    upload.items.closed().await;
    let reset = upload.peer.next_of(raw::RST_STREAM).await;
    assert_eq!(reset.stream, upload.stream);
    let code = <[u8; 4]>::try_from(&reset.payload[..]).map(u32::from_be_bytes);
    assert!(matches!(code, Ok(NO_ERROR | CANCEL)), "{code:?}");
    upload.next_call_is_ok().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_the_upload_at_once() {
    let began = tokio::time::Instant::now();
    for reset in [true, false] {
        let mut upload = Upload::begin().await;
        let head = raw::headers(&[
            (":status", "200"),
            ("content-type", "application/grpc"),
            ("grpc-status", "8"),
            ("grpc-message", "enough"),
        ]);
        let flags = raw::END_HEADERS | raw::END_STREAM;
        let stream = upload.stream;
        upload.peer.send(raw::HEADERS, flags, stream, &head).await;
        if reset {
            upload.reset(NO_ERROR).await;
        }
        let status = (&mut upload.call).await.expect("no panic").expect_err("8");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.message(), "enough");
        upload.items.closed().await;
        upload.next_call_is_ok().await;
    }
    assert_eq!(began.elapsed(), std::time::Duration::ZERO);
}

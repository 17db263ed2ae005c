//! The cases of gRPC's interop test descriptions.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use steadfast_tokio::{BreakerState, TokioClient};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{AsciiMetadataValue, BinaryMetadataValue, MetadataMap};
use tonic::{Code, Request, Streaming};

use crate::compression;
use crate::forwarder::{Forwarder, HEADERS, RST_STREAM};
use crate::peer::Peer;
use crate::proto::test_service_client::TestServiceClient;
use crate::proto::unimplemented_service_client::UnimplementedServiceClient;
use crate::proto::{
    EchoStatus, Empty, Payload, ResponseParameters, SimpleRequest, StreamingInputCallRequest,
    StreamingOutputCallRequest, StreamingOutputCallResponse,
};
use crate::table::Shown;

pub(crate) type Running = Pin<Box<dyn Future<Output = Shown> + Send>>;
type Case = fn(Peer) -> Running;

/// All cases, in the order of the descriptions.
pub(crate) const CASES: &[(&str, Case)] = &[
    ("empty_unary", |peer| Box::pin(empty_unary(peer))),
    ("large_unary", |peer| Box::pin(large_unary(peer))),
    ("client_compressed_unary", |peer| {
        Box::pin(compression::client_compressed_unary(peer))
    }),
    ("server_compressed_unary", |peer| {
        Box::pin(compression::server_compressed_unary(peer))
    }),
    ("client_streaming", |peer| Box::pin(client_streaming(peer))),
    ("client_compressed_streaming", |peer| {
        Box::pin(compression::client_compressed_streaming(peer))
    }),
    ("server_streaming", |peer| Box::pin(server_streaming(peer))),
    ("server_compressed_streaming", |peer| {
        Box::pin(compression::server_compressed_streaming(peer))
    }),
    ("ping_pong", |peer| Box::pin(ping_pong(peer))),
    ("empty_stream", |peer| Box::pin(empty_stream(peer))),
    ("custom_metadata", |peer| Box::pin(custom_metadata(peer))),
    ("status_code_and_message", |peer| {
        Box::pin(status_code_and_message(peer))
    }),
    ("special_status_message", |peer| {
        Box::pin(special_status_message(peer))
    }),
    ("unimplemented_method", |peer| {
        Box::pin(unimplemented_method(peer))
    }),
    ("unimplemented_service", |peer| {
        Box::pin(unimplemented_service(peer))
    }),
    ("cancel_after_begin", |peer| {
        Box::pin(cancel_after_begin(peer))
    }),
    ("cancel_after_first_response", |peer| {
        Box::pin(cancel_after_first_response(peer))
    }),
    ("timeout_on_sleeping_server", |peer| {
        Box::pin(timeout_on_sleeping_server(peer))
    }),
    ("rpc_soak", |peer| Box::pin(rpc_soak(peer))),
];

const LARGE_REQUEST: usize = 271_828;
const LARGE_RESPONSE: usize = 314_159;
const SOAK_CALLS: usize = 10_000;
const SOAK_AT_ONCE: usize = 8;

pub(crate) fn zeros(size: usize) -> Option<Payload> {
    Some(Payload {
        body: vec![0; size],
        ..Payload::default()
    })
}

/// How many bytes a payload has, which must all be zero.
pub(crate) fn size(payload: Option<Payload>) -> usize {
    let body = payload.expect("a payload").body;
    assert!(body.iter().all(|byte| *byte == 0), "a payload of zeros");
    body.len()
}

pub(crate) fn large() -> SimpleRequest {
    SimpleRequest {
        response_size: LARGE_RESPONSE.try_into().expect("small"),
        payload: zeros(LARGE_REQUEST),
        ..SimpleRequest::default()
    }
}

/// Asks for a message of `response` bytes, with `request` bytes of its own.
fn exchange(response: i32, request: usize) -> StreamingOutputCallRequest {
    StreamingOutputCallRequest {
        response_parameters: vec![ResponseParameters {
            size: response,
            ..ResponseParameters::default()
        }],
        payload: zeros(request),
        ..StreamingOutputCallRequest::default()
    }
}

/// A full duplex call whose requests are sent one by one.
struct Duplex {
    requests: mpsc::Sender<StreamingOutputCallRequest>,
    responses: Streaming<StreamingOutputCallResponse>,
}

impl Duplex {
    async fn open(stub: &mut TestServiceClient<TokioClient>) -> Self {
        let (requests, body) = mpsc::channel(1);
        // A server may send its response's headers with the first message.
        requests.send(exchange(31_415, 27_182)).await.expect("room");
        let responses = stub.full_duplex_call(ReceiverStream::new(body)).await;
        Self {
            requests,
            responses: responses.expect("opened").into_inner(),
        }
    }

    async fn next(&mut self) -> Option<usize> {
        let message = self.responses.message().await.expect("no failure");
        message.map(|message| size(message.payload))
    }
}

async fn empty_unary(peer: Peer) -> Shown {
    peer.stub().empty_call(Empty {}).await.expect("OK");
    Shown::Whole
}

async fn large_unary(peer: Peer) -> Shown {
    let response = peer.stub().unary_call(large()).await.expect("OK");
    assert_eq!(size(response.into_inner().payload), LARGE_RESPONSE);
    Shown::Whole
}

async fn client_streaming(peer: Peer) -> Shown {
    let requests = [27_182, 8, 1_828, 45_904].map(|size| StreamingInputCallRequest {
        payload: zeros(size),
        ..StreamingInputCallRequest::default()
    });
    let response = peer
        .stub()
        .streaming_input_call(tokio_stream::iter(requests))
        .await
        .expect("OK");
    assert_eq!(response.into_inner().aggregated_payload_size, 74_922);
    Shown::Whole
}

async fn server_streaming(peer: Peer) -> Shown {
    let sizes = [31_415, 9, 2_653, 58_979];
    let request = StreamingOutputCallRequest {
        response_parameters: sizes
            .map(|size| ResponseParameters {
                size,
                ..ResponseParameters::default()
            })
            .to_vec(),
        ..StreamingOutputCallRequest::default()
    };
    let response = peer.stub().streaming_output_call(request).await;
    let mut messages = response.expect("opened").into_inner();
    for wanted in sizes {
        let message = messages.message().await.expect("OK").expect("a message");
        assert_eq!(
            size(message.payload),
            usize::try_from(wanted).expect("positive")
        );
    }
    assert_eq!(messages.message().await.expect("OK"), None);
    Shown::Whole
}

async fn ping_pong(peer: Peer) -> Shown {
    let mut duplex = Duplex::open(&mut peer.stub()).await;
    assert_eq!(duplex.next().await, Some(31_415));
    for (response, request) in [(9, 8), (2_653, 1_828), (58_979, 45_904)] {
        let message = exchange(response, request);
        duplex.requests.send(message).await.expect("open");
        let wanted = usize::try_from(response).expect("positive");
        assert_eq!(duplex.next().await, Some(wanted));
    }
    let Duplex {
        requests,
        mut responses,
    } = duplex;
    drop(requests);
    assert_eq!(responses.message().await.expect("OK"), None);
    Shown::Whole
}

async fn empty_stream(peer: Peer) -> Shown {
    let response = peer.stub().full_duplex_call(tokio_stream::empty()).await;
    let mut responses = response.expect("OK").into_inner();
    assert_eq!(responses.message().await.expect("OK"), None);
    Shown::Whole
}

async fn custom_metadata(peer: Peer) -> Shown {
    const INITIAL: &str = "x-grpc-test-echo-initial";
    const TRAILING: &str = "x-grpc-test-echo-trailing-bin";
    let initial = AsciiMetadataValue::from_static("test_initial_metadata_value");
    let trailing = BinaryMetadataValue::from_bytes(&[0xab, 0xab, 0xab]);
    let ask = |metadata: &mut MetadataMap| {
        metadata.insert(INITIAL, initial.clone());
        metadata.insert_bin(TRAILING, trailing.clone());
    };

    let mut stub = peer.stub();
    let mut request = Request::new(large());
    ask(request.metadata_mut());
    let response = stub.unary_call(request).await.expect("OK");
    // tonic merges a unary response's trailers into its headers.
    assert_eq!(response.metadata().get(INITIAL), Some(&initial));
    assert_eq!(response.metadata().get_bin(TRAILING), Some(&trailing));

    let message = exchange(LARGE_RESPONSE.try_into().expect("small"), LARGE_REQUEST);
    let mut request = Request::new(tokio_stream::once(message));
    ask(request.metadata_mut());
    let response = stub.full_duplex_call(request).await.expect("opened");
    assert_eq!(response.metadata().get(INITIAL), Some(&initial));
    let mut responses = response.into_inner();
    let message = responses.message().await.expect("OK").expect("a message");
    assert_eq!(size(message.payload), LARGE_RESPONSE);
    assert_eq!(responses.message().await.expect("OK"), None);
    let trailers = responses.trailers().await.expect("OK").expect("trailers");
    assert_eq!(trailers.get_bin(TRAILING), Some(&trailing));
    Shown::Whole
}

async fn status_code_and_message(peer: Peer) -> Shown {
    let status = EchoStatus {
        code: Code::Unknown.into(),
        message: "test status message".to_owned(),
    };
    let mut stub = peer.stub();
    let request = SimpleRequest {
        response_status: Some(status.clone()),
        ..SimpleRequest::default()
    };
    let error = stub.unary_call(request).await.expect_err("the status");
    assert_eq!(error.code(), Code::Unknown);
    assert_eq!(error.message(), status.message);

    let request = StreamingOutputCallRequest {
        response_status: Some(status.clone()),
        ..StreamingOutputCallRequest::default()
    };
    let error = match stub.full_duplex_call(tokio_stream::once(request)).await {
        Ok(response) => response
            .into_inner()
            .message()
            .await
            .expect_err("the status"),
        Err(error) => error,
    };
    assert_eq!(error.code(), Code::Unknown);
    assert_eq!(error.message(), status.message);
    Shown::Whole
}

async fn special_status_message(peer: Peer) -> Shown {
    let message = "\t\ntest with whitespace\r\nand Unicode BMP \u{263a} and non-BMP \u{1f608}\t\n";
    let request = SimpleRequest {
        response_status: Some(EchoStatus {
            code: Code::Unknown.into(),
            message: message.to_owned(),
        }),
        ..SimpleRequest::default()
    };
    let error = peer
        .stub()
        .unary_call(request)
        .await
        .expect_err("the status");
    assert_eq!(error.code(), Code::Unknown);
    assert_eq!(error.message(), message);
    Shown::Whole
}

async fn unimplemented_method(peer: Peer) -> Shown {
    let result = peer.stub().unimplemented_call(Empty {}).await;
    assert_eq!(
        result.expect_err("nobody serves it").code(),
        Code::Unimplemented
    );
    Shown::Whole
}

async fn unimplemented_service(peer: Peer) -> Shown {
    let mut stub = UnimplementedServiceClient::new(peer.client());
    let result = stub.unimplemented_call(Empty {}).await;
    assert_eq!(
        result.expect_err("nobody serves it").code(),
        Code::Unimplemented
    );
    Shown::Whole
}

/// The client's stream was reset as cancelled, not ended; its connection goes on; neither
/// breaker nor server is told of a failure.
async fn cancelled(mut forwarder: Forwarder, client: TokioClient) {
    let sent = forwarder.until(RST_STREAM).await;
    let reset = sent.last().expect("the reset");
    assert_eq!(reset.payload, 8_u32.to_be_bytes(), "CANCEL");
    assert!(sent.iter().all(|frame| frame.stream == reset.stream));
    assert!(!sent.iter().any(|frame| frame.ends_stream()), "{sent:?}");
    let mut stub = TestServiceClient::new(client.clone());
    stub.empty_call(Empty {}).await.expect("OK");
    assert_eq!(forwarder.connections(), 1);
    let (state, counts) = client.breaker();
    assert_eq!(state, BreakerState::Closed);
    assert_eq!((counts.successes, counts.failures), (1, 0));
}

async fn cancel_after_begin(peer: Peer) -> Shown {
    let mut forwarder = Forwarder::to(peer.port).await;
    let client = Peer::new(peer.library, forwarder.port).client();
    let mut stub = TestServiceClient::new(client.clone());
    let call =
        tokio::spawn(async move { stub.streaming_input_call(tokio_stream::pending()).await });
    forwarder.until(HEADERS).await;
    call.abort();
    assert!(call.await.expect_err("aborted").is_cancelled());
    cancelled(forwarder, client).await;
    Shown::Whole
}

async fn cancel_after_first_response(peer: Peer) -> Shown {
    let forwarder = Forwarder::to(peer.port).await;
    let client = Peer::new(peer.library, forwarder.port).client();
    let mut duplex = Duplex::open(&mut TestServiceClient::new(client.clone())).await;
    assert_eq!(duplex.next().await, Some(31_415));
    let Duplex {
        requests,
        responses,
    } = duplex;
    // The responses go first: the requests' end would end the stream.
    drop(responses);
    drop(requests);
    cancelled(forwarder, client).await;
    Shown::Whole
}

async fn timeout_on_sleeping_server(peer: Peer) -> Shown {
    let (requests, body) = mpsc::channel(1);
    let silent = StreamingOutputCallRequest {
        payload: zeros(27_182),
        ..StreamingOutputCallRequest::default()
    };
    requests.send(silent).await.expect("room");
    let mut request = Request::new(ReceiverStream::new(body));
    request.set_timeout(Duration::from_millis(1));
    let error = match peer.stub().full_duplex_call(request).await {
        Ok(response) => response.into_inner().message().await.expect_err("late"),
        Err(error) => error,
    };
    assert_eq!(error.code(), Code::DeadlineExceeded);
    Shown::Whole
}

/// Large unary calls on one client, some at once; no failure, so no attempt too many.
async fn rpc_soak(peer: Peer) -> Shown {
    let (client, attempts) = peer.counting();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..SOAK_AT_ONCE {
        let mut stub = TestServiceClient::new(client.clone());
        callers.spawn(async move {
            for _ in 0..SOAK_CALLS / SOAK_AT_ONCE {
                let response = stub.unary_call(large()).await.expect("OK");
                assert_eq!(size(response.into_inner().payload), LARGE_RESPONSE);
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("every call is OK");
    }
    assert_eq!(attempts.load(Ordering::Relaxed), SOAK_CALLS);
    Shown::Whole
}

//! The cases of the interop test descriptions that compress.

use std::io::Write as _;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tonic::Code;
use tonic::body::Body;
use tonic::codec::CompressionEncoding::Gzip;
use tower_service::Service as _;

use crate::cases::{large, size, zeros};
use crate::flags::Watched;
use crate::peer::{Compresses, Peer};
use crate::proto::test_service_client::TestServiceClient;
use crate::proto::{
    BoolValue, ResponseParameters, SimpleRequest, StreamingInputCallRequest,
    StreamingInputCallResponse, StreamingOutputCallRequest,
};
use crate::table::Shown;

#[allow(clippy::unnecessary_wraps, reason = "the field's type")]
fn yes(value: bool) -> Option<BoolValue> {
    Some(BoolValue { value })
}

/// What is left out where a server can't tell how a message came.
fn shown(peer: Peer) -> Shown {
    match peer.library.tells_compressed() {
        true => Shown::Whole,
        false => Shown::WithoutProbe,
    }
}

pub(crate) async fn client_compressed_unary(peer: Peer) -> Shown {
    let request = |compressed| SimpleRequest {
        expect_compressed: yes(compressed),
        ..large()
    };
    let client = peer.client();
    if peer.library.tells_compressed() {
        let mut plain = TestServiceClient::new(client.clone());
        let probe = plain.unary_call(request(true)).await;
        let probe = probe.expect_err("it isn't compressed");
        assert_eq!(probe.code(), Code::InvalidArgument);
    }
    for compressed in [true, false] {
        let watched = Watched::new(client.clone());
        let mut stub = TestServiceClient::new(watched.clone());
        if compressed {
            stub = stub.send_compressed(Gzip);
        }
        let response = stub.unary_call(request(compressed)).await.expect("OK");
        assert_eq!(size(response.into_inner().payload), 314_159);
        assert_eq!(watched.sent.seen(), [compressed]);
    }
    shown(peer)
}

pub(crate) async fn server_compressed_unary(peer: Peer) -> Shown {
    let compresses = peer.library.compresses();
    for compressed in [true, false] {
        let watched = Watched::new(peer.client());
        let mut stub = TestServiceClient::new(watched.clone()).accept_compressed(Gzip);
        let request = SimpleRequest {
            response_compressed: yes(compressed),
            ..large()
        };
        let response = stub.unary_call(request).await.expect("OK");
        assert_eq!(size(response.into_inner().payload), 314_159);
        let wanted = compressed && compresses != Compresses::Nothing;
        assert_eq!(watched.received.seen(), [wanted]);
    }
    match compresses {
        Compresses::Nothing => Shown::Uncompressed,
        Compresses::EachMessage | Compresses::WholeCalls => Shown::Whole,
    }
}

/// tonic's clients compress all messages of a call or none, so these messages are framed here.
pub(crate) async fn client_compressed_streaming(peer: Peer) -> Shown {
    let message = |expect, size| StreamingInputCallRequest {
        payload: zeros(size),
        expect_compressed: yes(expect),
    };
    let client = peer.client();
    if peer.library.tells_compressed() {
        let mut plain = TestServiceClient::new(client.clone());
        let probe = tokio_stream::once(message(true, 27_182));
        let probe = plain.streaming_input_call(probe).await;
        let probe = probe.expect_err("it isn't compressed");
        assert_eq!(probe.code(), Code::InvalidArgument);
    }
    let mut body = BytesMut::new();
    frame(&message(true, 27_182), true, &mut body);
    frame(&message(false, 45_904), false, &mut body);
    let request = http::Request::post("/grpc.testing.TestService/StreamingInputCall")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", "gzip")
        .body(Body::new(Full::new(body.freeze())))
        .expect("a request");
    let mut watched = Watched::new(client);
    let response = watched.call(request).await.expect("OK");
    let answer = read(response.into_body()).await;
    let answer = StreamingInputCallResponse::decode(&answer[5..]).expect("a response");
    assert_eq!(answer.aggregated_payload_size, 73_086);
    assert_eq!(watched.sent.seen(), [true, false]);
    shown(peer)
}

pub(crate) async fn server_compressed_streaming(peer: Peer) -> Shown {
    let parameters = |compressed, size| ResponseParameters {
        size,
        compressed: yes(compressed),
        ..ResponseParameters::default()
    };
    let request = StreamingOutputCallRequest {
        response_parameters: vec![parameters(true, 31_415), parameters(false, 92_653)],
        ..StreamingOutputCallRequest::default()
    };
    let watched = Watched::new(peer.client());
    let mut stub = TestServiceClient::new(watched.clone()).accept_compressed(Gzip);
    let response = stub.streaming_output_call(request).await.expect("opened");
    let mut messages = response.into_inner();
    for wanted in [31_415, 92_653] {
        let message = messages.message().await.expect("OK").expect("a message");
        assert_eq!(size(message.payload), wanted);
    }
    assert_eq!(messages.message().await.expect("OK"), None);
    let (flags, shown) = match peer.library.compresses() {
        Compresses::EachMessage => ([true, false], Shown::Whole),
        Compresses::WholeCalls => ([true, true], Shown::AllCompressed),
        Compresses::Nothing => ([false, false], Shown::Uncompressed),
    };
    assert_eq!(watched.received.seen(), flags);
    shown
}

fn frame(message: &impl prost::Message, compressed: bool, body: &mut BytesMut) {
    let mut bytes = message.encode_to_vec();
    if compressed {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&bytes).expect("to memory");
        bytes = gzip.finish().expect("to memory");
    }
    body.put_u8(compressed.into());
    body.put_u32(bytes.len().try_into().expect("small"));
    body.put_slice(&bytes);
}

/// All data of a body whose trailers say OK.
async fn read(body: Body) -> Bytes {
    let body = body.collect().await.expect("no failure");
    let trailers = body.trailers().expect("trailers");
    assert_eq!(trailers["grpc-status"], "0");
    body.to_bytes()
}

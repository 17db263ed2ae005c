//! gRPC's interop test service on tonic.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::server::NamedService;
use tonic::{Code, Request, Response, Status, Streaming};
use tower_service::Service;

use crate::cases::zeros;
use crate::flags::{Flagged, Flags};
use crate::proto::test_service_server::{TestService, TestServiceServer};
use crate::proto::{
    BoolValue, EchoStatus, Empty, ResponseParameters, SimpleRequest, SimpleResponse,
    StreamingInputCallRequest, StreamingInputCallResponse, StreamingOutputCallRequest,
    StreamingOutputCallResponse,
};

/// Prints its port; serves until it is killed.
pub(crate) async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("bound").port());
    let service = TestServiceServer::new(Interop)
        .accept_compressed(Gzip)
        .send_compressed(Gzip);
    tonic::transport::Server::builder()
        .add_service(Echo(service))
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
        .expect("it serves");
}

/// Echoes the metadata that asks for it, and tells the handler how its messages came.
#[derive(Clone)]
struct Echo<S>(S);

impl<S: NamedService> NamedService for Echo<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Echo<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        const INITIAL: &str = "x-grpc-test-echo-initial";
        const TRAILING: &str = "x-grpc-test-echo-trailing-bin";
        let initial = request.headers().get(INITIAL).cloned();
        let trailing = request.headers().get(TRAILING).cloned();
        let flags = Flags::default();
        let mut request = request.map(|body| Flagged::body(body, &flags));
        request.extensions_mut().insert(flags);
        let call = self.0.call(request);
        Box::pin(async move {
            let mut response = call.await?;
            if let Some(initial) = initial {
                response.headers_mut().insert(INITIAL, initial);
            }
            Ok(response.map(|body| match trailing {
                None => body,
                Some(trailing) => Body::new(body.map_frame(move |mut frame: Frame<_>| {
                    if let Some(trailers) = frame.trailers_mut() {
                        trailers.insert(TRAILING, trailing.clone());
                    }
                    frame
                })),
            }))
        })
    }
}

struct Interop;

type Outputs = Pin<Box<dyn Stream<Item = Result<StreamingOutputCallResponse, Status>> + Send>>;

/// Fails where a message came otherwise than it says.
fn expected(flag: Option<bool>, expect: Option<BoolValue>) -> Result<(), Status> {
    match expect {
        Some(expect) if flag != Some(expect.value) => {
            let came = format!("compressed: {flag:?}, not {}", expect.value);
            Err(Status::invalid_argument(came))
        }
        _ => Ok(()),
    }
}

fn asked_status(asked: Option<EchoStatus>) -> Result<(), Status> {
    match asked {
        None => Ok(()),
        Some(status) => Err(Status::new(Code::from(status.code), status.message)),
    }
}

async fn output(wanted: &ResponseParameters) -> StreamingOutputCallResponse {
    let interval = wanted.interval_us.try_into().unwrap_or_default();
    tokio::time::sleep(Duration::from_micros(interval)).await;
    StreamingOutputCallResponse {
        payload: zeros(wanted.size.try_into().unwrap_or_default()),
    }
}

#[tonic::async_trait]
impl TestService for Interop {
    type StreamingOutputCallStream = Outputs;
    type FullDuplexCallStream = Outputs;

    async fn empty_call(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        Ok(Response::new(Empty {}))
    }

    async fn unary_call(
        &self,
        request: Request<SimpleRequest>,
    ) -> Result<Response<SimpleResponse>, Status> {
        let flags = request.extensions().get::<Flags>().cloned();
        let request = request.into_inner();
        let flag = flags.and_then(|flags| flags.seen().first().copied());
        expected(flag, request.expect_compressed)?;
        asked_status(request.response_status)?;
        let mut response = Response::new(SimpleResponse {
            payload: zeros(request.response_size.try_into().unwrap_or_default()),
        });
        if request
            .response_compressed
            .is_none_or(|compressed| !compressed.value)
        {
            response.disable_compression();
        }
        Ok(response)
    }

    async fn streaming_output_call(
        &self,
        request: Request<StreamingOutputCallRequest>,
    ) -> Result<Response<Outputs>, Status> {
        let wanted = tokio_stream::iter(request.into_inner().response_parameters);
        let outputs = wanted.then(async |wanted| Ok(output(&wanted).await));
        Ok(Response::new(Box::pin(outputs)))
    }

    async fn streaming_input_call(
        &self,
        request: Request<Streaming<StreamingInputCallRequest>>,
    ) -> Result<Response<StreamingInputCallResponse>, Status> {
        let flags = request.extensions().get::<Flags>().cloned();
        let mut requests = request.into_inner();
        let (mut total, mut number) = (0, 0);
        while let Some(message) = requests.message().await? {
            let flag = flags
                .as_ref()
                .and_then(|flags| flags.seen().get(number).copied());
            expected(flag, message.expect_compressed)?;
            total += message.payload.map_or(0, |payload| payload.body.len());
            number += 1;
        }
        Ok(Response::new(StreamingInputCallResponse {
            aggregated_payload_size: total.try_into().unwrap_or(i32::MAX),
        }))
    }

    async fn full_duplex_call(
        &self,
        request: Request<Streaming<StreamingOutputCallRequest>>,
    ) -> Result<Response<Outputs>, Status> {
        let mut requests = request.into_inner();
        let (answer, outputs) = mpsc::channel(1);
        tokio::spawn(async move {
            // An answer that nobody takes any more ends it.
            while let Ok(Some(message)) = requests.message().await {
                if let Err(status) = asked_status(message.response_status) {
                    let _ = answer.send(Err(status)).await;
                    return;
                }
                for wanted in &message.response_parameters {
                    if answer.send(Ok(output(wanted).await)).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outputs))))
    }

    async fn unimplemented_call(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        Err(Status::unimplemented("served by nobody"))
    }
}

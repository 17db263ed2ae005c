//! An HTTP/2 peer that answers by a script of its own, as no gRPC server would.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::SendResponse;
use http::HeaderMap;
use steadfast_tokio::{ConnectionSettings, Http2Settings, Settings, TokioClient};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use crate::world::{PipeHost, driven};

/// What a peer does with a request.
pub type Respond = dyn Fn(usize, &HeaderMap, SendResponse<Bytes>) + Send + Sync;

/// A client whose every connection is served by a function.
#[derive(Debug)]
pub struct Peer {
    /// The client under test.
    pub client: TokioClient,
}

impl Peer {
    /// Serves HTTP/2 by `respond`, which is told the number of the request, from 0, over all
    /// connections, and its headers. Nobody reads the request's body.
    ///
    /// # Panics
    ///
    /// On invalid settings.
    #[must_use]
    pub fn new(
        settings: Settings,
        respond: impl Fn(usize, &HeaderMap, SendResponse<Bytes>) + Send + Sync + 'static,
    ) -> Self {
        Self::with_http2(settings, Http2Settings::default(), respond)
    }

    /// The same, with a client of these limits.
    ///
    /// # Panics
    ///
    /// On invalid settings.
    #[must_use]
    pub fn with_http2(
        settings: Settings,
        http2: Http2Settings,
        respond: impl Fn(usize, &HeaderMap, SendResponse<Bytes>) + Send + Sync + 'static,
    ) -> Self {
        let (host, connections) = PipeHost::new();
        tokio::spawn(serve(connections, Arc::new(respond)));
        let connection = ConnectionSettings::default();
        let (client, driver) = driven(host, settings, connection, http2, |_| {});
        tokio::spawn(driver);
        Self { client }
    }
}

async fn serve(mut connections: mpsc::UnboundedReceiver<DuplexStream>, respond: Arc<Respond>) {
    let requests = Arc::new(AtomicUsize::new(0));
    while let Some(stream) = connections.recv().await {
        let (respond, requests) = (Arc::clone(&respond), Arc::clone(&requests));
        tokio::spawn(async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else {
                return;
            };
            // Dropped, a body would reset its stream before the answer is out.
            let mut bodies = Vec::new();
            while let Some(Ok((request, response))) = connection.accept().await {
                let number = requests.fetch_add(1, Ordering::Relaxed);
                let (head, body) = request.into_parts();
                bodies.push(body);
                respond(number, &head.headers, response);
            }
        });
    }
}

/// Answers a request with OK and one empty message.
///
/// # Panics
///
/// If the connection is gone.
pub fn answer_ok(mut to: SendResponse<Bytes>) {
    let head = http::Response::builder().header("content-type", "application/grpc");
    let head = head.body(()).expect("a head");
    let mut stream = to.send_response(head, false).expect("sent");
    let message = Bytes::from_static(&[0; 5]);
    stream.send_data(message, false).expect("sent");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    stream.send_trailers(trailers).expect("sent");
}

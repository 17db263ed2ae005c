//! A tonic-generated client, on whatever service it is given.

use crate::carts::cart_service_client::CartServiceClient;
use bytes::Bytes;
use http_body::Body;
use steadfast_tokio::CallKind;
use tonic::client::GrpcService;

use super::Caller;
use crate::Failure;
use crate::payload::Payload;

#[derive(Clone)]
pub(crate) struct Stub<S> {
    client: CartServiceClient<S>,
    /// Told with each call, if it is told at all.
    kind: Option<CallKind>,
}

impl<S> Stub<S> {
    pub(super) fn new(client: CartServiceClient<S>, kind: Option<CallKind>) -> Self {
        Self { client, kind }
    }
}

impl<S> Caller for Stub<S>
where
    S: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    S::Error: Into<Failure>,
    S::Future: Send,
    S::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as Body>::Error: Into<Failure> + Send,
{
    async fn call(&mut self, payload: &Payload) -> Result<usize, Failure> {
        let mut request = tonic::Request::new(payload.request());
        if let Some(kind) = self.kind {
            request.extensions_mut().insert(kind);
        }
        let response = self.client.add_item(request).await?;
        Ok(response.into_inner().item.len())
    }
}

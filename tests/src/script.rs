//! A cart service whose answers are written down beforehand, and which keeps what it saw.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::Notify;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use crate::carts::cart_service_server::{CartService, CartServiceServer};
use crate::carts::{AddItemRequest, AddItemResponse, Item, ListItemsRequest};

/// Longer than any call of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(700);

/// How the server answers one attempt.
#[derive(Clone, Debug)]
pub enum Answer {
    /// With the item sent.
    Ok,
    /// With this status, its metadata included.
    Fail(Status),
    /// Never.
    Hang,
}

/// One attempt, as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its metadata.
    pub metadata: HeaderMap,
    /// When it came, by the clock of the server's runtime.
    pub at: tokio::time::Instant,
}

impl Seen {
    /// The value of a header, if it is there once and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.metadata.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok(),
            _ => None,
        }
    }

    /// What was left of the deadline.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        let text = self.header("grpc-timeout")?;
        let (digits, unit) = text.split_at(text.len() - 1);
        let count: u64 = digits.parse().ok()?;
        Some(match unit {
            "n" => Duration::from_nanos(count),
            "u" => Duration::from_micros(count),
            "m" => Duration::from_millis(count),
            "S" => Duration::from_secs(count),
            "M" => Duration::from_secs(60 * count),
            "H" => Duration::from_secs(3_600 * count),
            _ => return None,
        })
    }
}

/// The service. All clones share one script.
#[derive(Clone, Debug, Default)]
pub struct Script(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    answers: VecDeque<Answer>,
    otherwise: Option<Answer>,
    seen: Vec<Seen>,
    left: usize,
}

impl Script {
    /// Answers OK until told otherwise.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next attempts are answered so, in this order.
    pub fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state(|state| state.answers.extend(answers));
    }

    /// Every attempt without an answer of its own is answered so.
    pub fn otherwise(&self, answer: Answer) {
        self.state(|state| state.otherwise = Some(answer));
    }

    /// Every attempt seen so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.state(|state| state.seen.clone())
    }

    /// How many attempts were seen so far.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.state(|state| state.seen.len())
    }

    /// Waits until `attempts` were seen.
    pub async fn saw(&self, attempts: usize) {
        self.until(|state| state.seen.len() >= attempts).await;
    }

    /// Waits until `attempts` that hung were given up by their client.
    pub async fn left(&self, attempts: usize) {
        self.until(|state| state.left >= attempts).await;
    }

    /// The tonic service.
    #[must_use]
    pub fn service(&self) -> CartServiceServer<Self> {
        CartServiceServer::new(self.clone())
    }

    fn state<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        work(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for it, and fails rather than hang. On a paused clock that takes no time.
    async fn until(&self, condition: impl Fn(&State) -> bool) {
        let wait = tokio::time::timeout(PATIENCE, self.wait_until(condition));
        wait.await.expect("it never came to what was waited for");
    }

    async fn wait_until(&self, condition: impl Fn(&State) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state(|state| condition(state)) {
                return;
            }
            changed.await;
        }
    }

    async fn answer<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let seen = Seen {
            metadata: request.metadata().as_ref().clone(),
            at: tokio::time::Instant::now(),
        };
        let answer = self.state(|state| {
            state.seen.push(seen);
            state
                .answers
                .pop_front()
                .or_else(|| state.otherwise.clone())
        });
        self.0.changed.notify_waiters();
        match answer.unwrap_or(Answer::Ok) {
            Answer::Ok => Ok(()),
            Answer::Fail(status) => Err(status),
            Answer::Hang => {
                let _left = Left(self);
                std::future::pending().await
            }
        }
    }
}

/// Counts an attempt that was given up while it hung.
struct Left<'a>(&'a Script);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.state(|state| state.left += 1);
        self.0.0.changed.notify_waiters();
    }
}

type Items = Pin<Box<dyn Stream<Item = Result<Item, Status>> + Send>>;

#[tonic::async_trait]
impl CartService for Script {
    async fn add_item(
        &self,
        request: Request<AddItemRequest>,
    ) -> Result<Response<AddItemResponse>, Status> {
        self.answer(&request).await?;
        Ok(Response::new(AddItemResponse {
            items: 1,
            item: request.into_inner().item,
        }))
    }

    type ListItemsStream = Items;

    async fn list_items(
        &self,
        request: Request<ListItemsRequest>,
    ) -> Result<Response<Items>, Status> {
        self.answer(&request).await?;
        let items = (0..request.into_inner().count).map(|n| {
            Ok(Item {
                item: n.to_be_bytes().to_vec(),
            })
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(items))))
    }

    async fn add_items(
        &self,
        request: Request<Streaming<AddItemRequest>>,
    ) -> Result<Response<AddItemResponse>, Status> {
        self.answer(&request).await?;
        let mut sent = request.into_inner();
        let mut answer = AddItemResponse::default();
        while let Some(item) = sent.message().await? {
            answer.items += 1;
            answer.item = item.item;
        }
        Ok(Response::new(answer))
    }

    type ChatStream = Items;

    async fn chat(&self, request: Request<Streaming<Item>>) -> Result<Response<Items>, Status> {
        self.answer(&request).await?;
        Ok(Response::new(Box::pin(
            request.into_inner().map(|item| item),
        )))
    }
}

/// An UNAVAILABLE that tells when, or whether, to come back.
#[must_use]
pub fn unavailable(pushback: Option<&'static str>) -> Answer {
    let mut status = Status::unavailable("the server is restarting");
    if let Some(pushback) = pushback {
        let value = tonic::metadata::MetadataValue::from_static(pushback);
        status
            .metadata_mut()
            .insert("grpc-retry-pushback-ms", value);
    }
    Answer::Fail(status)
}

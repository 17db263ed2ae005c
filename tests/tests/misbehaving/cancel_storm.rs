//! Callers that leave, by the thousand, on a connection that others use.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use steadfast_tests::carts::Item;
use steadfast_tests::{World, item, settle, unary};
use steadfast_tokio::{BreakerState, CallKind, Settings};
use steadfast_tokio::{Random as _, SeededRandom};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const LEAVING: usize = 5_000;
const STAYING: u8 = 10;

/// What a request carries to whoever keeps it.
#[derive(Clone)]
struct Token(#[allow(dead_code, reason = "only counted")] Arc<()>);

#[tokio::test(start_paused = true)]
async fn those_who_stay_notice_nothing_and_nothing_is_kept() {
    let world = World::new(Settings::default());
    let mut chats = Vec::new();
    for number in 0..STAYING {
        let (send, body) = mpsc::channel(1);
        let request = CallKind::Streaming.mark(ReceiverStream::new(body));
        let replies = world
            .carts()
            .chat(request)
            .await
            .expect("opened")
            .into_inner();
        chats.push((number, send, replies));
    }

    let token = Arc::new(());
    let mut random = SeededRandom::new(5);
    for _ in 0..LEAVING {
        let mut carts = world.carts();
        let mut request = unary(item(b"x"));
        request.extensions_mut().insert(Token(Arc::clone(&token)));
        let mut call = pin!(carts.add_item(request));
        for _ in 0..random.next_u64() % 12 {
            let ended = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if ended.is_ready() {
                break;
            }
            for _ in 0..random.next_u64() % 4 {
                tokio::task::yield_now().await;
            }
        }
    }
    settle().await;

    assert_eq!(Arc::strong_count(&token), 1, "a call that ended is kept");
    for (number, send, replies) in &mut chats {
        let item = Item {
            item: vec![*number],
        };
        send.send(item.clone()).await.expect("open");
        assert_eq!(replies.message().await.expect("OK"), Some(item));
    }
    assert_eq!(world.client.breaker().0, BreakerState::Closed);
    assert_eq!(world.client.breaker().1.failures, 0);
    assert_eq!(world.client.budget_millitokens(), 10_000);
    world.carts().add_item(unary(item(b"x"))).await.expect("OK");
}

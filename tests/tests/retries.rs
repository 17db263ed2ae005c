//! How often a call is tried and how long it waits, against a tonic server in paused time.

use std::time::Duration;

use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::{Answer, World, item, unary, unavailable};
use steadfast_tokio::{CallReport, End, NeverOpen, Progress, RetryBudget, Settings, WaitReason};
use tonic::{Code, Status};

/// tokio's timer ends a sleep with the millisecond it falls in.
const TICK: Duration = Duration::from_millis(1);

fn no_breaker() -> Settings {
    Settings {
        breaker_policy: std::sync::Arc::new(NeverOpen),
        ..Settings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn two_unavailable_then_ok_is_three_attempts() {
    let world = World::new(Settings::default());
    world
        .script
        .then([unavailable(None), unavailable(None), Answer::Ok]);
    let answer = world
        .carts()
        .add_item(unary(item(b"milk")))
        .await
        .expect("the third is OK");
    assert_eq!(answer.into_inner().item, b"milk");
    let seen = world.script.seen();
    let previous: Vec<_> = seen
        .iter()
        .map(|attempt| attempt.header("grpc-previous-rpc-attempts"))
        .collect();
    assert_eq!(previous, [None, Some("1"), Some("2")]);
    assert!(seen[1].at - seen[0].at <= Duration::from_millis(100) + TICK);
    assert!(seen[2].at - seen[1].at <= Duration::from_millis(200) + TICK);
}

#[tokio::test(start_paused = true)]
async fn every_attempt_carries_the_callers_metadata_and_the_clients_name() {
    let world = World::new(Settings::default());
    world.script.then([unavailable(None)]);
    let mut request = unary(item(b"x"));
    request
        .metadata_mut()
        .insert("x-tenant", "t1".parse().expect("a value"));
    request
        .metadata_mut()
        .append("x-tenant", "t2".parse().expect("a value"));
    world.carts().add_item(request).await.expect("retried");
    for attempt in world.script.seen() {
        let tenants: Vec<_> = attempt.metadata.get_all("x-tenant").iter().collect();
        assert_eq!(tenants, ["t1", "t2"]);
        assert_eq!(attempt.header("te"), Some("trailers"));
        assert_eq!(attempt.header("content-type"), Some("application/grpc"));
        let agent = attempt.header("user-agent").expect("a user agent");
        assert!(agent.starts_with("grpc-rust-steadfast/"), "{agent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pushback_is_waited_for_to_the_tick() {
    let world = World::new(Settings::default());
    world.script.then([
        unavailable(Some("2000")),
        unavailable(Some("0")),
        Answer::Ok,
    ]);
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("retried");
    let seen = world.script.seen();
    let waited = seen[1].at - seen[0].at;
    assert!(
        waited >= Duration::from_secs(2) && waited <= Duration::from_secs(2) + TICK,
        "{waited:?}"
    );
    let then = seen[2].at - seen[1].at;
    assert!(
        then <= Duration::from_millis(200) + TICK,
        "the schedule goes on: {then:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pushback_that_is_no_plain_number_is_tried_once() {
    for pushback in ["-1", "abc", "+5", "010", "1.5", "", "2147483648"] {
        let world = World::new(Settings::default());
        world.script.otherwise(unavailable(Some(pushback)));
        let status = world
            .carts()
            .add_item(unary(item(b"x")))
            .await
            .expect_err("refused");
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(world.script.attempts(), 1, "{pushback:?}");
        assert_eq!(world.client.budget_millitokens(), 9_000, "{pushback:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pushback_above_the_longest_backoff_ends_at_once() {
    let world = World::new(Settings::default());
    world.script.otherwise(unavailable(Some("5001")));
    let before = tokio::time::Instant::now();
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("too long");
    assert!(before.elapsed() < TICK, "no wait");
    let asked = Duration::from_millis(5_001);
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.end(), &End::PushbackTooLong { asked });
    assert_eq!(world.script.attempts(), 1);

    let world = World::new(Settings::default());
    world.script.then([unavailable(Some("5000"))]);
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("the longest is followed");
}

#[tokio::test(start_paused = true)]
async fn attempts_end_at_the_maximum_with_the_servers_status() {
    for max_attempts in [1, 2, 3, 7] {
        let world = World::new(Settings {
            max_attempts,
            retry_budget: RetryBudget {
                max_tokens: 1_000,
                ..RetryBudget::default()
            },
            ..no_breaker()
        });
        world.script.otherwise(unavailable(None));
        let status = world
            .carts()
            .add_item(unary(item(b"x")))
            .await
            .expect_err("exhausted");
        assert_eq!(status.message(), "the server is restarting");
        assert_eq!(world.script.attempts(), max_attempts as usize);
        let report = CallReport::of(&status).expect("a report");
        assert_eq!(report.end(), &End::Exhausted);
        assert_eq!(report.attempts().len(), max_attempts as usize);
        let waits: Vec<_> = report
            .attempts()
            .iter()
            .map(|attempt| attempt.wait_reason)
            .collect();
        assert_eq!(waits[0], None);
        assert!(
            waits[1..]
                .iter()
                .all(|reason| *reason == Some(WaitReason::Backoff))
        );
        assert!(report.attempts().iter().all(|attempt| {
            attempt.code == Code::Unavailable && attempt.progress == Progress::MaybeProcessed
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn the_budget_bounds_the_load_on_a_server_that_is_down() {
    // 10 tokens, 4 attempts: the first call is tried four times (9, 8, 7, 6 left), the second
    // once (5 is not above half), and so is every later one.
    let world = World::new(Settings {
        max_attempts: 4,
        ..no_breaker()
    });
    world.script.otherwise(unavailable(None));
    let mut carts = world.carts();
    for _ in 0..100 {
        carts.add_item(unary(item(b"x"))).await.expect_err("down");
    }
    assert_eq!(world.script.attempts(), 103);
    let status = carts.add_item(unary(item(b"x"))).await.expect_err("down");
    assert_eq!(
        CallReport::of(&status).expect("a report").end(),
        &End::BudgetSpent
    );
}

#[tokio::test(start_paused = true)]
async fn the_defaults_bound_it_further() {
    // The first call is tried three times, the second twice (6, then 5 left): five failures
    // in a row, and the breaker is open for the other 98.
    let world = World::new(Settings::default());
    world.script.otherwise(unavailable(None));
    let mut carts = world.carts();
    for _ in 0..100 {
        carts.add_item(unary(item(b"x"))).await.expect_err("down");
    }
    assert_eq!(world.script.attempts(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_request_larger_than_the_replay_limit_is_sent_once_and_whole() {
    let world = World::new(Settings::default());
    world.script.then([Answer::Ok, unavailable(None)]);
    let big = vec![7; 300 * 1024];
    let answer = world
        .carts()
        .add_item(unary(item(&big)))
        .await
        .expect("sent as it comes");
    assert_eq!(answer.into_inner().item, big);
    let status = world
        .carts()
        .add_item(unary(item(&big)))
        .await
        .expect_err("not retried");
    assert_eq!(
        CallReport::of(&status).expect("a report").end(),
        &End::Committed
    );

    world.script.then([unavailable(None)]);
    let mut request = unary(item(&big));
    request
        .extensions_mut()
        .insert(steadfast_tokio::ReplayLimit(1024 * 1024));
    let answer = world
        .carts()
        .add_item(request)
        .await
        .expect("retried within a wider limit");
    assert_eq!(answer.into_inner().item, big);
}

#[tokio::test(start_paused = true)]
async fn the_same_bytes_are_sent_again() {
    let world = World::new(Settings::default());
    world.script.then([unavailable(None), unavailable(None)]);
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    let answer = world
        .carts()
        .add_item(unary(item(&bytes)))
        .await
        .expect("retried");
    assert_eq!(answer.into_inner().item, bytes);
}

#[tokio::test(start_paused = true)]
async fn no_two_calls_of_a_client_or_its_clones_wait_in_step() {
    let world = World::new(no_breaker());
    world
        .script
        .otherwise(Answer::Fail(Status::unavailable("down")));
    let mut waits = Vec::new();
    for client in [world.client.clone(), world.client.clone()] {
        let status = CartServiceClient::new(client)
            .add_item(unary(item(b"x")))
            .await
            .expect_err("down");
        let report = CallReport::of(&status).expect("a report");
        waits.push(report.attempts().get(1).map(|attempt| attempt.waited));
    }
    assert!(waits[0].is_some() && waits[1].is_some());
    assert_ne!(waits[0], waits[1]);
}

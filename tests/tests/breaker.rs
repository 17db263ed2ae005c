//! The breaker between a client and a tonic server, in paused time.

use std::sync::Arc;
use std::time::Duration;

use steadfast_tests::{Answer, World, item, unary, unavailable};
use steadfast_tokio::{
    BreakerSettings, BreakerState, CallReport, End, ProbeVerdict, Settings, policy_fn, rejected,
};
use tonic::{Code, Status};

const SECOND: Duration = Duration::from_secs(1);

fn one_attempt() -> Settings {
    Settings {
        max_attempts: 1,
        ..Settings::default()
    }
}

async fn open(world: &World) {
    world.script.then(vec![unavailable(None); 5]);
    for _ in 0..5 {
        world
            .carts()
            .add_item(unary(item(b"x")))
            .await
            .expect_err("down");
    }
    assert_eq!(world.client.breaker().0, BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn opens_rejects_probes_and_closes() {
    let world = World::new(one_attempt());
    open(&world).await;

    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("rejected");
    assert_eq!(
        world.script.attempts(),
        5,
        "the sixth never reached the server"
    );
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "circuit breaker open for another 10.0s");
    let found = rejected(&status).expect("Rejected is in the source chain");
    assert_eq!(found.state, BreakerState::Open);
    assert!(found.remaining <= 10 * SECOND && found.remaining > 9 * SECOND);
    let report = CallReport::of(&status).expect("a report");
    assert!(report.attempts().is_empty());

    tokio::time::advance(found.remaining - Duration::from_millis(1)).await;
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("a millisecond early");
    tokio::time::advance(Duration::from_millis(1)).await;
    for _ in 0..3 {
        assert_ne!(world.client.breaker().0, BreakerState::Closed);
        world
            .carts()
            .add_item(unary(item(b"x")))
            .await
            .expect("a probe");
    }
    assert_eq!(world.client.breaker().0, BreakerState::Closed);
    assert_eq!(world.script.attempts(), 8);

    let changes: Vec<_> = world.transitions().iter().map(|t| (t.from, t.to)).collect();
    assert_eq!(
        changes,
        [
            (BreakerState::Closed, BreakerState::Open),
            (BreakerState::Open, BreakerState::HalfOpen),
            (BreakerState::HalfOpen, BreakerState::Closed),
        ]
    );
    assert_eq!(world.transitions()[0].counts.consecutive_failures, 5);
    assert_eq!(world.transitions()[2].counts.successes, 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_probe_opens_again() {
    let world = World::new(one_attempt());
    open(&world).await;
    tokio::time::advance(10 * SECOND).await;
    world.script.then([unavailable(None)]);
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("the probe fails");
    assert_eq!(world.client.breaker().0, BreakerState::Open);
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("rejected");
    assert!(
        rejected(&status).expect("Rejected").remaining > 9 * SECOND,
        "a whole period"
    );
}

#[tokio::test(start_paused = true)]
async fn a_herd_at_the_end_of_the_period_sends_one_probe() {
    let world = World::new(one_attempt());
    open(&world).await;
    tokio::time::advance(10 * SECOND).await;
    world.script.then([Answer::Hang]);
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let mut carts = world.carts();
            tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await })
        })
        .collect();
    world.script.saw(6).await;
    tokio::time::advance(SECOND).await;
    let ended = calls.iter().filter(|call| call.is_finished()).count();
    assert_eq!((ended, world.script.attempts()), (99, 6));
    for call in &calls {
        call.abort();
    }
    world.script.left(1).await;
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("a dropped probe's slot is free");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_retry_reports_the_attempts_before_it() {
    let world = World::new(Settings {
        breaker_policy: Arc::new(policy_fn(
            |counts| counts.consecutive_failures >= 2,
            |_| ProbeVerdict::Close,
        )),
        ..Settings::default()
    });
    world.script.otherwise(unavailable(None));
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("down");
    let report = CallReport::of(&status).expect("a report");
    assert!(matches!(report.end(), End::Rejected(_)), "{report}");
    assert_eq!(report.attempts().len(), 2);
    assert!(rejected(&status).is_some());
    assert_eq!(status.code(), Code::Unavailable);
    assert!(
        status.message().starts_with("circuit breaker open"),
        "{}",
        status.message()
    );
}

#[tokio::test(start_paused = true)]
async fn rejections_feed_nothing_back() {
    let world = World::new(one_attempt());
    open(&world).await;
    let tokens = world.client.budget_millitokens();
    for _ in 0..1_000 {
        world
            .carts()
            .add_item(unary(item(b"x")))
            .await
            .expect_err("rejected");
    }
    assert_eq!(world.client.budget_millitokens(), tokens);
    assert_eq!(world.client.breaker().1.results(), 0);
    assert_eq!(world.script.attempts(), 5);
}

#[tokio::test(start_paused = true)]
async fn callers_that_leave_do_not_open_it() {
    let world = World::new(one_attempt());
    world.script.otherwise(Answer::Hang);
    for n in 1..=100 {
        let mut carts = world.carts();
        let call = tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await });
        world.script.saw(n).await;
        call.abort();
        world.script.left(n).await;
    }
    assert_eq!(
        world.client.breaker(),
        (BreakerState::Closed, Default::default())
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_hangs_frees_its_slot_in_time() {
    let world = World::new(Settings {
        timeout: 60 * SECOND,
        breaker: BreakerSettings {
            probe_timeout: 2 * SECOND,
            ..BreakerSettings::default()
        },
        ..one_attempt()
    });
    open(&world).await;
    tokio::time::advance(10 * SECOND).await;
    world.script.then([Answer::Hang]);
    let mut carts = world.carts();
    let hung = tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await });
    world.script.saw(6).await;
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("its probe is out");
    assert_eq!(
        rejected(&status).expect("Rejected").state,
        BreakerState::HalfOpen
    );
    tokio::time::advance(2 * SECOND).await;
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("free again");
    assert_eq!(world.client.breaker().1.timed_out, 1);
    hung.abort();
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_listener_reaches_one_caller_and_loses_nothing() {
    let world = World::heard(one_attempt(), |transition| {
        assert!(transition.to != BreakerState::Open, "a bug in the listener");
    });
    world.script.otherwise(unavailable(None));
    let call = || {
        let mut carts = world.carts();
        tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await })
    };
    for _ in 0..4 {
        call().await.expect("no panic").expect_err("down");
    }
    let panicked = call().await.expect_err("its listener panicked");
    assert!(panicked.is_panic());
    let status: Status = call().await.expect("no panic").expect_err("rejected");
    assert!(rejected(&status).is_some());
    tokio::time::advance(10 * SECOND).await;
    call()
        .await
        .expect_err("the probe fails, and the listener panics again");
    let told: Vec<_> = world
        .transitions()
        .iter()
        .map(|transition| transition.to)
        .collect();
    assert_eq!(
        told,
        [
            BreakerState::Open,
            BreakerState::HalfOpen,
            BreakerState::Open
        ]
    );
}

//! When a call must be over, who hears of it, and what it ends with.

use std::time::Duration;

use steadfast_tests::{Answer, World, item, unary, unavailable};
use steadfast_tokio::{CallReport, Deadline, End, Settings};
use tokio::time::Instant;
use tonic::{Code, Status};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(1);

fn settings() -> Settings {
    Settings {
        timeout: 10 * SECOND,
        ..Settings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_server_ends_at_the_timeout() {
    let world = World::new(settings());
    world.script.otherwise(Answer::Hang);
    let before = Instant::now();
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("hangs");
    let took = before.elapsed();
    assert!(
        took >= 10 * SECOND && took <= 10 * SECOND + TICK,
        "{took:?}"
    );
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.message(), "the deadline passed after 1 attempt");
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.end(), &End::Expired);
    assert_eq!(report.attempts().len(), 1);
    assert_eq!(world.client.breaker().1.failures, 1);
    assert_eq!(
        world.client.budget_millitokens(),
        10_000,
        "no token for a deadline"
    );
    world.script.left(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_unknown_kind_has_the_timeout_until_its_headers() {
    let world = World::new(settings());
    world.script.otherwise(Answer::Hang);
    let before = Instant::now();
    let status = world.carts().add_item(item(b"x")).await.expect_err("hangs");
    let took = before.elapsed();
    assert!(
        took >= 10 * SECOND && took <= 10 * SECOND + TICK,
        "{took:?}"
    );
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let told = world.script.seen()[0].timeout();
    assert_eq!(told, None, "a stream must not be ended by it");
}

#[tokio::test(start_paused = true)]
async fn each_attempt_tells_the_server_what_is_left() {
    let world = World::new(settings());
    world
        .script
        .then([unavailable(Some("3000")), unavailable(Some("4000"))]);
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("the third is OK");
    let left: Vec<_> = world
        .script
        .seen()
        .iter()
        .map(|attempt| attempt.timeout().expect("told"))
        .collect();
    assert_eq!(left[0], 10 * SECOND);
    assert!(
        left[1] <= 7 * SECOND && left[1] >= 7 * SECOND - TICK,
        "{left:?}"
    );
    assert!(
        left[2] <= 3 * SECOND && left[2] >= 3 * SECOND - 2 * TICK,
        "{left:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_callers_shorter_deadline_wins() {
    let world = World::new(settings());
    world.script.otherwise(Answer::Hang);
    let mut by_timeout = unary(item(b"x"));
    by_timeout.set_timeout(2 * SECOND);
    let mut by_deadline = unary(item(b"x"));
    let deadline = world.client.now().saturating_add(4 * SECOND);
    by_deadline.extensions_mut().insert(Deadline(deadline));
    let mut carts = world.carts();
    let before = Instant::now();
    for (request, total) in [(by_timeout, 2 * SECOND), (by_deadline, 4 * SECOND)] {
        let status = carts.add_item(request).await.expect_err("hangs");
        assert_eq!(status.code(), Code::DeadlineExceeded);
        let took = before.elapsed();
        assert!(took >= total && took <= total + 2 * TICK, "{took:?}");
    }
    let told: Vec<_> = world
        .script
        .seen()
        .iter()
        .filter_map(|seen| seen.timeout())
        .collect();
    assert_eq!(told[0], 2 * SECOND);
    assert!(
        told[1] <= 2 * SECOND && told[1] >= 2 * SECOND - TICK,
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_callers_longer_deadline_does_not_lengthen_the_timeout() {
    let world = World::new(settings());
    world.script.otherwise(Answer::Hang);
    let mut request = unary(item(b"x"));
    request.set_timeout(60 * SECOND);
    let before = Instant::now();
    world.carts().add_item(request).await.expect_err("hangs");
    assert!(before.elapsed() <= 10 * SECOND + TICK);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_sends_nothing() {
    let world = World::new(settings());
    tokio::time::advance(5 * SECOND).await;
    let mut request = unary(item(b"x"));
    request
        .extensions_mut()
        .insert(Deadline(world.client.now()));
    let status = world.carts().add_item(request).await.expect_err("too late");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.message(), "the deadline passed after 0 attempts");
    assert_eq!(world.script.attempts(), 0);
    assert_eq!(world.client.breaker().1.results(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_begun_that_would_pass_the_deadline() {
    let world = World::new(settings());
    world.script.otherwise(unavailable(Some("2000")));
    let mut request = unary(item(b"x"));
    request.set_timeout(2 * SECOND);
    let before = Instant::now();
    let status = world
        .carts()
        .add_item(request)
        .await
        .expect_err("no time for a retry");
    assert!(before.elapsed() < TICK, "at once");
    assert_eq!(status.code(), Code::Unavailable, "the attempt's own status");
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.end(), &End::WaitPastDeadline { wait: 2 * SECOND });
    assert_eq!(world.client.budget_millitokens(), 9_000);
}

#[tokio::test(start_paused = true)]
async fn the_real_failure_is_not_lost_behind_the_deadline() {
    let world = World::new(settings());
    world
        .script
        .then([unavailable(None), unavailable(None), Answer::Hang]);
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("hangs");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(
        status.message(),
        "the deadline passed after 3 attempts; before it: UNAVAILABLE: the server is restarting"
    );
    let report = CallReport::of(&status).expect("a report");
    let codes: Vec<_> = report
        .attempts()
        .iter()
        .map(|attempt| attempt.code)
        .collect();
    assert_eq!(
        codes,
        [Code::Unavailable, Code::Unavailable, Code::DeadlineExceeded]
    );
    let source = std::error::Error::source(report).expect("a source");
    let last = source.downcast_ref::<Status>().expect("the last status");
    assert_eq!(last.code(), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_grpc_timeout_that_is_none_is_the_callers_mistake() {
    let world = World::new(settings());
    let mut request = unary(item(b"x"));
    request
        .metadata_mut()
        .insert("grpc-timeout", "soon".parse().expect("a value"));
    let status = world
        .carts()
        .add_item(request)
        .await
        .expect_err("not a timeout");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(
        status.message(),
        "grpc-timeout \"soon\" must be one to eight digits and a unit of H, M, S, m, u or n"
    );
    assert_eq!(world.script.attempts(), 0);
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(
        (report.end(), report.attempts().len()),
        (&End::Unsendable, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_servers_own_deadline_exceeded_is_passed_on() {
    let world = World::new(settings());
    world
        .script
        .then([Answer::Fail(Status::deadline_exceeded("upstream"))]);
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("failed");
    assert_eq!(
        (status.code(), status.message()),
        (Code::DeadlineExceeded, "upstream")
    );
    assert_eq!(
        CallReport::of(&status).expect("a report").end(),
        &End::Stopped
    );
}

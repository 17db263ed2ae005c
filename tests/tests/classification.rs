//! The default classification, row by row, and classifiers of a user's own, through the
//! whole client against a tonic server.

use std::sync::{Arc, Mutex};

use steadfast_tests::{Answer, World, item, unary, unavailable};
use steadfast_tokio::{BreakerState, CallReport, Classification, Classifier, End, Settings};
use tonic::{Code, Status};

/// What one attempt that ended so did: attempts seen, tokens paid, and what the breaker
/// counted.
#[derive(Debug, PartialEq, Eq)]
struct Effect {
    attempts: usize,
    paid: u32,
    successes: u32,
    failures: u32,
}

async fn effect_of(answer: Answer) -> (Result<(), Status>, Effect) {
    let world = World::new(Settings {
        max_attempts: 2,
        ..Settings::default()
    });
    world.script.otherwise(answer);
    let result = world.carts().add_item(unary(item(b"x"))).await.map(drop);
    let counts = world.client.breaker().1;
    let effect = Effect {
        attempts: world.script.attempts(),
        paid: 10_000 - world.client.budget_millitokens(),
        successes: counts.successes,
        failures: counts.failures,
    };
    (result, effect)
}

macro_rules! row {
    ($name:ident, $code:ident, attempts: $attempts:literal, paid: $paid:literal,
     successes: $successes:literal, failures: $failures:literal) => {
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let status = Status::new(Code::$code, "as scripted");
            let (result, effect) = effect_of(Answer::Fail(status)).await;
            let status = result.expect_err("it failed");
            assert_eq!(
                (status.code(), status.message()),
                (Code::$code, "as scripted")
            );
            let expected = Effect {
                attempts: $attempts,
                paid: $paid,
                successes: $successes,
                failures: $failures,
            };
            assert_eq!(effect, expected);
        }
    };
}

row!(unavailable_is_retried, Unavailable, attempts: 2, paid: 2_000, successes: 0, failures: 2);
row!(resource_exhausted_stops, ResourceExhausted, attempts: 1, paid: 0, successes: 0, failures: 1);
row!(deadline_exceeded_stops, DeadlineExceeded, attempts: 1, paid: 0, successes: 0, failures: 1);
row!(internal_stops, Internal, attempts: 1, paid: 0, successes: 0, failures: 1);
row!(unknown_stops, Unknown, attempts: 1, paid: 0, successes: 0, failures: 1);
row!(data_loss_stops, DataLoss, attempts: 1, paid: 0, successes: 0, failures: 1);
row!(cancelled_is_ignored, Cancelled, attempts: 1, paid: 0, successes: 0, failures: 0);
row!(invalid_argument_is_healthy, InvalidArgument, attempts: 1, paid: 0, successes: 1, failures: 0);
row!(not_found_is_healthy, NotFound, attempts: 1, paid: 0, successes: 1, failures: 0);
row!(already_exists_is_healthy, AlreadyExists, attempts: 1, paid: 0, successes: 1, failures: 0);
row!(permission_denied_is_healthy, PermissionDenied, attempts: 1, paid: 0, successes: 1, failures: 0);
row!(failed_precondition_is_healthy, FailedPrecondition, attempts: 1, paid: 0, successes: 1, failures: 0);
row!(aborted_is_healthy, Aborted, attempts: 1, paid: 0, successes: 1, failures: 0);
row!(out_of_range_is_healthy, OutOfRange, attempts: 1, paid: 0, successes: 1, failures: 0);
row!(unimplemented_is_healthy, Unimplemented, attempts: 1, paid: 0, successes: 1, failures: 0);
row!(unauthenticated_is_healthy, Unauthenticated, attempts: 1, paid: 0, successes: 1, failures: 0);

#[tokio::test(start_paused = true)]
async fn ok_succeeds() {
    let (result, effect) = effect_of(Answer::Ok).await;
    result.expect("it succeeded");
    let expected = Effect {
        attempts: 1,
        paid: 0,
        successes: 1,
        failures: 0,
    };
    assert_eq!(effect, expected);
}

#[tokio::test(start_paused = true)]
async fn resource_exhausted_with_a_pushback_is_retried() {
    let mut status = Status::resource_exhausted("later");
    let value = "5".parse().expect("a value");
    status
        .metadata_mut()
        .insert("grpc-retry-pushback-ms", value);
    let (result, effect) = effect_of(Answer::Fail(status)).await;
    assert_eq!(
        result.expect_err("it failed").code(),
        Code::ResourceExhausted
    );
    let expected = Effect {
        attempts: 2,
        paid: 2_000,
        successes: 0,
        failures: 2,
    };
    assert_eq!(effect, expected);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_pushback_costs_a_token_on_any_code() {
    for (code, failures, successes) in [
        (Code::Unavailable, 1, 0),
        (Code::ResourceExhausted, 1, 0),
        (Code::Internal, 1, 0),
        (Code::Cancelled, 0, 0),
        (Code::NotFound, 0, 1),
    ] {
        let mut status = Status::new(code, "never");
        let value = "-1".parse().expect("a value");
        status
            .metadata_mut()
            .insert("grpc-retry-pushback-ms", value);
        let (result, effect) = effect_of(Answer::Fail(status)).await;
        let status = result.expect_err("it failed");
        assert_eq!(status.code(), code);
        let report = CallReport::of(&status).expect("a report");
        assert_eq!(report.end(), &End::Refused);
        let expected = Effect {
            attempts: 1,
            paid: 1_000,
            successes,
            failures,
        };
        assert_eq!(effect, expected, "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_users_classifier_retries_aborted_and_hands_the_rest_on() {
    let world = World::new(Settings {
        classify: Classifier::new(|outcome| match outcome.code {
            Code::Aborted => Classification::RETRY,
            _ => outcome.default_classification(),
        }),
        ..Settings::default()
    });
    let mut carts = world.carts();
    world.script.then([
        Answer::Fail(Status::aborted("a conflict")),
        unavailable(None),
        Answer::Ok,
        Answer::Fail(Status::not_found("no cart")),
    ]);
    carts
        .add_item(unary(item(b"x")))
        .await
        .expect("the third succeeded");
    assert_eq!(world.script.attempts(), 3);
    let status = carts
        .add_item(unary(item(b"x")))
        .await
        .expect_err("not found");
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(world.script.attempts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_users_classifier_stops_for_one_method() {
    let world = World::new(Settings {
        classify: Classifier::new(|outcome| match outcome.path {
            "/carts.v1.CartService/AddItem" => Classification::FAIL,
            _ => outcome.default_classification(),
        }),
        ..Settings::default()
    });
    let mut carts = world.carts();
    world
        .script
        .then([unavailable(None), unavailable(None), Answer::Ok]);
    carts
        .add_item(unary(item(b"x")))
        .await
        .expect_err("stopped");
    assert_eq!(world.script.attempts(), 1);
    let list = steadfast_tests::carts::ListItemsRequest { count: 1 };
    carts.list_items(list).await.expect("retried");
    assert_eq!(world.script.attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_users_delay_is_waited_for_and_the_servers_refusal_prevails() {
    let delay = std::time::Duration::from_secs(3);
    let world = World::new(Settings {
        classify: Classifier::new(move |outcome| match outcome.code {
            Code::Ok => Classification::SUCCESS,
            _ => Classification::retry_after(delay),
        }),
        ..Settings::default()
    });
    world
        .script
        .then([Answer::Fail(Status::aborted("a conflict"))]);
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("retried");
    let seen = world.script.seen();
    let waited = seen[1].at - seen[0].at;
    assert!(
        waited >= delay && waited < delay + std::time::Duration::from_millis(2),
        "{waited:?}"
    );

    world.script.then([unavailable(Some("-1"))]);
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("refused");
    assert_eq!(
        CallReport::of(&status).expect("a report").end(),
        &End::Refused
    );
    assert_eq!(world.script.attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_ok_that_a_classifier_retries_is_in_the_report() {
    let world = World::new(Settings {
        max_attempts: 2,
        classify: Classifier::new(|outcome| match outcome.code {
            Code::Ok => Classification::RETRY,
            _ => Classification::STOP,
        }),
        ..Settings::default()
    });
    world
        .script
        .then([Answer::Ok, Answer::Fail(Status::not_found("gone"))]);
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("gone");
    let report = CallReport::of(&status).expect("a report");
    let codes: Vec<_> = report
        .attempts()
        .iter()
        .map(|attempt| attempt.code)
        .collect();
    assert_eq!(codes, [Code::Ok, Code::NotFound]);
    // The last answer is the caller's, however it is judged.
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("an OK");
    assert_eq!(world.script.attempts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_classifier_sees_path_status_trailers_and_success() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&seen);
    let world = World::new(Settings {
        classify: Classifier::new(move |outcome| {
            let shard = outcome
                .trailers
                .get("x-shard")
                .map(|value| value.as_bytes().to_vec());
            let message = outcome.status.map(|status| status.message().to_owned());
            heard
                .lock()
                .unwrap()
                .push((outcome.path.to_owned(), outcome.code, message, shard));
            outcome.default_classification()
        }),
        ..Settings::default()
    });
    let mut status = Status::unavailable("busy");
    status
        .metadata_mut()
        .insert("x-shard", "7".parse().expect("a value"));
    world.script.then([Answer::Fail(status)]);
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("retried");
    let path = "/carts.v1.CartService/AddItem".to_owned();
    assert_eq!(
        *seen.lock().unwrap(),
        [
            (
                path.clone(),
                Code::Unavailable,
                Some("busy".to_owned()),
                Some(b"7".to_vec())
            ),
            (path, Code::Ok, None, None),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_classifier_reaches_the_caller_and_nobody_else() {
    let world = World::new(Settings {
        classify: Classifier::new(|outcome| match outcome.code {
            Code::DataLoss => panic!("a bug in classify"),
            _ => outcome.default_classification(),
        }),
        ..Settings::default()
    });
    world.script.then([Answer::Fail(Status::data_loss("x"))]);
    let mut carts = world.carts();
    let panicked = tokio::spawn(async move { carts.add_item(unary(item(b"x"))).await });
    let panic = panicked.await.expect_err("it panicked").into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"a bug in classify"));
    assert_eq!(
        world.client.breaker().1.results(),
        0,
        "the attempt is ignored"
    );
    assert_eq!(world.client.budget_millitokens(), 10_000);
    world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect("the next call works");
    assert_eq!(world.client.breaker().0, BreakerState::Closed);
}

//! Others' machines, told of the same thing: a call that succeeded.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use failsafe::CircuitBreaker as _;
use tower_layer::Layer as _;
use tower_resilience::circuitbreaker::{CircuitBreakerError, CircuitBreakerLayer};
use tower_resilience::retry::{RetryBudgetBuilder, RetryLayer};
use tower_service::Service;

use super::Run;

pub(super) fn subjects() -> Vec<(&'static str, Run)> {
    vec![
        ("failsafe-breaker", failsafe()),
        ("recloser-breaker", recloser()),
        ("tower-resilience-breaker", tower_breaker()),
        ("tower-resilience-retry-and-breaker", tower_stack()),
    ]
}

fn failsafe() -> Run {
    let breaker = failsafe::Config::new().build();
    Box::new(move |times| {
        for _ in 0..times {
            let done = breaker.call(|| black_box(Ok::<_, Infallible>(())));
            assert!(done.is_ok());
        }
    })
}

fn recloser() -> Run {
    let breaker = recloser::Recloser::custom().closed_len(20).build();
    Box::new(move |times| {
        for _ in 0..times {
            let done = breaker.call(|| black_box(Ok::<_, Infallible>(())));
            assert!(done.is_ok());
        }
    })
}

fn tower_breaker() -> Run {
    let breaker = CircuitBreakerLayer::builder()
        .sliding_window_size(20)
        .build()
        .expect("right settings");
    let service = breaker.layer(Done);
    Box::new(move |times| drive(&service, times))
}

fn tower_stack() -> Run {
    let breaker = CircuitBreakerLayer::builder()
        .sliding_window_size(20)
        .build()
        .expect("right settings");
    let budget = RetryBudgetBuilder::new()
        .token_bucket()
        .max_tokens(10)
        .build()
        .expect("right settings");
    let retry = RetryLayer::<(), (), CircuitBreakerError<Infallible>>::builder()
        .max_attempts(3)
        .exponential_backoff(Duration::from_millis(100))
        .budget(budget)
        .build();
    let service = retry.layer(breaker.layer(Done));
    Box::new(move |times| drive(&service, times))
}

/// The call itself, which costs nothing.
#[derive(Clone)]
struct Done;

impl Service<()> for Done {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}

/// Calls one after the other; a lock that is taken is asked for again.
fn drive<S: Service<()> + Clone>(service: &S, times: u64) {
    let mut service = service.clone();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..times {
        while service.poll_ready(&mut cx).is_pending() {
            std::thread::yield_now();
        }
        let mut call = pin!(service.call(()));
        let done = loop {
            match call.as_mut().poll(&mut cx) {
                Poll::Ready(done) => break done,
                Poll::Pending => std::thread::yield_now(),
            }
        };
        assert!(done.is_ok());
    }
}

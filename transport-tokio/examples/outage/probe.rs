//! A server of the user's, called through Steadfast, and everything told that happens.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use steadfast_tokio::{
    CallKind, CallReport, Classification, Classifier, Host as _, Outcome, RetryOutcome, Settings,
    TokioClient, TokioHost, Transition,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::client::Grpc;
use tonic::{Code, Request, Status};

use crate::args::Target;
use crate::codec::Raw;
use crate::say::say;

tokio::task_local! {
    /// The call that this task makes, and the attempts of it that were judged. A classifier
    /// runs inside the call's own future, so it finds it.
    static CALL: (u32, Cell<u32>);
}

/// Makes the calls; answers how many succeeded, or why the server can't be reached.
pub(crate) async fn run(target: &Target) -> Result<u32, String> {
    reach(target).await?;
    let start = Instant::now();
    let client = connect(target, start)?;
    let mut calls = JoinSet::new();
    for n in 1..=target.calls {
        sleep_until(start + target.period * (n - 1)).await;
        let call = call(client.clone(), target.clone(), n, start);
        calls.spawn(CALL.scope((n, Cell::new(0)), call));
    }
    let succeeded = calls.join_all().await.into_iter().filter(|ok| *ok).count() as u32;
    let plural = if target.calls == 1 { "" } else { "s" };
    say(&format!(
        "\n{} call{plural}: {succeeded} succeeded, {} failed; the breaker is {}",
        target.calls,
        target.calls - succeeded,
        client.breaker().0,
    ));
    Ok(succeeded)
}

/// Dials once beforehand, so that a mistyped address is told from a server in trouble.
async fn reach(target: &Target) -> Result<(), String> {
    let address = &target.address;
    match timeout(target.timeout, TokioHost.dial(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("can't reach {address}: {error}")),
        Err(_) => Err(format!(
            "can't reach {address}: no answer within {:?}",
            target.timeout
        )),
    }
}

fn connect(target: &Target, start: Instant) -> Result<TokioClient, String> {
    let settings = Settings {
        addr: target.address.to_string(),
        timeout: target.timeout,
        classify: Classifier::new(move |outcome| {
            let classification = outcome.default_classification();
            say(&attempt_line(start, outcome, classification));
            classification
        }),
        ..Settings::default()
    };
    steadfast_tokio::builder(settings)
        .on_transition(move |transition| say(&transition_line(start, transition)))
        .connect()
        .map_err(|error| error.to_string())
}

/// Makes one call; whether it succeeded.
async fn call(client: TokioClient, target: Target, n: u32, start: Instant) -> bool {
    let begun = Instant::now();
    let result = unary(client, &target).await;
    let (at, took) = (clock(start), short(begun.elapsed()));
    match &result {
        Ok(response) => say(&format!(
            "{at} call {n} succeeded in {took}; response: {}",
            hex(response)
        )),
        Err(status) => {
            say(&format!(
                "{at} call {n} failed in {took}: {}",
                describe(status)
            ));
            match CallReport::of(status) {
                Some(report) => say(&format!("          {report}")),
                None => say("          no report: the transport's part of the call went well"),
            }
        }
    }
    result.is_ok()
}

async fn unary(client: TokioClient, target: &Target) -> Result<Bytes, Status> {
    let mut request = Request::new(target.request.clone());
    request.extensions_mut().insert(CallKind::Unary);
    let mut grpc = Grpc::new(client);
    grpc.ready().await?;
    let response = grpc.unary(request, target.method.clone(), Raw).await?;
    Ok(response.into_inner())
}

fn attempt_line(start: Instant, outcome: &Outcome<'_>, judged: Classification) -> String {
    let name = CALL
        .try_with(|(call, attempts)| {
            attempts.set(attempts.get() + 1);
            format!("call {call} attempt {}", attempts.get())
        })
        .unwrap_or_else(|_| "an attempt".to_owned());
    let result = match outcome.status {
        Some(status) => format!("{} ({})", describe(status), outcome.progress),
        None => format!("{:?}", Code::Ok),
    };
    let retry = match judged.retry {
        RetryOutcome::Success => "success".to_owned(),
        RetryOutcome::Retry { after } if after.is_zero() => "retry".to_owned(),
        RetryOutcome::Retry { after } => format!("retry after {after:?}"),
        RetryOutcome::Untried { after } => format!("not tried; retry after {after:?} and more"),
        RetryOutcome::Refused => "the server refused a retry".to_owned(),
        RetryOutcome::Stop => "stop".to_owned(),
    };
    format!(
        "{} {name}: {result}: {retry}; for the breaker: {:?}",
        clock(start),
        judged.breaker
    )
}

fn transition_line(start: Instant, transition: &Transition) -> String {
    let counts = transition.counts;
    format!(
        "{} breaker: {} -> {} ({} of {} results failed)",
        clock(start),
        transition.from,
        transition.to,
        counts.failures,
        counts.results(),
    )
}

/// A status in one line; the message is the server's, so nothing in it may move the cursor.
fn describe(status: &Status) -> String {
    format!("{:?}: {:?}", status.code(), status.message())
}

fn clock(start: Instant) -> String {
    format!("{:>7.3} s", start.elapsed().as_secs_f64())
}

fn short(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1_000.0)
}

fn hex(bytes: &[u8]) -> String {
    match bytes {
        [] => "empty".to_owned(),
        bytes => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

//! One client's way through the script: the server, the load and the progress, side by side.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steadfast_tests::carts::AddItemRequest;
use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tokio::{CallKind, Classifier, Instant, TokioClient, Transition};
use tokio::time;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

use crate::load::{self, Ended, Ending, Tally};
use crate::plan::Plan;
use crate::say::say;
use crate::server::{Seen, Server};

/// What a run left behind.
pub(crate) struct Run {
    pub(crate) endings: Vec<Ending>,
    /// Attempts that the client made, by its own count.
    pub(crate) attempts: u64,
    /// Attempts that reached the server, by the phase in which they came.
    pub(crate) seen: Vec<u64>,
    /// The breaker's, with the time since the start; `None` without a breaker.
    pub(crate) transitions: Option<Vec<(Duration, Transition)>>,
}

impl Run {
    pub(crate) fn count(&self, which: impl Fn(&Ending) -> bool) -> usize {
        self.endings.iter().filter(|ending| which(ending)).count()
    }
}

/// Through a tonic `Channel`, as tonic's own examples make one.
pub(crate) async fn through_tonic(plan: &Plan) -> io::Result<Run> {
    let mut server = Server::start(&plan.phases)?;
    let channel = Endpoint::from_shared(format!("http://{}", server.address()))
        .map_err(io::Error::other)?
        .timeout(plan.timeout)
        .connect_lazy();
    let carts = CartServiceClient::new(channel);
    let call = || {
        let mut carts = carts.clone();
        async move { carts.add_item(request()).await.map(drop) }
    };
    say("1 of 2: tonic Channel");
    let endings = through_script(plan, &mut server, call, || "none".to_owned()).await?;
    Ok(Run {
        // tonic tries a call once.
        attempts: endings.len() as u64,
        endings,
        seen: server.seen().by_phase(),
        transitions: None,
    })
}

/// Through Steadfast.
pub(crate) async fn through_steadfast(plan: &Plan) -> io::Result<Run> {
    let mut server = Server::start(&plan.phases)?;
    let judged = Arc::new(AtomicU64::new(0));
    let transitions = Arc::new(Mutex::new(Vec::new()));
    let client = connect(plan, &server, &judged, &transitions).map_err(io::Error::other)?;
    let start = client.now();
    let carts = CartServiceClient::new(client.clone());
    let call = || {
        let mut carts = carts.clone();
        async move { carts.add_item(request()).await.map(drop) }
    };
    say("\n2 of 2: Steadfast");
    let breaker = || client.breaker().0.to_string();
    let endings = through_script(plan, &mut server, call, breaker).await?;
    let transitions = std::mem::take(&mut *lock(&transitions));
    // A deadline ends an attempt without a judgement: that is about the call.
    let expired = |ending: &&Ending| ending.ended == Ended::Expired;
    let expired = endings.iter().filter(expired).count() as u64;
    Ok(Run {
        attempts: judged.load(Ordering::Relaxed) + expired,
        endings,
        seen: server.seen().by_phase(),
        transitions: Some(since(start, transitions)),
    })
}

fn connect(
    plan: &Plan,
    server: &Server,
    judged: &Arc<AtomicU64>,
    transitions: &Arc<Mutex<Vec<Transition>>>,
) -> Result<TokioClient, steadfast_tokio::SettingsError> {
    let (judged, transitions) = (Arc::clone(judged), Arc::clone(transitions));
    let mut settings = plan.settings(server.address().to_string());
    // Counts, and judges as it would be judged anyway.
    settings.classify = Classifier::new(move |outcome| {
        judged.fetch_add(1, Ordering::Relaxed);
        outcome.default_classification()
    });
    steadfast_tokio::builder(settings)
        // Jitter is drawn from the operating system by default; a number makes runs alike.
        .seed(1)
        .on_transition(move |transition| lock(&transitions).push(*transition))
        .connect()
}

fn since(start: Instant, transitions: Vec<Transition>) -> Vec<(Duration, Transition)> {
    let since = |transition: Transition| (transition.at.saturating_since(start), transition);
    transitions.into_iter().map(since).collect()
}

fn request() -> Request<AddItemRequest> {
    let mut request = Request::new(AddItemRequest {
        cart: "newcomer".to_owned(),
        item: vec![7; 32],
    });
    // Generated code doesn't say so: the whole call, retries included, is under the timeout.
    request.extensions_mut().insert(CallKind::Unary);
    request
}

async fn through_script<F>(
    plan: &Plan,
    server: &mut Server,
    call: impl FnMut() -> F,
    breaker: impl Fn() -> String,
) -> io::Result<Vec<Ending>>
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (tally, seen) = (Tally::default(), server.seen());
    let start = time::Instant::now();
    let show = |at: Duration| show_progress(plan, at, &tally, &seen, &breaker());
    say(&format!(
        "{:>6}  {:<22} {:>6} {:>6} {:>6} {:>11}  breaker",
        "time", "phase", "calls", "ok", "failed", "server saw"
    ));
    let work = async {
        let load = load::run(plan, start, &tally, call);
        tokio::join!(load, server.follow(&plan.phases, start)).1
    };
    tokio::select! {
        followed = work => followed?,
        () = every_second(plan, start, show) => {}
    }
    show(plan.lasts());
    Ok(tally.endings())
}

/// Every second but the last, and then never again.
async fn every_second(plan: &Plan, start: time::Instant, show: impl Fn(Duration)) {
    let seconds = (1..).map(Duration::from_secs);
    for second in seconds.take_while(|second| *second < plan.lasts()) {
        time::sleep_until(start + second).await;
        show(second);
    }
    std::future::pending().await
}

fn show_progress(plan: &Plan, at: Duration, tally: &Tally, seen: &Seen, breaker: &str) {
    // The phase that the second before was in.
    let phase = plan.phase_at(at.saturating_sub(Duration::from_nanos(1)));
    let calls = tally.progress();
    say(&format!(
        "{:>4.1} s  {:<22} {:>6} {:>6} {:>6} {:>11}  {breaker}",
        at.as_secs_f64(),
        plan.phases[phase].name,
        calls.made,
        calls.succeeded,
        calls.failed,
        seen.total(),
    ));
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

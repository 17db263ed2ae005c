//! The tables at the end: what the callers and the server got, side by side.

use std::fmt::Write as _;
use std::time::Duration;

use steadfast_tokio::Transition;

use crate::load::Ended;
use crate::plan::Plan;
use crate::run::Run;

/// A line of the first table: its name, and what stands there for a client.
type Row = (&'static str, fn(&Run) -> String);

/// Everything that was counted, one column a client.
pub(crate) fn totals(tonic: &Run, steadfast: &Run) -> String {
    let rows: [Row; 10] = [
        ("calls", |run| run.endings.len().to_string()),
        ("  succeeded", |run| succeeded(run).to_string()),
        ("  failed", |run| failed(run).to_string()),
        ("attempts sent", |run| run.attempts.to_string()),
        ("  that reached the server", |run| reached(run).to_string()),
        ("  that did not", |run| {
            run.attempts.saturating_sub(reached(run)).to_string()
        }),
        ("server's extra load over the calls", |run| {
            format!("{:+.1} %", extra_load(run))
        }),
        ("p50 of a call", |run| millis(percentile(run, 50))),
        ("p99 of a call", |run| millis(percentile(run, 99))),
        ("time in calls that failed", |run| {
            format!("{:.1} s", time_in_failed(run).as_secs_f64())
        }),
    ];
    let mut table = String::from("\n");
    row(&mut table, "", "tonic Channel", "Steadfast");
    for (name, value) in rows {
        row(&mut table, name, &value(tonic), &value(steadfast));
    }
    let mut name = "breaker transitions";
    for line in transitions(steadfast) {
        let nothing = if name.is_empty() { "" } else { "no breaker" };
        row(&mut table, name, nothing, &line);
        name = "";
    }
    table.push_str(
        "\nAttempts sent are counted by the client, those that reached the server by the \
         server.\nA call is timed whether or not it succeeded.",
    );
    table
}

/// How many of each phase's calls failed.
pub(crate) fn by_phase(plan: &Plan, tonic: &Run, steadfast: &Run) -> String {
    let mut table = String::from("\nFailed, of the calls made in each phase:\n\n");
    row(&mut table, "", "tonic Channel", "Steadfast");
    for (n, phase) in plan.phases.iter().enumerate() {
        let failed = |run: &Run| {
            let failed = run.count(|call| call.phase == n && call.ended != Ended::Succeeded);
            format!("{failed} of {}", run.count(|call| call.phase == n))
        };
        row(&mut table, phase.name, &failed(tonic), &failed(steadfast));
    }
    table
}

fn row(table: &mut String, name: &str, tonic: &str, steadfast: &str) {
    let _ = writeln!(table, "{name:<34} {tonic:>16} {steadfast:>31}");
}

fn transitions(run: &Run) -> Vec<String> {
    let line = |(at, transition): &(Duration, Transition)| {
        let change = format!("{} -> {}", transition.from, transition.to);
        format!("{change:<21} {:>6.2} s", at.as_secs_f64())
    };
    match run.transitions.as_deref() {
        None => vec!["no breaker".to_owned()],
        Some([]) => vec!["none".to_owned()],
        Some(transitions) => transitions.iter().map(line).collect(),
    }
}

fn succeeded(run: &Run) -> usize {
    run.count(|call| call.ended == Ended::Succeeded)
}

/// Calls that did not succeed.
pub(crate) fn failed(run: &Run) -> usize {
    run.count(|call| call.ended != Ended::Succeeded)
}

fn reached(run: &Run) -> u64 {
    run.seen.iter().sum()
}

/// Attempts that reached the server, above or below one for each call, in percent.
fn extra_load(run: &Run) -> f64 {
    (reached(run) as f64 / run.endings.len() as f64 - 1.0) * 100.0
}

/// How long callers waited for nothing, in all.
pub(crate) fn time_in_failed(run: &Run) -> Duration {
    let failed = |call: &&crate::load::Ending| call.ended != Ended::Succeeded;
    run.endings
        .iter()
        .filter(failed)
        .map(|call| call.took)
        .sum()
}

/// The least time that `percent` of the calls did not exceed.
fn percentile(run: &Run, percent: usize) -> Duration {
    let mut took: Vec<_> = run.endings.iter().map(|call| call.took).collect();
    took.sort_unstable();
    let rank = (took.len() * percent).div_ceil(100);
    took.get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1_000.0)
}

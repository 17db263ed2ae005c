//! What the tables say, in sentences. Each is made of the numbers of this run, whichever way
//! they came out.

use crate::load::{Ended, Ending};
use crate::plan::{Behaviour, Phase, Plan};
use crate::run::Run;
use crate::table::{failed, time_in_failed};

/// The terminal's width, and a little less.
const WIDTH: usize = 86;

/// Three sentences: what retries did, what the breaker did, what it cost.
pub(crate) fn sentences(plan: &Plan, tonic: &Run, steadfast: &Run) -> String {
    let sentences = [
        retries(plan, tonic, steadfast),
        breaker(plan, tonic, steadfast),
        price(plan, tonic, steadfast),
    ];
    sentences.iter().map(|text| wrap(text)).collect()
}

/// Broken into lines, with an empty one before.
fn wrap(text: &str) -> String {
    let mut lines = String::from("\n");
    let mut column = 0;
    for word in text.split(' ') {
        match column {
            0 => {}
            _ if column + word.len() >= WIDTH => {
                lines.push('\n');
                column = 0;
            }
            _ => {
                lines.push(' ');
                column += 1;
            }
        }
        lines.push_str(word);
        column += word.len();
    }
    lines.push('\n');
    lines
}

fn retries(plan: &Plan, tonic: &Run, steadfast: &Run) -> String {
    let partly = |phase: &Phase| matches!(phase.behaviour, Behaviour::Unavailable { .. });
    let failed = |run| failed_in(plan, run, partly);
    let calls = steadfast.count(|call| partly(&plan.phases[call.phase]));
    let seen = seen_in(plan, steadfast, partly);
    format!(
        "While some attempts failed and others did not, {} of {calls} calls failed through the \
         Channel and {} through Steadfast, which sent the server {seen} attempts for its {calls} \
         calls.",
        failed(tonic),
        failed(steadfast),
    )
}

fn breaker(plan: &Plan, tonic: &Run, steadfast: &Run) -> String {
    let hanging = |run| seen_in(plan, run, |phase| phase.behaviour == Behaviour::Hanging);
    let waited = |run| time_in_failed(run).as_secs_f64();
    format!(
        "While the server hung, it was sent {} attempts through the Channel and {} through \
         Steadfast. In the whole run Steadfast's breaker turned {} calls away at once; callers \
         spent {:.0} s in calls that failed through the Channel, {:.0} s through Steadfast.",
        hanging(tonic),
        hanging(steadfast),
        steadfast.count(|call| call.ended == Ended::Rejected),
        waited(tonic),
        waited(steadfast),
    )
}

fn price(plan: &Plan, tonic: &Run, steadfast: &Run) -> String {
    let late = |call: &Ending| plan.phases[call.phase].is_up() && call.ended == Ended::Rejected;
    let late = steadfast.count(late);
    let (without, with) = (failed(tonic), failed(steadfast));
    let total = match with.abs_diff(without) {
        0 => "as many failed through both".to_owned(),
        less if with < without => format!("{less} fewer failed through Steadfast"),
        more => format!("{more} more failed through Steadfast"),
    };
    let price = match late {
        0 => "The breaker turned no call away while the server was up".to_owned(),
        late => format!(
            "The price: {late} calls were turned away while the server was up, before the \
             breaker had found out"
        ),
    };
    format!("{price}; in all, {total}, {with} against {without}.")
}

/// Attempts that reached the server in these phases.
fn seen_in(plan: &Plan, run: &Run, which: impl Fn(&Phase) -> bool) -> u64 {
    let phases = plan.phases.iter().zip(&run.seen);
    phases
        .filter(|(phase, _)| which(phase))
        .map(|(_, seen)| seen)
        .sum()
}

/// Calls made in these phases that failed.
fn failed_in(plan: &Plan, run: &Run, which: impl Fn(&Phase) -> bool) -> usize {
    run.count(|call| which(&plan.phases[call.phase]) && call.ended != Ended::Succeeded)
}

//! Every client under the same loads, in turn: what moves between runs on a shared machine
//! moves for all of them alike.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::clients::{Client, Which};
use crate::load::Until;
use crate::payload::Payload;
use crate::server::ServerProcess;
use crate::table::{median, print_row, quantile};
use crate::{Failure, allocations};

/// The loads: calls at once, and bytes of a message.
const LOADS: [(usize, usize); 4] = [(1, 32), (1, 4096), (64, 32), (64, 4096)];

/// How long to measure.
struct Plan {
    rounds: usize,
    slice: Duration,
    counted_calls: usize,
}

/// What one client showed under one load.
#[derive(Default)]
struct Seen {
    /// In nanoseconds, of all rounds.
    latencies: Vec<u32>,
    /// Requests a second, of each round.
    rates: Vec<f64>,
    /// Microseconds of CPU a call, of each round.
    cpu: Vec<f64>,
    allocations: Option<f64>,
}

/// Measures all clients and prints one table a load.
pub(crate) fn run(quick: bool) -> Result<(), Failure> {
    let plan = match quick {
        false => Plan {
            rounds: 10,
            slice: Duration::from_millis(400),
            counted_calls: 6_400,
        },
        true => Plan {
            rounds: 3,
            slice: Duration::from_millis(60),
            counted_calls: 640,
        },
    };
    let server = ServerProcess::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for which in Which::ALL {
            clients.push((which, Client::connect(which, server.address).await?));
        }
        for (concurrency, size) in LOADS {
            let seen = measure(&clients, concurrency, size, &plan).await?;
            print(concurrency, size, &seen);
        }
        Ok(())
    })
}

async fn measure(
    clients: &[(Which, Client)],
    concurrency: usize,
    size: usize,
    plan: &Plan,
) -> Result<Vec<(Which, Seen)>, Failure> {
    let payload = Payload::new(size);
    let mut all = Vec::new();
    for (which, client) in clients {
        let calls = |calls| client.drive(&payload, concurrency, Until::Calls(calls));
        calls(10 * concurrency).await?;
        let before = allocations::count();
        calls(plan.counted_calls).await?;
        let made = allocations::count().zip(before);
        let seen = Seen {
            allocations: made
                .map(|(after, before)| (after - before) as f64 / plan.counted_calls as f64),
            ..Seen::default()
        };
        all.push((*which, seen));
    }
    for round in 0..plan.rounds {
        for turn in 0..clients.len() {
            // Nobody always comes after the same neighbour's heat.
            let at = (turn + round) % clients.len();
            let (client, seen) = (&clients[at].1, &mut all[at].1);
            let (start, cpu) = (Instant::now(), cpu_time());
            let until = Until::Time(start + plan.slice);
            let latencies = client.drive(&payload, concurrency, until).await?;
            let calls = latencies.len() as f64;
            seen.rates.push(calls / start.elapsed().as_secs_f64());
            seen.cpu
                .push((cpu_time() - cpu).as_nanos() as f64 / 1e3 / calls);
            seen.latencies.extend(latencies);
        }
    }
    Ok(all)
}

/// CPU time of this process, which holds the clients and not the server.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn print(concurrency: usize, size: usize, all: &[(Which, Seen)]) {
    println!("\n{concurrency} at once, {size} bytes");
    print_row(
        "client",
        &[
            "requests/s",
            "p50 us",
            "p99 us",
            "CPU us",
            "allocations",
            "rate/tonic",
            "CPU/tonic",
        ],
    );
    let tonic = all.iter().find(|(which, _)| *which == Which::Tonic);
    for (which, seen) in all {
        let mut latencies = seen.latencies.clone();
        latencies.sort_unstable();
        let micros = |at: f64| format!("{:.0}", f64::from(quantile(&latencies, at)) / 1e3);
        let ratio = |of: fn(&Seen) -> &Vec<f64>| {
            // Of the same round each, so that a slow second of the machine cancels out.
            let pairs = tonic.map(|(_, tonic)| of(seen).iter().zip(of(tonic)));
            let ratios = pairs.into_iter().flatten().map(|(one, tonic)| one / tonic);
            format!("{:.2}", median(ratios.collect()))
        };
        print_row(
            which.name(),
            &[
                &format!("{:.0}", median(seen.rates.clone())),
                &micros(0.5),
                &micros(0.99),
                &format!("{:.1}", median(seen.cpu.clone())),
                &seen
                    .allocations
                    .map_or("-".to_owned(), |count| format!("{count:.1}")),
                &ratio(|seen| &seen.rates),
                &ratio(|seen| &seen.cpu),
            ],
        );
    }
}

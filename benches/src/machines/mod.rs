//! What a decision costs, apart from any call: one thread, and two that contend.

mod own;
mod peers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use crate::table::{median, print_row};
use crate::{Failure, allocations};

/// So often a subject is used between two looks at whether the time is over.
const CHUNK: u64 = 1_000;

/// A subject: does what it is asked for so many times, from any number of threads.
type Run = Box<dyn Fn(u64) + Send + Sync>;

/// All subjects, each shared by the threads that use it.
fn subjects() -> Vec<(&'static str, Run)> {
    let count = Mutex::new(0_u64);
    let mut all: Vec<(&'static str, Run)> = vec![(
        "mutex-increment",
        Box::new(move |times| {
            for _ in 0..times {
                *count.lock().expect("nobody panics") += 1;
            }
        }),
    )];
    all.extend(own::subjects());
    all.extend(peers::subjects());
    all
}

/// Prints nanoseconds and allocations of each subject.
pub(crate) fn run(quick: bool) -> Result<(), Failure> {
    let (batches, period) = if quick { (3, 10) } else { (15, 60) };
    let period = Duration::from_millis(period);
    print_row("subject", &["ns", "ns contended", "allocations"]);
    for (name, run) in subjects() {
        run(CHUNK);
        let before = allocations::count();
        run(CHUNK);
        let made = allocations::count().zip(before);
        let alone = (0..batches).map(|_| batch(&run, 1, period)).collect();
        let contended = (0..batches).map(|_| batch(&run, 2, period)).collect();
        let allocations = made.map(|(after, before)| (after - before) as f64 / CHUNK as f64);
        print_row(
            name,
            &[
                &format!("{:.0}", median(alone)),
                &format!("{:.0}", median(contended)),
                &allocations.map_or("-".to_owned(), |count| format!("{count:.2}")),
            ],
        );
    }
    Ok(())
}

/// One subject so many times on this thread, for `benches/callgrind`.
pub(crate) fn repeat(name: &str, times: &str) -> Result<(), Failure> {
    let subject = subjects().into_iter().find(|(other, _)| *other == name);
    let (_, run) = subject.ok_or_else(|| format!("no machine is called {name:?}"))?;
    run(times.parse()?);
    Ok(())
}

/// The subjects' names, one a line.
pub(crate) fn list() {
    for (name, _) in subjects() {
        println!("{name}");
    }
}

/// Nanoseconds that one operation takes a thread, with so many threads at it all the time.
fn batch(run: &Run, threads: usize, period: Duration) -> f64 {
    let (barrier, over) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let work = || {
        barrier.wait();
        let (start, mut times) = (Instant::now(), 0);
        while !over.load(Ordering::Relaxed) {
            run(CHUNK);
            times += CHUNK;
        }
        start.elapsed().as_nanos() as f64 / times as f64
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        barrier.wait();
        std::thread::sleep(period);
        over.store(true, Ordering::Relaxed);
        let each = workers.into_iter().map(|worker| worker.join());
        let sum: f64 = each.map(|nanos| nanos.expect("nobody panics")).sum();
        sum / threads as f64
    })
}

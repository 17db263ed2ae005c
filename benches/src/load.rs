//! A steady load: so many calls at once, each worker one after the other.

use std::time::Instant;

use crate::Failure;
use crate::clients::{Caller, Client};
use crate::payload::Payload;

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// So many calls were made, in all.
    Calls(usize),
    /// This time has come. Every call's latency is noted.
    Time(Instant),
}

impl Client {
    /// Makes calls, `concurrency` at once: their latencies in nanoseconds, if they end by time.
    pub(crate) async fn drive(
        &self,
        payload: &Payload,
        concurrency: usize,
        until: Until,
    ) -> Result<Vec<u32>, Failure> {
        match self {
            Self::Raw(client) => drive(client, payload, concurrency, until).await,
            Self::Bare(client) => drive(client, payload, concurrency, until).await,
            Self::Tonic(client) => drive(client, payload, concurrency, until).await,
            Self::Steadfast(client) => drive(client, payload, concurrency, until).await,
        }
    }
}

async fn drive<C: Caller>(
    client: &C,
    payload: &Payload,
    concurrency: usize,
    until: Until,
) -> Result<Vec<u32>, Failure> {
    let workers: Vec<_> = (0..concurrency)
        .map(|_| tokio::spawn(work(client.clone(), payload.clone(), concurrency, until)))
        .collect();
    let mut latencies = Vec::new();
    for worker in workers {
        latencies.extend(worker.await??);
    }
    Ok(latencies)
}

async fn work<C: Caller>(
    mut client: C,
    payload: Payload,
    concurrency: usize,
    until: Until,
) -> Result<Vec<u32>, Failure> {
    let mut latencies = Vec::new();
    match until {
        Until::Calls(calls) => {
            for _ in 0..calls / concurrency {
                call(&mut client, &payload).await?;
            }
        }
        Until::Time(end) => {
            let mut now = Instant::now();
            while now < end {
                call(&mut client, &payload).await?;
                let after = Instant::now();
                let nanos = after.duration_since(now).as_nanos();
                latencies.push(u32::try_from(nanos).unwrap_or(u32::MAX));
                now = after;
            }
        }
    }
    Ok(latencies)
}

async fn call<C: Caller>(client: &mut C, payload: &Payload) -> Result<(), Failure> {
    let size = client.call(payload).await?;
    if size < payload.item.len() {
        return Err(format!("an answer of {size} bytes").into());
    }
    Ok(())
}

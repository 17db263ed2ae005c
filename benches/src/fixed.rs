//! A fixed number of calls by one client on one thread, 64 at once, 32 bytes each: what
//! `benches/callgrind` runs twice and takes the difference of.

use crate::clients::{Client, Which};
use crate::load::Until;
use crate::payload::Payload;
use crate::{Failure, allocations};

const CONCURRENCY: usize = 64;
const SIZE: usize = 32;

/// Makes the calls, and prints the allocations of each.
pub(crate) fn run(which: &str, calls: &str, address: &str) -> Result<(), Failure> {
    let (which, calls, address) = (Which::parse(which)?, calls.parse()?, address.parse()?);
    let payload = Payload::new(SIZE);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = Client::connect(which, address).await?;
        let warm = Until::Calls(10 * CONCURRENCY);
        client.drive(&payload, CONCURRENCY, warm).await?;
        let before = allocations::count();
        client
            .drive(&payload, CONCURRENCY, Until::Calls(calls))
            .await?;
        if let (Some(before), Some(after)) = (before, allocations::count()) {
            let each = (after - before) as f64 / calls as f64;
            println!("{each:.1}");
        }
        Ok(())
    })
}

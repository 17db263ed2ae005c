//! An outage, lived through by two clients: a plain tonic `Channel`, and Steadfast.
//!
//! ```text
//! cargo run --release -p steadfast-tokio --example outage
//! ```
//!
//! A tonic server on loopback goes through a [script](plan::Plan) of trouble while calls
//! arrive at a fixed rate; first the one client makes them, then the other. A table at the
//! end compares what their callers and the server got. About 30 seconds; with `--short`, for
//! a machine that only wants to know whether it works, about 5.
//!
//! With `--addr` it calls a server of yours through Steadfast and tells what happened to each
//! attempt; see `--help`.

mod args;
mod codec;
mod load;
mod plan;
mod probe;
mod run;
mod say;
mod server;
mod table;
mod verdict;

use std::process::ExitCode;

use self::args::Command;
use self::plan::Plan;
use self::say::{say, say_error};

/// Bad arguments, or a server that can't be reached.
const WRONG: u8 = 2;

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            say_error(&error);
            return ExitCode::from(WRONG);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            say_error(&format!("can't start tokio: {error}"));
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        match command {
            Command::Help => {
                say(args::HELP);
                ExitCode::SUCCESS
            }
            Command::Outage { short: false } => outage(&Plan::full()).await,
            Command::Outage { short: true } => outage(&Plan::short()).await,
            Command::Probe(target) => match probe::run(&target).await {
                Ok(0) => ExitCode::FAILURE,
                Ok(_) => ExitCode::SUCCESS,
                Err(unreachable) => {
                    say_error(&unreachable);
                    ExitCode::from(WRONG)
                }
            },
        }
    })
}

async fn outage(plan: &Plan) -> ExitCode {
    say(&plan.to_string());
    let runs = async {
        let tonic = run::through_tonic(plan).await?;
        let steadfast = run::through_steadfast(plan).await?;
        std::io::Result::Ok([tonic, steadfast])
    };
    match runs.await {
        Ok([tonic, steadfast]) => {
            say(&table::totals(&tonic, &steadfast));
            say(&table::by_phase(plan, &tonic, &steadfast));
            say(&verdict::sentences(plan, &tonic, &steadfast));
            ExitCode::SUCCESS
        }
        Err(error) => {
            say_error(&format!("the server on loopback: {error}"));
            ExitCode::FAILURE
        }
    }
}

//! Steadfast measured against its peers, in one run. `README.md` says what and how.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program: its output is what it is for"
)]

mod allocations;
mod carts;
mod clients;
mod compare;
mod fixed;
mod load;
mod machines;
mod payload;
mod server;
mod table;

use std::process::ExitCode;

const USAGE: &str = "\
usage: benches [--quick]                    all clients under the same loads
       benches machines [--quick | --list]  what a decision costs
       benches serve                        the server, until its standard input ends
       benches calls <client> <calls> <address>
       benches machine <name> <times>";

/// Why a run ended early.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => compare::run(false),
        ["--quick"] => compare::run(true),
        ["machines"] => machines::run(false),
        ["machines", "--quick"] => machines::run(true),
        ["machines", "--list"] => {
            machines::list();
            Ok(())
        }
        ["serve"] => server::serve(),
        ["calls", which, calls, address] => fixed::run(which, calls, address),
        ["machine", name, times] => machines::repeat(name, times),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("benches: {error}");
            ExitCode::FAILURE
        }
    }
}

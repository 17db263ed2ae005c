//! Lines for the terminal.
//!
//! `println!` panics when the reader has left, as in `outage | head`. Nobody is left to be
//! told anything then, so these end the process without a word.

use std::io::{ErrorKind, Write, stderr, stdout};

/// A line of output.
pub(crate) fn say(line: &str) {
    if let Err(error) = writeln!(stdout().lock(), "{line}") {
        let reader_left = error.kind() == ErrorKind::BrokenPipe;
        std::process::exit(if reader_left { 0 } else { 1 });
    }
}

/// The one line that says why nothing could be done.
pub(crate) fn say_error(line: &str) {
    let _ = writeln!(stderr().lock(), "error: {line}");
}

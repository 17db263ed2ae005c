//! A server in a process of its own.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    port: u16,
    _child: Child,
}

impl Server {
    /// Starts `command`, told where the services' descriptors are, and waits until it prints the
    /// port it serves on.
    pub(crate) async fn start(command: &[&str]) -> Self {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .arg(concat!(env!("OUT_DIR"), "/descriptors.bin"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} doesn't start: {error}"));
        let stdout = child.stdout.take().expect("piped");
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("{command:?} doesn't tell its port"));
        let line = line.expect("readable").unwrap_or_default();
        let port = line.parse();
        Self {
            port: port.unwrap_or_else(|_| panic!("{command:?} told {line:?} for its port")),
            _child: child,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

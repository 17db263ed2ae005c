//! The rig that the tests of the connection share.

use core::time::Duration;

use super::*;
use crate::random::SeededRandom;

mod pace;
mod states;

/// Answers the same bits each time.
struct Pinned(u64);

impl Random for Pinned {
    fn next_u64(&mut self) -> u64 {
        self.0
    }
}

/// Draws 80 % of every backoff.
const fn shortest() -> Pinned {
    Pinned(0)
}

/// Draws every backoff as it is.
const fn middle() -> Pinned {
    Pinned(1 << 63)
}

/// Draws 120 % of every backoff.
const fn longest() -> Pinned {
    Pinned(u64::MAX)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn before(instant: Instant) -> Instant {
    Instant::from_nanos(instant.as_nanos() - 1)
}

fn idle() -> Connection {
    Connection::new(ConnectionSettings::default())
}

/// Dialing since `now`, as the first generation.
fn dialing(now: Instant) -> Connection {
    let mut connection = idle();
    dial(&mut connection, now);
    connection
}

/// Asks for a connection, which must be dialed at once. Answers its generation.
fn dial(connection: &mut Connection, now: Instant) -> u64 {
    connection.handle_demand(now);
    assert_eq!(connection.state(), ConnectionState::Connecting);
    match connection.poll_action() {
        Some(ConnectionAction::Dial { generation }) => generation,
        other => panic!("not dialed: {other:?}"),
    }
}

/// Ready since `now`, as the first generation.
fn ready(now: Instant) -> Connection {
    let mut connection = dialing(now);
    connection.handle_served(1, now);
    assert_eq!(connection.state(), ConnectionState::Ready);
    connection
}

/// Whatever could be done at `now` is done: time passes on an unused connection.
fn pass(connection: &mut Connection, now: Instant) {
    connection.handle_timeout(now, Usage::Busy, &mut middle());
}

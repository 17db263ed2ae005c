//! The states: what leads from one to the next, what is ignored, and what is final.

use super::*;

const HALF_AN_HOUR: u64 = 30 * 60 * 1_000;

/// Every state, with a name.
fn every_state() -> [(&'static str, Connection); 6] {
    let mut paced = ready(at(0));
    paced.handle_lost(1, false, &mut middle());
    paced.handle_demand(at(1));
    let mut failed = dialing(at(0));
    failed.handle_failed(1, at(1), &mut middle());
    let mut closed = idle();
    closed.handle_close();
    [
        ("idle", idle()),
        ("paced", paced),
        ("dialing", dialing(at(0))),
        ("ready", ready(at(0))),
        ("failed", failed),
        ("closed", closed),
    ]
}

fn text(connection: &Connection) -> alloc::string::String {
    alloc::format!("{connection:?}")
}

#[test]
fn nothing_is_dialed_before_a_call_needs_it() {
    let mut connection = idle();
    assert_eq!(connection.state(), ConnectionState::Idle);
    assert_eq!(connection.poll_timeout(), None);
    pass(&mut connection, Instant::from_nanos(u64::MAX));
    assert_eq!(connection.poll_action(), None);
    assert_eq!(connection.latch(), Latch::Unset);
}

#[test]
fn a_demand_dials_once() {
    let mut connection = dialing(at(0));
    for _ in 0..100 {
        connection.handle_demand(at(1));
        assert_eq!(connection.poll_action(), None);
    }
    connection.handle_served(1, at(2));
    connection.handle_demand(at(3));
    assert_eq!(connection.poll_action(), None);
    assert_eq!(connection.state(), ConnectionState::Ready);
}

#[test]
fn an_action_is_answered_once() {
    let mut connection = idle();
    connection.handle_demand(at(0));
    let dial = ConnectionAction::Dial { generation: 1 };
    assert_eq!(connection.poll_action(), Some(dial));
    assert_eq!(connection.poll_action(), None);
}

#[test]
fn word_of_another_generation_changes_nothing() {
    for (name, mut connection) in every_state() {
        let now = connection.now;
        let before = text(&connection);
        for generation in [0, 2, u64::MAX] {
            if generation == connection.generation {
                continue;
            }
            connection.handle_served(generation, now);
            connection.handle_failed(generation, now, &mut middle());
            connection.handle_lost(generation, false, &mut middle());
            assert_eq!(text(&connection), before, "{name}, {generation}");
        }
    }
}

#[test]
fn a_late_word_of_the_last_connection_does_not_touch_the_next() {
    let mut connection = ready(at(0));
    connection.handle_lost(1, true, &mut middle());
    assert_eq!(dial(&mut connection, at(1)), 2);
    connection.handle_served(1, at(2));
    connection.handle_failed(1, at(2), &mut middle());
    connection.handle_lost(1, false, &mut middle());
    assert_eq!(connection.state(), ConnectionState::Connecting);
    connection.handle_served(2, at(3));
    connection.handle_lost(1, false, &mut middle());
    connection.handle_failed(1, at(4), &mut middle());
    assert_eq!(connection.state(), ConnectionState::Ready);
}

#[test]
fn word_that_does_not_fit_the_state_changes_nothing() {
    let mut connection = ready(at(0));
    let look_at = connection.poll_timeout();
    connection.handle_served(1, at(5));
    connection.handle_failed(1, at(5), &mut middle());
    assert_eq!(connection.state(), ConnectionState::Ready);
    assert_eq!(connection.poll_timeout(), look_at);

    let mut connection = dialing(at(0));
    connection.handle_lost(1, false, &mut middle());
    assert_eq!(connection.state(), ConnectionState::Connecting);

    let mut connection = dialing(at(0));
    connection.handle_failed(1, at(0), &mut middle());
    let until = connection.poll_timeout();
    connection.handle_failed(1, at(900), &mut longest());
    connection.handle_served(1, at(900));
    connection.handle_lost(1, false, &mut longest());
    assert_eq!(connection.state(), ConnectionState::TransientFailure);
    assert_eq!(connection.poll_timeout(), until);
}

#[test]
fn an_unused_connection_goes_after_half_an_hour_to_the_nanosecond() {
    let mut connection = ready(at(100));
    let due = at(100 + HALF_AN_HOUR);
    assert_eq!(connection.poll_timeout(), Some(due));
    let unused = Usage::IdleSince(at(100));
    connection.handle_timeout(before(due), unused, &mut middle());
    assert_eq!(connection.state(), ConnectionState::Ready);
    connection.handle_timeout(due, unused, &mut middle());
    assert_eq!(connection.state(), ConnectionState::Idle);
    let retire = ConnectionAction::Retire { generation: 1 };
    assert_eq!(connection.poll_action(), Some(retire));
    assert_eq!(connection.poll_timeout(), None);
    assert_eq!(dial(&mut connection, due), 2, "dialed again when needed");
}

#[test]
fn the_last_stream_starts_the_half_hour_anew() {
    let mut connection = ready(at(0));
    let first_look = at(HALF_AN_HOUR);
    let since = Usage::IdleSince(at(7));
    connection.handle_timeout(first_look, since, &mut middle());
    assert_eq!(connection.state(), ConnectionState::Ready);
    let due = at(7 + HALF_AN_HOUR);
    assert_eq!(connection.poll_timeout(), Some(due));
    connection.handle_timeout(before(due), since, &mut middle());
    assert_eq!(connection.state(), ConnectionState::Ready);
    connection.handle_timeout(due, since, &mut middle());
    assert_eq!(connection.state(), ConnectionState::Idle);
}

#[test]
fn a_connection_in_use_is_never_let_go() {
    let mut connection = ready(at(0));
    for look in 1..=100 {
        let now = at(look * HALF_AN_HOUR);
        assert_eq!(connection.poll_timeout(), Some(now));
        connection.handle_timeout(now, Usage::Busy, &mut middle());
        assert_eq!(connection.state(), ConnectionState::Ready);
        assert_eq!(connection.poll_action(), None);
    }
}

#[test]
fn not_even_with_no_time_to_be_unused() {
    let mut connection = Connection::new(ConnectionSettings {
        idle_timeout: Duration::ZERO,
        ..ConnectionSettings::default()
    });
    dial(&mut connection, at(0));
    connection.handle_served(1, at(0));
    for _ in 0..100 {
        let now = connection.poll_timeout().expect("a look");
        connection.handle_timeout(now, Usage::Busy, &mut middle());
        assert!(connection.poll_timeout() > Some(now), "no spinning");
        assert_eq!(connection.state(), ConnectionState::Ready);
    }
    let now = connection.poll_timeout().expect("a look");
    connection.handle_timeout(now, Usage::IdleSince(before(now)), &mut middle());
    assert_eq!(connection.state(), ConnectionState::Idle);
}

#[test]
fn close_says_what_becomes_of_the_connection_and_is_final() {
    for (name, mut connection) in every_state() {
        connection.handle_close();
        let action = match name {
            "dialing" => Some(ConnectionAction::Abandon { generation: 1 }),
            "ready" => Some(ConnectionAction::Retire { generation: 1 }),
            _ => None,
        };
        assert_eq!(connection.poll_action(), action, "{name}");
        let last = Instant::from_nanos(u64::MAX);
        for _ in 0..2 {
            assert_eq!(connection.state(), ConnectionState::Closed, "{name}");
            assert_eq!(connection.latch(), Latch::Closed, "{name}");
            assert_eq!(connection.poll_timeout(), None, "{name}");
            connection.handle_demand(last);
            connection.handle_served(1, last);
            connection.handle_failed(1, last, &mut middle());
            connection.handle_lost(1, false, &mut middle());
            pass(&mut connection, last);
            assert_eq!(connection.poll_action(), None, "{name}");
            connection.handle_close();
        }
    }
}

#[test]
fn the_latch_is_set_by_the_first_ready_connection_and_stays_so() {
    let mut connection = dialing(at(0));
    assert_eq!(connection.latch(), Latch::Unset, "TCP alone is not ready");
    connection.handle_failed(1, at(0), &mut middle());
    assert_eq!(connection.latch(), Latch::Unset);
    dial(&mut connection, at(1_000));
    connection.handle_served(2, at(1_001));
    assert_eq!(connection.latch(), Latch::Set);
    connection.handle_lost(2, true, &mut middle());
    assert_eq!(connection.latch(), Latch::Set);
    dial(&mut connection, at(2_000));
    connection.handle_failed(3, at(2_001), &mut middle());
    assert_eq!(connection.latch(), Latch::Set);
    connection.handle_close();
    assert_eq!(connection.latch(), Latch::Closed);
}

#[test]
fn a_clock_that_steps_back_changes_nothing() {
    let mut connection = idle();
    pass(&mut connection, at(5_000));
    dial(&mut connection, at(1_000));
    assert_eq!(connection.poll_timeout(), Some(at(25_000)));
    connection.handle_served(1, at(2_000));
    let look_at = at(5_000 + HALF_AN_HOUR);
    assert_eq!(connection.poll_timeout(), Some(look_at));

    let mut connection = dialing(at(5_000));
    connection.handle_failed(1, at(5_900), &mut middle());
    pass(&mut connection, at(6_000));
    assert_eq!(connection.state(), ConnectionState::Idle);
    dial(&mut connection, at(0));
    assert_eq!(connection.poll_timeout(), Some(at(26_000)));
    connection.handle_failed(2, at(0), &mut middle());
    assert_eq!(connection.poll_timeout(), Some(at(7_600)));
}

#[test]
fn the_end_of_time_is_no_overflow() {
    let mut connection = Connection::new(ConnectionSettings {
        connect_timeout: Duration::MAX,
        idle_timeout: Duration::MAX,
        ..ConnectionSettings::default()
    });
    let last = Instant::from_nanos(u64::MAX);
    dial(&mut connection, at(1));
    assert_eq!(connection.poll_timeout(), Some(last));
    connection.handle_served(1, before(last));
    assert_eq!(connection.poll_timeout(), Some(last));
    connection.handle_lost(1, true, &mut longest());
    dial(&mut connection, last);
    connection.handle_failed(2, last, &mut longest());
    assert_eq!(connection.state(), ConnectionState::Idle, "no time is left");
}

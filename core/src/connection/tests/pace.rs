//! How often the server is dialed: the backoff after failures, and the pace of connections
//! that come up and serve nothing.

use super::*;
use alloc::vec::Vec;

/// Fails every attempt at once, each dialed as soon as the backoff allows. Answers the
/// backoffs in milliseconds.
fn backoffs(count: usize, random: &mut Pinned) -> Vec<u64> {
    let mut connection = idle();
    let mut now = at(5);
    (0..count)
        .map(|_| {
            let generation = dial(&mut connection, now);
            connection.handle_failed(generation, now, random);
            let until = connection.poll_timeout().expect("a backoff");
            let length = until.saturating_since(now);
            pass(&mut connection, before(until));
            assert_eq!(connection.state(), ConnectionState::TransientFailure);
            pass(&mut connection, until);
            assert_eq!(connection.state(), ConnectionState::Idle);
            assert_eq!(connection.poll_action(), None, "only a call dials");
            now = until;
            length.as_millis() as u64
        })
        .collect()
}

#[test]
fn the_backoff_grows_by_three_fifths_up_to_two_minutes() {
    assert_eq!(
        backoffs(13, &mut middle()),
        [
            1_000, 1_600, 2_560, 4_096, 6_553, 10_485, 16_777, 26_843, 42_949, 68_719, 109_951,
            120_000, 120_000
        ]
    );
}

#[test]
fn the_jitter_is_a_fifth_either_way_and_reaches_both_ends() {
    let shortest = backoffs(13, &mut shortest());
    assert_eq!(shortest[..3], [800, 1_280, 2_048]);
    assert_eq!(shortest[12], 96_000);
    let longest = backoffs(13, &mut longest());
    assert_eq!(longest[..3], [1_200, 1_920, 3_072]);
    assert_eq!(longest[12], 144_000);
}

#[test]
fn the_backoff_counts_from_the_start_of_the_attempt() {
    let mut connection = dialing(at(0));
    connection.handle_failed(1, at(300), &mut middle());
    assert_eq!(connection.poll_timeout(), Some(at(1_000)));
}

#[test]
fn an_attempt_that_took_longer_than_the_backoff_is_followed_by_none() {
    for (failed_at, state) in [
        (before(at(1_000)), ConnectionState::TransientFailure),
        (at(1_000), ConnectionState::Idle),
        (at(1_001), ConnectionState::Idle),
    ] {
        let mut connection = dialing(at(0));
        connection.handle_failed(1, failed_at, &mut middle());
        assert_eq!(connection.state(), state, "{failed_at:?}");
    }
}

#[test]
fn calls_do_not_dial_during_the_backoff_and_do_at_its_end() {
    let mut connection = dialing(at(0));
    connection.handle_failed(1, at(10), &mut middle());
    for now in [at(10), at(500), before(at(1_000))] {
        connection.handle_demand(now);
        assert_eq!(connection.state(), ConnectionState::TransientFailure);
        assert_eq!(connection.poll_action(), None);
    }
    assert_eq!(dial(&mut connection, at(1_000)), 2, "no timeout came first");
}

#[test]
fn only_the_servers_settings_start_the_backoff_anew() {
    let mut connection = idle();
    let mut now = at(0);
    for _ in 0..5 {
        let generation = dial(&mut connection, now);
        connection.handle_failed(generation, now, &mut middle());
        now = connection.poll_timeout().expect("a backoff");
    }
    let generation = dial(&mut connection, now);
    connection.handle_served(generation, now);
    connection.handle_lost(generation, true, &mut middle());
    assert_eq!(connection.state(), ConnectionState::Idle);
    let generation = dial(&mut connection, now);
    connection.handle_failed(generation, now, &mut middle());
    let backoff = connection
        .poll_timeout()
        .expect("a backoff")
        .saturating_since(now);
    assert_eq!(backoff, seconds(1), "the first one again");
}

#[test]
fn an_attempt_may_take_as_long_as_the_connect_timeout() {
    let mut connection = dialing(at(0));
    assert_eq!(connection.poll_timeout(), Some(at(20_000)));
    pass(&mut connection, before(at(20_000)));
    assert_eq!(connection.state(), ConnectionState::Connecting);
    assert_eq!(connection.poll_action(), None);
    pass(&mut connection, at(20_000));
    assert_eq!(
        connection.poll_action(),
        Some(ConnectionAction::Abandon { generation: 1 })
    );
    assert_eq!(
        connection.state(),
        ConnectionState::Idle,
        "the backoff of a second is over by then"
    );
    connection.handle_served(1, at(20_001));
    assert_eq!(connection.state(), ConnectionState::Idle, "too late");
    assert_eq!(dial(&mut connection, at(20_001)), 2);
}

#[test]
fn a_timed_out_attempt_is_a_failure_that_grows_the_backoff() {
    let mut connection = Connection::new(ConnectionSettings {
        connect_timeout: seconds(1),
        ..ConnectionSettings::default()
    });
    dial(&mut connection, at(0));
    connection.handle_timeout(at(1_000), Usage::Busy, &mut longest());
    assert_eq!(connection.state(), ConnectionState::TransientFailure);
    assert_eq!(connection.poll_timeout(), Some(at(1_200)));
    let abandon = ConnectionAction::Abandon { generation: 1 };
    assert_eq!(connection.poll_action(), Some(abandon));
    dial(&mut connection, at(1_200));
    connection.handle_failed(2, at(1_200), &mut middle());
    assert_eq!(connection.poll_timeout(), Some(at(2_800)));
}

/// Dials `count` connections, each of which comes up and is killed within a millisecond
/// while a call waits. Answers how long that took.
fn dial_and_kill(count: u64, random: &mut impl Random) -> Duration {
    let mut connection = idle();
    let mut now = at(0);
    for generation in 1..=count {
        connection.handle_demand(now);
        assert_eq!(connection.state(), ConnectionState::Connecting, "a wait");
        let dial = ConnectionAction::Dial { generation };
        match connection.poll_action() {
            Some(action) => assert_eq!(action, dial),
            None => {
                let until = connection.poll_timeout().expect("paced");
                assert!(until > now);
                pass(&mut connection, before(until));
                assert_eq!(connection.poll_action(), None, "not before its time");
                now = until;
                pass(&mut connection, now);
                assert_eq!(connection.poll_action(), Some(dial));
            }
        }
        now = now.saturating_add(Duration::from_millis(1));
        connection.handle_served(generation, now);
        connection.handle_lost(generation, false, random);
    }
    now.saturating_since(at(1))
}

#[test]
fn connections_that_serve_nothing_are_dialed_once_a_first_backoff_on_average() {
    assert_eq!(dial_and_kill(100, &mut middle()), seconds(99));
    assert_eq!(
        dial_and_kill(100, &mut shortest()),
        Duration::from_millis(99 * 800)
    );
    assert_eq!(
        dial_and_kill(100, &mut longest()),
        Duration::from_millis(99 * 1_200)
    );
    for seed in 0..20 {
        let took = dial_and_kill(1_000, &mut SeededRandom::new(seed)).as_millis();
        assert!((979_000..=1_019_000).contains(&took), "{took} ms");
    }
}

#[test]
fn a_connection_that_served_a_call_is_dialed_again_at_once() {
    let mut connection = ready(at(0));
    connection.handle_lost(1, true, &mut longest());
    assert_eq!(connection.poll_action(), None, "when a call wants it");
    assert_eq!(dial(&mut connection, at(1)), 2);
}

#[test]
fn the_pace_counts_from_the_dial() {
    let mut connection = ready(at(0));
    connection.handle_lost(1, false, &mut middle());
    connection.handle_demand(at(999));
    assert_eq!(connection.poll_timeout(), Some(at(1_000)));
    assert_eq!(connection.poll_action(), None);

    let mut connection = ready(at(0));
    connection.handle_lost(1, false, &mut middle());
    assert_eq!(dial(&mut connection, at(1_000)), 2, "that long ago already");
}

#[test]
fn who_asks_for_a_connection_now_cuts_every_wait_short() {
    let mut failed = dialing(at(0));
    failed.handle_failed(1, at(1), &mut middle());
    let mut paced = ready(at(0));
    paced.handle_lost(1, false, &mut middle());
    paced.handle_demand(at(1));
    for (mut connection, generation) in [(idle(), 1), (failed, 2), (paced, 2)] {
        connection.handle_connect_now(at(2));
        let dial = ConnectionAction::Dial { generation };
        assert_eq!(connection.poll_action(), Some(dial));
        // It is an attempt like any other, and the first of its kind.
        connection.handle_failed(generation, at(3), &mut middle());
        assert_eq!(connection.poll_timeout(), Some(at(1_002)));
    }
}

#[test]
fn a_connection_on_its_way_or_up_or_closed_is_not_dialed_for_asking() {
    let mut closed = idle();
    closed.handle_close();
    for mut connection in [dialing(at(0)), ready(at(0)), closed] {
        let state = connection.state();
        connection.handle_connect_now(at(1));
        assert_eq!(connection.poll_action(), None);
        assert_eq!(connection.state(), state);
    }
}

//! Bad settings are named, all at once, before anything is dialed.

use std::time::Duration;

use steadfast_tokio::{
    BreakerSettings, Http2Settings, KeepaliveSettings, RetryBudget, Settings, connect,
};

#[tokio::test]
async fn every_bad_field_is_reported_by_name_in_one_error() {
    let error = connect(Settings {
        addr: "http://carts".to_owned(),
        timeout: Duration::ZERO,
        max_attempts: 0,
        backoff_base: Duration::ZERO,
        backoff_max: Duration::ZERO,
        retry_budget: RetryBudget {
            max_tokens: 2,
            token_ratio: 0.0,
        },
        breaker: BreakerSettings {
            window: 0,
            probes: 65_536,
            open_for: Duration::ZERO,
            probe_timeout: Duration::ZERO,
        },
        ..Settings::default()
    })
    .expect_err("nothing of it is valid");
    let fields: Vec<_> = error
        .invalid()
        .iter()
        .map(|invalid| invalid.field)
        .collect();
    assert_eq!(
        fields,
        [
            "addr",
            "timeout",
            "max_attempts",
            "backoff_base",
            "backoff_max",
            "retry_budget.max_tokens",
            "retry_budget.token_ratio",
            "breaker.window",
            "breaker.probes",
            "breaker.open_for",
            "breaker.probe_timeout",
        ]
    );
    for invalid in error.invalid() {
        assert!(!invalid.reason.contains(invalid.field), "{invalid:?}");
        let sentence = format!("{} {}", invalid.field, invalid.reason);
        assert!(error.to_string().contains(&sentence), "{error}");
    }
}

#[tokio::test]
async fn the_connections_numbers_are_checked_with_the_others() {
    let connection = steadfast_tokio::ConnectionSettings {
        connect_timeout: Duration::ZERO,
        idle_timeout: Duration::ZERO,
        keepalive: Some(KeepaliveSettings {
            timeout: Duration::ZERO,
            ..KeepaliveSettings::new(Duration::ZERO)
        }),
    };
    let http2 = Http2Settings {
        stream_window: 65_534,
        connection_window: 1 << 31,
        max_header_list_size: 0,
        ..Http2Settings::default()
    };
    let error = steadfast_tokio::builder(Settings::default())
        .connection(connection)
        .http2(http2)
        .connect()
        .expect_err("none is valid, and there is no address");
    let fields: Vec<_> = error
        .invalid()
        .iter()
        .map(|invalid| invalid.field)
        .collect();
    assert_eq!(
        fields,
        [
            "addr",
            "connection.connect_timeout",
            "connection.idle_timeout",
            "connection.keepalive.timeout",
            "http2.stream_window",
            "http2.connection_window",
            "http2.max_header_list_size",
        ]
    );
}

#[tokio::test]
async fn the_defaults_lack_only_an_address() {
    let error = connect(Settings::default()).expect_err("no address");
    assert_eq!(
        error.to_string(),
        "invalid settings: addr must be host:port, with a port, not \"\""
    );
    connect(Settings {
        addr: "[::1]:1".to_owned(),
        ..Settings::default()
    })
    .expect("and nothing is dialed");
}

#[tokio::test]
async fn the_ends_of_every_range_are_valid() {
    let tiny = Duration::from_nanos(1);
    for (duration, number, tokens, ratio) in
        [(tiny, 1, 3, 0.001), (Duration::MAX, 65_535, 1_000, 1_000.0)]
    {
        connect(Settings {
            addr: "localhost:65535".to_owned(),
            timeout: duration,
            max_attempts: if number == 1 { 1 } else { u32::MAX },
            backoff_base: duration,
            backoff_max: duration,
            retry_budget: RetryBudget {
                max_tokens: tokens,
                token_ratio: ratio,
            },
            breaker: BreakerSettings {
                window: number,
                probes: number,
                open_for: duration,
                probe_timeout: duration,
            },
            ..Settings::default()
        })
        .expect("valid");
    }
}

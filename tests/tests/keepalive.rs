//! Keepalive pings find a peer that is gone without a word, and no server is pinged more than
//! it bears (gRFC A8).

use std::time::Duration;

use steadfast_tests::{Raw, Wire, item, raw, settle, unary};
use steadfast_tokio::{CallReport, ConnectionSettings, KeepaliveSettings, Progress};
use tokio::time::Instant;
use tonic::Code;

const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);

fn pinging(time: Duration) -> Wire {
    Wire::new(ConnectionSettings {
        keepalive: Some(KeepaliveSettings {
            timeout: 2 * SECOND,
            ..KeepaliveSettings::new(time)
        }),
        ..ConnectionSettings::default()
    })
}

/// When the next PING of our own comes. What acknowledges SETTINGS and the like is passed over.
async fn next_ping(peer: &mut Raw) -> (Instant, Vec<u8>) {
    loop {
        let frame = tokio::time::timeout(1_000 * SECOND, peer.next_of(raw::PING));
        let frame = frame.await.expect("a ping");
        if frame.flags & raw::ACK == 0 {
            return (Instant::now(), frame.payload);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_pinged_and_given_up_and_the_next_call_dials_anew() {
    let mut wire = pinging(10 * SECOND);
    let call = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    let heard = Instant::now();
    let (pinged, _) = next_ping(&mut peer).await;
    assert_eq!(pinged - heard, 10 * SECOND);

    let status = call.await.expect("no panic").expect_err("the peer is gone");
    assert_eq!(heard.elapsed(), 12 * SECOND);
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(
        status.message(),
        "the connection to carts.test:1 was lost: a keepalive ping had no answer within 2s"
    );
    let report = CallReport::of(&status).expect("a report");
    assert_eq!(report.attempts()[0].progress, Progress::MaybeProcessed);

    let next = wire.call();
    let mut peer = wire.accept().await;
    let stream = peer.next_of(raw::HEADERS).await.stream;
    peer.answer(stream).await;
    next.await.expect("no panic").expect("on a new connection");
}

#[tokio::test(start_paused = true)]
async fn a_time_below_ten_seconds_acts_as_ten() {
    let mut wire = pinging(SECOND);
    let _call = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    let heard = Instant::now();
    let (pinged, _) = next_ping(&mut peer).await;
    assert_eq!(pinged - heard, 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_answered_ping_keeps_a_slow_call_for_as_long_as_it_takes() {
    let mut wire = pinging(10 * SECOND);
    let call = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    let mut heard = Instant::now();
    for _ in 0..20 {
        let (pinged, opaque) = next_ping(&mut peer).await;
        assert_eq!(pinged - heard, 10 * SECOND);
        // At the last moment.
        tokio::time::sleep(2 * SECOND - NANO).await;
        peer.send(raw::PING, raw::ACK, 0, &opaque).await;
        heard = Instant::now();
        settle().await;
    }
    peer.answer(1).await;
    call.await.expect("no panic").expect("answered");
}

#[tokio::test(start_paused = true)]
async fn whatever_the_peer_sends_is_a_sign_of_life() {
    let mut wire = pinging(10 * SECOND);
    let call = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    for _ in 0..3 {
        tokio::time::sleep(9 * SECOND).await;
        peer.send(raw::SETTINGS, 0, 0, &[]).await;
        settle().await;
    }
    let heard = Instant::now();
    let (pinged, _) = next_ping(&mut peer).await;
    assert_eq!(pinged - heard, 10 * SECOND);
    // Not the answer, but it comes from the peer.
    peer.send(raw::SETTINGS, 0, 0, &[]).await;
    settle().await;
    tokio::time::sleep(5 * SECOND).await;
    assert!(!call.is_finished(), "the peer is there");
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_call_is_not_pinged_until_one_begins() {
    let mut wire = pinging(10 * SECOND);
    let first = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    peer.answer(1).await;
    first.await.expect("no panic").expect("answered");
    let silence = tokio::time::timeout(60 * SECOND, peer.next_of(raw::PING));
    silence.await.expect_err("no ping");

    let began = Instant::now();
    let call = wire.call();
    let (pinged, _) = next_ping(&mut peer).await;
    assert_eq!(pinged, began, "it has been quiet for long enough");
    let status = call.await.expect("no panic").expect_err("the peer is gone");
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(began.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn one_is_pinged_without_a_call_if_that_was_asked_for() {
    let mut wire = Wire::new(ConnectionSettings {
        keepalive: Some(KeepaliveSettings {
            without_calls: true,
            ..KeepaliveSettings::new(30 * SECOND)
        }),
        ..ConnectionSettings::default()
    });
    let call = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    peer.answer(1).await;
    call.await.expect("no panic").expect("answered");
    let heard = Instant::now();
    let (pinged, _) = next_ping(&mut peer).await;
    assert_eq!(pinged - heard, 30 * SECOND);
    // It is given up, and nothing is dialed: nobody calls.
    while peer.next().await.is_some() {}
    assert_eq!(heard.elapsed(), 50 * SECOND);
    settle().await;
    wire.connections.try_recv().expect_err("nobody calls");
}

#[tokio::test(start_paused = true)]
async fn without_keepalive_nothing_is_pinged() {
    let mut wire = Wire::new(ConnectionSettings::default());
    let call = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    let silence = tokio::time::timeout(500 * SECOND, peer.next_of(raw::PING));
    silence.await.expect_err("no ping");
    assert!(!call.is_finished());
}

/// How long the next connection is quiet before its ping, after the last one was ended with
/// this code and debug data.
async fn after_goaway(wire: &mut Wire, peer: &mut Raw, code: u32, debug: &[u8]) -> Duration {
    peer.goaway(0, code, debug).await;
    settle().await;
    let call = wire.call();
    *peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    let heard = Instant::now();
    let (pinged, opaque) = next_ping(peer).await;
    peer.send(raw::PING, raw::ACK, 0, &opaque).await;
    call.abort();
    settle().await;
    pinged - heard
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_pinged_too_often_is_pinged_half_as_often() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let mut wire = pinging(10 * SECOND);
    let call = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    call.abort();
    settle().await;
    let calm = ENHANCE_YOUR_CALM;
    for (code, debug, expected) in [
        (0, &b"too_many_pings"[..], 10),
        (calm, b"something else", 10),
        (calm, b"too_many_pings", 20),
        (calm, b"too_many_pings", 40),
        (0, b"", 40),
    ] {
        let quiet = after_goaway(&mut wire, &mut peer, code, debug).await;
        assert_eq!(quiet, expected * SECOND, "{code} {debug:?}");
    }
}

/// The connection that only finishes what it has is watched like the one that takes calls.
#[tokio::test(start_paused = true)]
async fn a_draining_peer_that_falls_silent_is_found_too() {
    let mut wire = pinging(10 * SECOND);
    let call = wire.call_with(unary(item(b"x")));
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    peer.goaway(1, 0, b"").await;
    settle().await;
    let heard = Instant::now();
    let status = call.await.expect("no panic").expect_err("the peer is gone");
    assert_eq!(heard.elapsed(), 12 * SECOND);
    assert!(status.message().contains("keepalive"), "{status:?}");
}

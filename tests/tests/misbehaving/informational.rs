//! Informational answers come before the one that counts (RFC 9113, section 8.1).

use steadfast_tests::{Wire, raw};
use steadfast_tokio::ConnectionSettings;

#[tokio::test(start_paused = true)]
async fn informational_answers_are_skipped() {
    let mut wire = Wire::new(ConnectionSettings::default());
    let call = wire.call();
    let mut peer = wire.accept().await;
    let stream = peer.next_of(raw::HEADERS).await.stream;
    for status in ["100", "103", "199"] {
        let head = raw::headers(&[(":status", status), ("grpc-status", "14")]);
        peer.send(raw::HEADERS, raw::END_HEADERS, stream, &head)
            .await;
    }
    peer.answer(stream).await;
    call.await.expect("no panic").expect("OK");
}

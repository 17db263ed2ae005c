//! Bytes come in whatever pieces the network likes.

use steadfast_tests::{Raw, Wire, raw};
use steadfast_tokio::ConnectionSettings;
use steadfast_tokio::{Random as _, SeededRandom};
use tonic::Code;

const ANSWERS: usize = 10_000;

/// Where an answer is cut.
fn cuts(number: usize, length: usize, random: &mut SeededRandom) -> Vec<usize> {
    match number % 8 {
        0 => vec![],
        1 => (1..length).collect(),
        pieces => {
            let mut cuts: Vec<_> = (0..pieces)
                .map(|_| random.next_u64() as usize % length)
                .collect();
            cuts.sort_unstable();
            cuts
        }
    }
}

async fn send_cut(peer: &mut Raw, bytes: &[u8], cuts: Vec<usize>) {
    let mut sent = 0;
    for cut in cuts.into_iter().chain([bytes.len()]) {
        peer.write(&bytes[sent..cut]).await;
        sent = cut;
        // The connection reads what there is.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_the_same_however_it_is_cut() {
    let message = [&[0, 0, 0, 0, 6, 8, 1, 18, 2][..], b"ok"].concat();
    let head = raw::headers(&[(":status", "200"), ("content-type", "application/grpc")]);
    let mut wire = Wire::new(ConnectionSettings::default());
    let mut random = SeededRandom::new(1);
    let first = wire.call();
    let mut peer = wire.accept().await;
    peer.next_of(raw::HEADERS).await;
    peer.answer(1).await;
    first.await.expect("no panic").expect("OK");

    for number in 0..ANSWERS {
        let call = wire.call();
        let stream = peer.next_of(raw::HEADERS).await.stream;
        let fails = number % 3 == 0;
        let status = if fails { "5" } else { "0" };
        let trailers = raw::headers(&[("grpc-status", status), ("grpc-message", "as it came")]);
        let bytes = [
            raw::frame(raw::HEADERS, raw::END_HEADERS, stream, &head),
            raw::frame(raw::DATA, 0, stream, &message),
            raw::frame(
                raw::HEADERS,
                raw::END_HEADERS | raw::END_STREAM,
                stream,
                &trailers,
            ),
        ]
        .concat();
        let cuts = cuts(number, bytes.len(), &mut random);
        send_cut(&mut peer, &bytes, cuts.clone()).await;
        match call.await.expect("no panic") {
            Ok(response) => assert_eq!((response.items, &response.item[..]), (1, &b"ok"[..])),
            Err(status) if fails => {
                assert_eq!(status.code(), Code::NotFound, "{status}, cut at {cuts:?}");
                assert_eq!(status.message(), "as it came");
            }
            Err(status) => panic!("{status}, cut at {cuts:?}"),
        }
    }
}

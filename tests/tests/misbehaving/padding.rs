//! Padding counts against the windows as data does (RFC 9113, section 6.1), and is nobody's to
//! read.

use steadfast_tests::carts::ListItemsRequest;
use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::{Wire, raw};
use steadfast_tokio::{CallKind, ConnectionSettings};

const PADDED: u8 = 0x8;
const WINDOW_UPDATE: u8 = 0x8;

#[tokio::test(start_paused = true)]
async fn padding_is_given_back_to_the_windows() {
    let mut wire = Wire::new(ConnectionSettings::default());
    let mut carts = CartServiceClient::new(wire.client.clone());
    let reading = tokio::spawn(async move {
        let request = CallKind::Streaming.mark(ListItemsRequest { count: 0 });
        let mut items = carts.list_items(request).await?.into_inner();
        let mut count = 0;
        while items.message().await?.is_some() {
            count += 1;
        }
        Ok::<_, tonic::Status>(count)
    });
    let mut peer = wire.accept().await;
    let stream = peer.next_of(raw::HEADERS).await.stream;
    let head = raw::headers(&[(":status", "200"), ("content-type", "application/grpc")]);
    peer.send(raw::HEADERS, raw::END_HEADERS, stream, &head)
        .await;

    // One empty message in each frame, and as much padding as there can be.
    let payload = [&[255][..], &[0; 5], &[0; 255]].concat();
    let window = 256 * 1024;
    let (mut credit, mut sent) = (window, 0);
    while sent < 4 * window {
        while credit < payload.len() {
            let update = peer.next_of(WINDOW_UPDATE).await;
            let increment = <[u8; 4]>::try_from(&update.payload[..]).expect("four bytes");
            if update.stream == stream {
                credit += u32::from_be_bytes(increment) as usize;
            }
        }
        peer.send(raw::DATA, PADDED, stream, &payload).await;
        credit -= payload.len();
        sent += payload.len();
    }
    let trailers = raw::headers(&[("grpc-status", "0")]);
    let flags = raw::END_HEADERS | raw::END_STREAM;
    peer.send(raw::HEADERS, flags, stream, &trailers).await;
    let count = reading.await.expect("no panic").expect("OK");
    assert_eq!(count, sent / payload.len());
}

//! Peers that are no proper gRPC servers: proxies, cut streams, resets, broken trailers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response};
use steadfast_tests::carts::cart_service_client::CartServiceClient;
use steadfast_tests::carts::{AddItemResponse, Item, ListItemsRequest};
use steadfast_tests::{Peer, item, unary};
use steadfast_tokio::{CallReport, End, NeverOpen, Progress, Settings};
use tonic::{Code, Status};

type Answer = SendResponse<Bytes>;

fn settings() -> Settings {
    Settings {
        breaker_policy: Arc::new(NeverOpen),
        ..Settings::default()
    }
}

fn headers() -> http::response::Builder {
    Response::builder().header("content-type", "application/grpc")
}

fn message(items: u32) -> Bytes {
    framed(AddItemResponse {
        items,
        item: vec![9; 100],
    })
}

/// A message larger than the replay limit.
fn large() -> Bytes {
    framed(AddItemResponse {
        items: 1,
        item: vec![9; 300_000],
    })
}

fn framed(message: impl prost::Message) -> Bytes {
    let message = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    framed.into()
}

fn trailers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            let value = HeaderValue::from_bytes(value).expect("a header value");
            (http::HeaderName::from_static(name), value)
        })
        .collect()
}

/// HEADERS, one message a chunk, trailers.
fn answer(mut to: Answer, chunks: &[Bytes], end: HeaderMap) {
    let mut stream = to
        .send_response(headers().body(()).unwrap(), false)
        .expect("sent");
    for chunk in chunks {
        stream.send_data(chunk.clone(), false).expect("sent");
    }
    stream.send_trailers(end).expect("sent");
}

fn ok() -> HeaderMap {
    trailers(&[("grpc-status", b"0")])
}

/// Calls a peer that answers every request so; the attempts it saw, and the result.
async fn call(
    respond: impl Fn(usize, Answer) + Send + Sync + 'static,
) -> (usize, Result<AddItemResponse, Status>) {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let peer = Peer::new(settings(), move |n, _, to| {
        counted.fetch_add(1, Ordering::Relaxed);
        respond(n, to);
    });
    let mut carts = CartServiceClient::new(peer.client);
    let result = carts.add_item(unary(item(b"x"))).await;
    (
        attempts.load(Ordering::Relaxed),
        result.map(tonic::Response::into_inner),
    )
}

#[tokio::test(start_paused = true)]
async fn a_proxy_error_page_is_named_and_not_decoded() {
    for (http, code, attempts) in [
        (400, Code::Internal, 1),
        (401, Code::Unauthenticated, 1),
        (403, Code::PermissionDenied, 1),
        (404, Code::Unimplemented, 1),
        (418, Code::Unknown, 1),
        (429, Code::Unavailable, 3),
        (500, Code::Unknown, 1),
        (502, Code::Unavailable, 3),
        (503, Code::Unavailable, 3),
        (504, Code::Unavailable, 3),
        (200, Code::Unknown, 1),
    ] {
        let (seen, result) = call(move |_, mut to| {
            let head = Response::builder()
                .status(http)
                .header("content-type", "text/html");
            let mut stream = to
                .send_response(head.body(()).unwrap(), false)
                .expect("sent");
            stream
                .send_data(Bytes::from_static(b"<html>"), true)
                .expect("sent");
        })
        .await;
        let status = result.expect_err("no gRPC");
        assert_eq!((status.code(), seen), (code, attempts), "{http}");
        let text = status.message();
        assert!(
            text.contains(&http.to_string()) && text.contains("text/html"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_grpc_status_wins_over_the_http_status() {
    let (_, result) = call(|_, mut to| {
        let head = Response::builder().status(503).header("grpc-status", "5");
        to.send_response(head.body(()).unwrap(), true)
            .expect("sent");
    })
    .await;
    assert_eq!(result.expect_err("failed").code(), Code::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_status_after_the_headers_is_retried_for_a_unary_call() {
    let (seen, result) = call(|n, to| match n {
        0 => answer(to, &[], trailers(&[("grpc-status", b"14")])),
        1 => answer(to, &[message(1)], trailers(&[("grpc-status", b"14")])),
        _ => answer(to, &[message(7)], ok()),
    })
    .await;
    assert_eq!((seen, result.expect("the third").items), (3, 7));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_opened_is_not_retried() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let peer = Peer::new(settings(), move |_, _, to| {
        counted.fetch_add(1, Ordering::Relaxed);
        answer(
            to,
            &[],
            trailers(&[("grpc-status", b"14"), ("grpc-message", b"gone")]),
        );
    });
    let mut carts = CartServiceClient::new(peer.client.clone());
    let request = ListItemsRequest { count: 1 };
    let mut items = carts
        .list_items(request)
        .await
        .expect("opened")
        .into_inner();
    let status = items.message().await.expect_err("its end");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "gone")
    );
    assert_eq!(
        CallReport::of(&status).expect("a report").end(),
        &End::Opened
    );
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    assert_eq!(
        peer.client.breaker().1.failures,
        1,
        "its end settles the breaker"
    );
    assert_eq!(peer.client.budget_millitokens(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_response_cut_without_trailers_is_never_a_clean_end() {
    let (seen, result) = call(|_, mut to| {
        let mut stream = to
            .send_response(headers().body(()).unwrap(), false)
            .expect("sent");
        stream.send_data(message(1), true).expect("sent");
    })
    .await;
    let status = result.expect_err("cut");
    assert_eq!((status.code(), seen), (Code::Unknown, 1));
    assert!(
        status.message().contains("without a grpc-status"),
        "{}",
        status.message()
    );
}

#[tokio::test(start_paused = true)]
async fn a_unary_call_has_exactly_one_message() {
    for (chunks, part) in [
        (vec![], "none"),
        (vec![message(1), message(2)], "more than one"),
        (
            vec![[message(1), message(2)].concat().into()],
            "more than one",
        ),
        (vec![message(1).slice(..20)], "a part of one"),
    ] {
        let (seen, result) = call(move |_, to| answer(to, &chunks, ok())).await;
        let status = result.expect_err("not one message");
        assert_eq!((status.code(), seen), (Code::Internal, 1));
        assert!(status.message().ends_with(part), "{}", status.message());
    }
    // Too large to be held, a response is passed on as it comes, and judged all the same.
    for (chunks, part) in [
        (vec![large(), message(2)], "more than one"),
        (vec![large().slice(..290_000)], "a part of one"),
    ] {
        let (seen, result) = call(move |_, to| answer(to, &chunks, ok())).await;
        let status = result.expect_err("not one message");
        assert_eq!((status.code(), seen), (Code::Internal, 1), "{status:?}");
        assert!(status.message().ends_with(part), "{}", status.message());
    }
    let (_, result) = call(|_, to| answer(to, &[large()], ok())).await;
    assert_eq!(result.expect("one message").item.len(), 300_000);
    let (_, result) = call(|_, to| answer(to, &[], trailers(&[("grpc-status", b"5")]))).await;
    assert_eq!(result.expect_err("its own status").code(), Code::NotFound);
    let (_, result) = call(|_, mut to| {
        let head = headers().header("grpc-status", "0").body(()).unwrap();
        to.send_response(head, true).expect("sent");
    })
    .await;
    assert_eq!(result.expect_err("trailers-only OK").code(), Code::Internal);
}

#[tokio::test(start_paused = true)]
async fn resets_map_as_the_protocol_says() {
    for (reason, code, attempts, progress) in [
        (
            Reason::NO_ERROR,
            Code::Internal,
            1,
            Progress::MaybeProcessed,
        ),
        (
            Reason::PROTOCOL_ERROR,
            Code::Internal,
            1,
            Progress::MaybeProcessed,
        ),
        (
            Reason::INTERNAL_ERROR,
            Code::Internal,
            1,
            Progress::MaybeProcessed,
        ),
        (
            Reason::FLOW_CONTROL_ERROR,
            Code::Internal,
            1,
            Progress::MaybeProcessed,
        ),
        (Reason::CANCEL, Code::Cancelled, 1, Progress::MaybeProcessed),
        (
            Reason::ENHANCE_YOUR_CALM,
            Code::ResourceExhausted,
            1,
            Progress::MaybeProcessed,
        ),
        (
            Reason::INADEQUATE_SECURITY,
            Code::PermissionDenied,
            1,
            Progress::MaybeProcessed,
        ),
        // Three attempts, and the transparent one.
        (
            Reason::REFUSED_STREAM,
            Code::Unavailable,
            4,
            Progress::NotProcessed,
        ),
        (
            Reason::from(0x77),
            Code::Internal,
            1,
            Progress::MaybeProcessed,
        ),
    ] {
        let (seen, result) = call(move |_, mut to| to.send_reset(reason)).await;
        let status = result.expect_err("reset");
        assert_eq!(
            (status.code(), seen),
            (code, attempts),
            "{reason:?}: {status:?}"
        );
        let report = CallReport::of(&status).expect("a report");
        let attempt = report.attempts().last().expect("an attempt");
        assert_eq!(attempt.http2_code, Some(reason.into()), "{reason:?}");
        assert_eq!(attempt.progress, progress, "{reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_goes_again_once_at_no_cost() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let attempts = Arc::clone(&heard);
    let peer = Peer::new(settings(), move |n, headers, mut to| {
        let previous = headers.get("grpc-previous-rpc-attempts").cloned();
        attempts
            .lock()
            .unwrap()
            .push((tokio::time::Instant::now(), previous));
        match n {
            0 => to.send_reset(Reason::REFUSED_STREAM),
            _ => answer(to, &[message(1)], ok()),
        }
    });
    let mut carts = CartServiceClient::new(peer.client.clone());
    carts.add_item(unary(item(b"x"))).await.expect("sent again");
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[0].0, heard[1].0, "at once");
    assert_eq!(heard[1].1, None, "not another attempt");
    assert_eq!(peer.client.budget_millitokens(), 10_000);
    assert_eq!(peer.client.breaker().1.results(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_after_the_deadline_was_the_deadline() {
    for (millis, code) in [(50, Code::Cancelled), (100, Code::DeadlineExceeded)] {
        let peer = Peer::new(settings(), move |_, _, mut to| {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                to.send_reset(Reason::CANCEL);
            });
        });
        let mut request = unary(item(b"x"));
        request.set_timeout(Duration::from_millis(100));
        let mut carts = CartServiceClient::new(peer.client);
        let status = carts.add_item(request).await.expect_err("cancelled");
        assert_eq!(status.code(), code, "at {millis} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn any_bytes_in_the_trailers_are_a_status_and_no_panic() {
    // Every byte that a header value may hold, in each trailer that is read.
    let allowed: Vec<u8> = (0x20..=0x7e).chain(0x80..=0xff).chain([b'\t']).collect();
    let mut values: Vec<Vec<u8>> = allowed.iter().map(|byte| vec![*byte]).collect();
    values.extend([
        vec![],
        allowed.clone(),
        b"%".to_vec(),
        b"%e9%".to_vec(),
        b"16".to_vec(),
    ]);
    let next = values.clone();
    let peer = Peer::new(
        Settings {
            max_attempts: 1,
            ..settings()
        },
        move |n, _, to| {
            let value = &next[n / 4];
            let mut end = trailers(&[("grpc-status", b"9"), ("grpc-message", b"m")]);
            let name = [
                "grpc-status",
                "grpc-message",
                "grpc-retry-pushback-ms",
                "grpc-status-details-bin",
            ];
            end.insert(
                name[n % 4],
                HeaderValue::from_bytes(value).expect("allowed"),
            );
            answer(to, &[message(1)], end);
        },
    );
    let mut carts = CartServiceClient::new(peer.client);
    for value in &values {
        for trailer in 0..4 {
            let result = carts.add_item(unary(item(b"x"))).await;
            match (trailer, value.as_slice()) {
                (0, b"0") => drop(result.expect("a status of 0 is OK")),
                (0, _) => drop(result.expect_err("some code")),
                _ => {
                    let status = result.expect_err("failed");
                    assert_eq!(
                        status.code(),
                        Code::FailedPrecondition,
                        "{trailer} {value:?}"
                    );
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn broken_trailers_beside_an_ok_do_not_hurt() {
    let (_, result) = call(|_, to| {
        let end = trailers(&[
            ("grpc-status", b"0"),
            ("grpc-message", b"%ff"),
            ("grpc-status-details-bin", b"!"),
        ]);
        answer(to, &[message(3)], end);
    })
    .await;
    assert_eq!(result.expect("OK is OK").items, 3);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_read_slowly_ends_at_its_deadline() {
    let peer = Peer::new(settings(), |_, _, to| {
        let item = Item { item: vec![9; 100] };
        let chunks = vec![framed(item); 200];
        answer(to, &chunks, ok());
    });
    let mut request = tonic::Request::new(ListItemsRequest { count: 200 });
    request.set_timeout(Duration::from_secs(1));
    let mut carts = CartServiceClient::new(peer.client.clone());
    let mut items = carts
        .list_items(request)
        .await
        .expect("opened")
        .into_inner();
    let mut read = 0;
    let status = loop {
        match items.message().await {
            Ok(item) => assert!(item.is_some(), "a clean end after {read}"),
            Err(status) => break status,
        }
        read += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(read, 10);
    assert_eq!(peer.client.breaker().1.failures, 1);
}

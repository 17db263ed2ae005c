//! What the end of an open stream means.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_status_is_a_failure_to_the_breaker() {
    for end in [None, Some(trailers(&[("x", "y")]))] {
        let peer = Peer::new(settings(), move |_, _, to| {
            answer(to, &[Bytes::from_static(&[0; 5])], end.clone())
        });
        let mut items = carts(&peer.client)
            .list_items(listing())
            .await
            .expect("open")
            .into_inner();
        let status = loop {
            match items.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("clean"),
                Err(s) => break s,
            }
        };
        assert_eq!(status.code(), Code::Unknown, "{status:?}");
        assert!(CallReport::of(&status).is_some());
        assert_eq!(peer.client.breaker().1.failures, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_of_a_stream() {
    for (code, expected) in [(8_u32, Code::DeadlineExceeded), (2, Code::Internal)] {
        let (host, mut connections) = PipeHost::new();
        let client = piped(host, settings(), |_| {});
        let mut request = listing();
        request.set_timeout(SECOND);
        let mut c = carts(&client);
        let opening = tokio::spawn(async move { c.list_items(request).await });
        let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
        peer.next_of(raw::HEADERS).await;
        let h = raw::headers(&[(":status", "200"), ("content-type", "application/grpc")]);
        peer.send(raw::HEADERS, raw::END_HEADERS, 1, &h).await;
        let mut items = opening.await.unwrap().expect("open").into_inner();
        peer.send(raw::RST_STREAM, 0, 1, &code.to_be_bytes()).await;
        settle().await;
        advance(2 * SECOND).await;
        assert_eq!(items.message().await.expect_err("ended").code(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_outlives_the_last_clone() {
    let (host, mut connections) = PipeHost::new();
    let client = piped(host, settings(), |_| {});
    let mut c = carts(&client);
    let opening = tokio::spawn(async move { c.list_items(listing()).await });
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    peer.next_of(raw::HEADERS).await;
    let h = raw::headers(&[(":status", "200"), ("content-type", "application/grpc")]);
    peer.send(raw::HEADERS, raw::END_HEADERS, 1, &h).await;
    let mut items = opening.await.unwrap().expect("open").into_inner();
    drop(client);
    settle().await;
    peer.send(raw::DATA, 0, 1, &[0; 5]).await;
    let t = raw::headers(&[("grpc-status", "0")]);
    peer.send(raw::HEADERS, raw::END_HEADERS | raw::END_STREAM, 1, &t)
        .await;
    assert!(items.message().await.expect("an item").is_some());
    assert!(items.message().await.expect("a clean end").is_none());
}

/// Empty frames, the first after a wait, so that the driver sends them.
struct Empties(u32);

impl http_body::Body for Empties {
    type Data = Bytes;
    type Error = Status;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0 += 1;
        match self.0 {
            1 => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            2..=300 => Poll::Ready(Some(Ok(Frame::data(Bytes::new())))),
            301 => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 5]))))),
            _ => Poll::Ready(None),
        }
    }
}

/// Fails after a wait.
struct Fails(bool);

impl http_body::Body for Fails {
    type Data = Bytes;
    type Error = Status;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !std::mem::replace(&mut self.0, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(Status::data_loss("the caller's disk"))))
    }
}

fn raw_request(body: tonic::body::Body) -> http::Request<tonic::body::Body> {
    http::Request::builder()
        .method("POST")
        .uri("/carts.v1.CartService/AddItems")
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .body(body)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn empty_frames_of_a_stream() {
    let world = World::new(settings());
    world.script.then([Answer::Hang]);
    let mut other = world.carts();
    let other = tokio::spawn(async move { other.add_item(unary(item(b"x"))).await });
    world.script.saw(1).await;
    let mut client = world.client.clone();
    client
        .call(raw_request(tonic::body::Body::new(Empties(0))))
        .await
        .map(drop)
        .expect("served");
    settle().await;
    assert!(!other.is_finished(), "the other call is well");
}

#[tokio::test(start_paused = true)]
async fn the_status_a_body_fails_with_is_the_calls() {
    let world = World::new(settings());
    world.script.then([Answer::Hang]);
    let mut client = world.client.clone();
    let status = client
        .call(raw_request(tonic::body::Body::new(Fails(false))))
        .await
        .map(drop)
        .expect_err("failed");
    assert_eq!(
        (status.code(), status.message()),
        (Code::DataLoss, "the caller's disk")
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_wakes_the_task_it_was_last_polled_by() {
    let (host, mut connections) = PipeHost::new();
    let client = piped(host, settings(), |_| {});
    let mut c = carts(&client);
    let mut call = Box::pin(async move { c.add_item(unary(item(b"x"))).await });
    assert!(poll_once(&mut call).await.is_pending());
    let stream = connections.recv().await.expect("dialed");
    let call = tokio::spawn(call);
    settle().await;
    let mut peer = Raw::accept(stream).await;
    timeout(SECOND, peer.next_of(raw::HEADERS))
        .await
        .expect("sent");
    peer.answer(1).await;
    call.await.unwrap().expect("answered");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_frees_its_slot_and_counts_for_nothing() {
    let peer = Peer::new(
        Settings {
            max_attempts: 1,
            ..Settings::default()
        },
        |n, _, to| match n {
            0..5 => answer(to, &[], Some(trailers(&[("grpc-status", "14")]))),
            5 => {
                let mut to = to;
                let s = to.send_response(head(), false).unwrap();
                std::mem::forget(s);
            }
            _ => answer_ok(to),
        },
    );
    let mut c = carts(&peer.client);
    for _ in 0..5 {
        c.add_item(unary(item(b"x"))).await.expect_err("down");
    }
    advance(10 * SECOND).await;
    let items = c.list_items(listing()).await.expect("open");
    drop(items);
    assert_eq!(
        peer.client.breaker(),
        (BreakerState::HalfOpen, Counts::default())
    );
    c.add_item(unary(item(b"x")))
        .await
        .expect("the slot is free");
}

#[tokio::test(start_paused = true)]
async fn an_open_stream_that_hangs_ends_at_its_deadline() {
    let peer = Peer::new(settings(), |_, _, mut to| {
        let s = to.send_response(head(), false).unwrap();
        std::mem::forget(s);
    });
    let mut request = listing();
    request.set_timeout(SECOND);
    let mut items = carts(&peer.client)
        .list_items(request)
        .await
        .expect("open")
        .into_inner();
    let status = timeout(60 * SECOND, items.message())
        .await
        .expect("in time")
        .expect_err("hangs");
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

#[tokio::test(start_paused = true)]
async fn timeout_is_not_for_a_stream() {
    let peer = Peer::new(settings(), |_, h, to| {
        assert!(h.get("grpc-timeout").is_none());
        tokio::spawn(async move {
            tokio::time::sleep(60 * SECOND).await;
            answer_ok(to)
        });
    });
    carts(&peer.client)
        .list_items(listing())
        .await
        .expect("opened in a minute");
}

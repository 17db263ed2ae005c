//! What a connection, its driver and its bodies owe to their callers.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_authority_is_the_address() {
    let (host, mut connections) = PipeHost::new();
    let client = piped(host, settings(), |_| {});
    let c = carts(&client);
    let call = {
        let mut c = c.clone();
        tokio::spawn(async move { c.add_item(unary(item(b"x"))).await })
    };
    let mut server = h2::server::handshake(connections.recv().await.unwrap())
        .await
        .unwrap();
    let (request, to) = server.accept().await.unwrap().unwrap();
    assert_eq!(
        request.uri().authority().expect("one").as_str(),
        "carts.test:1"
    );
    assert_eq!(request.uri().scheme_str(), Some("http"));
    answer_ok(to);
    tokio::spawn(async move { while server.accept().await.is_some() {} });
    call.await.unwrap().expect("OK");
    let mut bad = unary(item(b"x"));
    bad.metadata_mut()
        .insert("connection", "close".parse().unwrap());
    let mut c2 = c.clone();
    c2.add_item(bad).await.expect_err("forbidden");
    let mut last = c.clone();
    let last = tokio::spawn(async move { last.add_item(unary(item(b"x"))).await });
    settle().await;
    assert!(
        connections.try_recv().is_err(),
        "the connection was not given up for it"
    );
    last.abort();
}

#[tokio::test(start_paused = true)]
async fn a_woken_call_that_leaves_hands_its_turn_on() {
    let (host, mut connections) = PipeHost::new();
    let client = piped(
        host,
        Settings {
            timeout: 600 * SECOND,
            ..settings()
        },
        |_| {},
    );
    let first = {
        let mut c = carts(&client);
        tokio::spawn(async move { c.add_item(unary(item(b"x"))).await })
    };
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    peer.send(raw::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]).await;
    settle().await;
    peer.next_of(raw::HEADERS).await;
    let mut c = carts(&client);
    let mut leaves = Box::pin(c.add_item(unary(item(b"x"))));
    assert!(poll_once(&mut leaves).await.is_pending());
    let next = {
        let mut c = carts(&client);
        tokio::spawn(async move { c.add_item(unary(item(b"x"))).await })
    };
    settle().await;
    peer.answer(1).await;
    first.await.unwrap().expect("answered");
    settle().await;
    drop(leaves);
    let frame = timeout(SECOND, peer.next_of(raw::HEADERS))
        .await
        .expect("the next one's turn");
    peer.answer(frame.stream).await;
    next.await.unwrap().expect("answered");
}

#[tokio::test(start_paused = true)]
async fn an_upload_ends_with_its_caller() {
    let world = World::new(settings());
    world.script.then([Answer::Hang]);
    let (sender, receiver) = mpsc::channel::<AddItemRequest>(1);
    let mut c = world.carts();
    let call = tokio::spawn(async move { c.add_items(ReceiverStream::new(receiver)).await });
    world.script.saw(1).await;
    call.abort();
    timeout(60 * SECOND, sender.closed())
        .await
        .expect("the body is dropped");
    world.script.left(1).await;
}

#[tokio::test(start_paused = true)]
async fn without_its_driver_a_call_is_not_retried_nor_counted() {
    let (host, _connections) = PipeHost::new();
    let s = Settings {
        addr: "carts.test:1".to_owned(),
        ..Settings::default()
    };
    let (client, driver) = driven(
        host,
        s,
        ConnectionSettings::default(),
        Http2Settings::default(),
        |_| {},
    );
    drop(driver);
    let status = carts(&client)
        .add_item(unary(item(b"x")))
        .await
        .expect_err("gone");
    assert_eq!(CallReport::of(&status).unwrap().attempts().len(), 1);
    assert_eq!(client.breaker().1.results(), 0);
}

struct Panics {
    host: PipeHost,
    early: bool,
    dials: AtomicUsize,
}

impl Host for Panics {
    type Stream = DuplexStream;
    fn dial(
        &self,
        a: &Address,
    ) -> impl Future<Output = Result<DuplexStream, DialError>> + Send + 'static {
        let first = self.dials.fetch_add(1, Ordering::SeqCst) == 0;
        assert!(!(first && self.early), "a bug in the host");
        let pipe = (!first).then(|| self.host.dial(a));
        async move { pipe.expect("a bug in the host").await }
    }
}

async fn host_panics(early: bool) {
    let (host, mut connections) = PipeHost::new();
    let s = Settings {
        addr: "carts.test:1".to_owned(),
        max_attempts: 1,
        ..settings()
    };
    let host = Panics {
        host,
        early,
        dials: AtomicUsize::new(0),
    };
    let client = piped(host, s, |_| {});
    let status = carts(&client)
        .add_item(unary(item(b"x")))
        .await
        .expect_err("panicked");
    assert!(status.message().contains("the host panicked"), "{status:?}");
    advance(2 * SECOND).await;
    let mut c = carts(&client);
    let call = tokio::spawn(async move { c.add_item(unary(item(b"x"))).await });
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    peer.next_of(raw::HEADERS).await;
    peer.answer(1).await;
    call.await.unwrap().expect("dialed again");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_hosts_future_is_a_failed_dial() {
    host_panics(false).await
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_host_itself_is_a_failed_dial() {
    host_panics(true).await
}

#[tokio::test(start_paused = true)]
async fn late_answers_do_not_end_the_connection() {
    let (host, mut connections) = PipeHost::new();
    let client = piped(host, settings(), |_| {});
    let mut peer = None;
    for _ in 0..1_200_u32 {
        let mut c = carts(&client);
        let call = tokio::spawn(async move { c.add_item(unary(item(b"x"))).await });
        if peer.is_none() {
            peer = Some(Raw::accept(connections.recv().await.expect("dialed")).await);
        }
        let peer = peer.as_mut().unwrap();
        let stream = peer.next_of(raw::HEADERS).await.stream;
        call.abort();
        peer.next_of(raw::RST_STREAM).await;
        advance(2 * SECOND).await;
        peer.answer(stream).await;
        settle().await;
    }
    let mut peer = peer.unwrap();
    let mut c = carts(&client);
    let call = tokio::spawn(async move { c.add_item(unary(item(b"x"))).await });
    let stream = timeout(SECOND, peer.next_of(raw::HEADERS))
        .await
        .expect("on the same connection")
        .stream;
    peer.answer(stream).await;
    call.await.unwrap().expect("answered");
}

#[tokio::test(start_paused = true)]
async fn headers_are_limited() {
    let peer = Peer::new(
        Settings {
            max_attempts: 1,
            ..settings()
        },
        |n, _, to| {
            let big = "x".repeat(70_000);
            let end = trailers(&[("grpc-status", "0")]);
            let mut to = to;
            let mut h = head();
            if n == 0 {
                h.headers_mut()
                    .insert("x-big", HeaderValue::from_str(&big).unwrap());
            }
            let mut st = to.send_response(h, false).unwrap();
            st.send_data(message(1), false).unwrap();
            st.send_trailers(end).unwrap();
        },
    );
    let mut c = carts(&peer.client);
    let too_large = c.add_item(unary(item(b"x"))).await;
    assert_eq!(too_large.expect_err("too large").code(), Code::Internal);
    c.add_item(unary(item(b"x")))
        .await
        .expect("the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn a_draining_connection_lets_its_streams_finish_however_long() {
    let (host, mut connections) = PipeHost::new();
    let client = piped(
        host,
        Settings {
            timeout: 600 * SECOND,
            ..settings()
        },
        |_| {},
    );
    let mut c = carts(&client);
    let call = tokio::spawn(async move { c.add_item(unary(item(b"x"))).await });
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    peer.next_of(raw::HEADERS).await;
    peer.goaway(1, 0, b"").await;
    settle().await;
    for _ in 0..60 {
        advance(SECOND).await;
        settle().await;
    }
    peer.answer(1).await;
    timeout(SECOND, call)
        .await
        .expect("in time")
        .unwrap()
        .expect("finished where it was");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_got_out_was_not_sent() {
    let (host, mut connections) = PipeHost::new();
    let client = piped(
        host,
        Settings {
            max_attempts: 1,
            ..settings()
        },
        |_| {},
    );
    let mut c = carts(&client);
    let upload = tokio::spawn(async move { c.add_item(unary(item(&[1; 200_000]))).await });
    let mut peer = connections.recv().await.expect("dialed");
    peer.write_all(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0x7f, 0, 0, 0])
        .await
        .unwrap();
    peer.write_all(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0x70, 0, 0, 0])
        .await
        .unwrap();
    settle().await;
    let mut request = unary(item(b"x"));
    request.set_timeout(SECOND);
    let status = carts(&client).add_item(request).await.expect_err("expired");
    assert_eq!(
        CallReport::of(&status).unwrap().attempts()[0].progress,
        Progress::NotSent
    );
    upload.abort();
}

#[tokio::test]
async fn the_builder_uses_what_it_was_told() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    let client = builder(Settings {
        addr: silent.local_addr().unwrap().to_string(),
        max_attempts: 1,
        timeout: 5 * SECOND,
        breaker_policy: Arc::new(policy_fn(|c| c.failures > 0, |_| ProbeVerdict::Open)),
        ..Settings::default()
    })
    .connection(ConnectionSettings {
        connect_timeout: Duration::from_millis(50),
        ..ConnectionSettings::default()
    })
    .on_transition(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    })
    .connect()
    .unwrap();
    let status = carts(&client)
        .add_item(unary(item(b"x")))
        .await
        .expect_err("silent");
    assert!(
        status.message().ends_with("no answer within 50ms"),
        "{status:?}"
    );
    assert_eq!(heard.load(Ordering::SeqCst), 1);
}

//! What a result is, what it costs, and what is told of it.

use super::*;

#[tokio::test(start_paused = true)]
async fn trailers_without_a_status_are_no_clean_end() {
    let peer = Peer::new(settings(), |_, _, to| {
        answer(to, &[message(1)], Some(trailers(&[("x", "y")])))
    });
    let status = carts(&peer.client)
        .add_item(unary(item(b"x")))
        .await
        .expect_err("no status");
    assert_eq!(status.code(), Code::Unknown);
    assert!(status.message().contains("without a grpc-status"));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_seen_after_the_deadline_was_the_deadline() {
    let (host, mut connections) = PipeHost::new();
    let client = piped(host, settings(), |_| {});
    let mut request = unary(item(b"x"));
    request.set_timeout(SECOND);
    let mut c = carts(&client);
    let mut call = Box::pin(c.add_item(request));
    assert!(poll_once(&mut call).await.is_pending());
    let mut peer = Raw::accept(connections.recv().await.expect("dialed")).await;
    settle().await;
    assert!(poll_once(&mut call).await.is_pending());
    peer.next_of(raw::HEADERS).await;
    peer.send(raw::RST_STREAM, 0, 1, &8_u32.to_be_bytes()).await;
    settle().await;
    advance(2 * SECOND).await;
    let status = call.await.expect_err("late");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(client.breaker().1.failures, 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_policy_leaves_breaker_and_budget_in_use() {
    let world = World::new(Settings {
        max_attempts: 1,
        breaker_policy: Arc::new(policy_fn(
            |counts| {
                assert!(counts.failures != 1 || counts.successes != 0, "a bug");
                false
            },
            |_| ProbeVerdict::Close,
        )),
        ..Settings::default()
    });
    world.script.then([unavailable(None)]);
    let mut c = world.carts();
    assert!(
        tokio::spawn(async move { c.add_item(unary(item(b"x"))).await })
            .await
            .is_err_and(|e| e.is_panic())
    );
    let mut c = world.carts();
    tokio::spawn(async move { c.add_item(unary(item(b"x"))).await })
        .await
        .expect("no panic")
        .expect("OK");
}

#[tokio::test(start_paused = true)]
async fn transitions_are_told_outside_the_lock() {
    let client = Arc::new(OnceLock::<TokioClient>::new());
    let inside = Arc::clone(&client);
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let world = World::heard(
        Settings {
            max_attempts: 1,
            ..Settings::default()
        },
        move |_| {
            let client = inside.get().expect("set").clone();
            let (done, ended) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let _ = client.breaker();
                let _ = done.send(());
            });
            ended.recv_timeout(5 * SECOND).expect("the lock is free");
            count.fetch_add(1, Ordering::SeqCst);
        },
    );
    client.set(world.client.clone()).unwrap();
    world.script.then(vec![unavailable(None); 5]);
    for _ in 0..5 {
        world
            .carts()
            .add_item(unary(item(b"x")))
            .await
            .expect_err("down");
    }
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transitions_are_told_one_at_a_time() {
    let client = Arc::new(OnceLock::<TokioClient>::new());
    let inside = Arc::clone(&client);
    let log = Arc::new(Mutex::new(Vec::new()));
    let logged = Arc::clone(&log);
    let handle = tokio::runtime::Handle::current();
    let mut s = Settings {
        max_attempts: 1,
        ..Settings::default()
    };
    s.breaker.open_for = Duration::from_nanos(1);
    let world = World::heard(s, move |t| {
        logged.lock().unwrap().push(format!("begin {}", t.to));
        if t.to == BreakerState::Open {
            let (client, handle) = (inside.get().expect("set").clone(), handle.clone());
            let (done, ended) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let _ = handle.block_on(CartServiceClient::new(client).add_item(unary(item(b"x"))));
                let _ = done.send(());
            });
            ended
                .recv_timeout(5 * SECOND)
                .expect("another call goes on meanwhile");
        }
        logged.lock().unwrap().push(format!("end {}", t.to));
    });
    client.set(world.client.clone()).unwrap();
    world.script.then(vec![unavailable(None); 5]);
    for _ in 0..5 {
        let mut c = world.carts();
        tokio::spawn(async move { c.add_item(unary(item(b"x"))).await })
            .await
            .unwrap()
            .expect_err("down");
    }
    let log = log.lock().unwrap().join(", ");
    assert_eq!(log, "begin open, end open, begin half-open, end half-open");
}

#[tokio::test(start_paused = true)]
async fn what_a_success_changes_happens_when_it_ends() {
    let peer = Peer::new(
        Settings {
            max_attempts: 1,
            breaker_policy: Arc::new(policy_fn(
                |c| c.failures >= 1 && c.successes >= 1,
                |_| ProbeVerdict::Close,
            )),
            ..Settings::default()
        },
        |n, _, to| match n {
            0 => answer(to, &[], Some(trailers(&[("grpc-status", "14")]))),
            _ => {
                tokio::spawn(async move {
                    tokio::time::sleep(5 * SECOND).await;
                    answer_ok(to)
                });
            }
        },
    );
    let mut c = carts(&peer.client);
    c.add_item(unary(item(b"x"))).await.expect_err("down");
    c.add_item(unary(item(b"x"))).await.expect("slow");
    let status = c.add_item(unary(item(b"x"))).await.expect_err("open");
    assert!(
        rejected(&status).expect("Rejected").remaining > 9 * SECOND,
        "{status:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_report_has_every_attempt_and_what_it_took() {
    let peer = Peer::new(settings(), |n, _, to| {
        tokio::spawn(async move {
            tokio::time::sleep(SECOND).await;
            let mut to = to;
            match n {
                0 => {
                    let h = Response::builder()
                        .header("content-type", "application/grpc")
                        .header("grpc-status", "14")
                        .body(())
                        .unwrap();
                    to.send_response(h, true).unwrap();
                }
                _ => answer(to, &[], Some(trailers(&[("grpc-status", "13")]))),
            }
        });
    });
    let mut items = carts(&peer.client)
        .list_items(listing())
        .await
        .expect("opened")
        .into_inner();
    let status = items.message().await.expect_err("failed");
    let report = CallReport::of(&status).expect("report");
    assert_eq!(report.attempts().len(), 2);
    assert!(
        report.attempts().iter().all(|a| a.took >= SECOND),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_large_unary_answer_is_passed_on_and_commits() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let peer = Peer::new(settings(), move |_, _, to| {
        counted.fetch_add(1, Ordering::SeqCst);
        answer(
            to,
            &[message(300_000)],
            Some(trailers(&[("grpc-status", "14")])),
        );
    });
    let status = carts(&peer.client)
        .add_item(unary(item(b"x")))
        .await
        .expect_err("down");
    assert_eq!(CallReport::of(&status).expect("report").end(), &End::Opened);
    assert_eq!(
        (status.code(), seen.load(Ordering::SeqCst)),
        (Code::Unavailable, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_ok_without_a_message_is_a_failure() {
    let peer = Peer::new(settings(), |_, _, mut to| {
        let h = Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "0")
            .body(())
            .unwrap();
        to.send_response(h, true).unwrap();
    });
    let status = carts(&peer.client)
        .add_item(unary(item(b"x")))
        .await
        .expect_err("no message");
    assert!(
        status.message().ends_with("the server sent none"),
        "{status:?}"
    );
    assert_eq!(peer.client.breaker().1.failures, 1);
}

#[tokio::test(start_paused = true)]
async fn two_pushbacks_are_none() {
    let world = World::new(settings());
    let mut status = Status::unavailable("x");
    for _ in 0..2 {
        status
            .metadata_mut()
            .append("grpc-retry-pushback-ms", "5".parse().unwrap());
    }
    world.script.otherwise(Answer::Fail(status));
    let status = world
        .carts()
        .add_item(unary(item(b"x")))
        .await
        .expect_err("refused");
    assert_eq!(
        CallReport::of(&status).expect("report").end(),
        &End::Refused
    );
    assert_eq!(world.script.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_callers_user_agent_is_kept() {
    let world = World::new(settings());
    let mut request = unary(item(b"x"));
    request
        .metadata_mut()
        .insert("user-agent", "mine".parse().unwrap());
    world.carts().add_item(request).await.expect("OK");
    assert_eq!(world.script.seen()[0].header("user-agent"), Some("mine"));
}

#[tokio::test(start_paused = true)]
async fn half_a_request_is_not_sent_again_by_itself() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let peer = Peer::new(settings(), move |_, _, mut to| {
        counted.fetch_add(1, Ordering::SeqCst);
        to.send_reset(Reason::REFUSED_STREAM);
    });
    let (_sender, receiver) = mpsc::channel::<AddItemRequest>(1);
    let status = carts(&peer.client)
        .add_items(ReceiverStream::new(receiver))
        .await
        .expect_err("refused");
    assert_eq!(CallReport::of(&status).unwrap().end(), &End::Committed);
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_tried_is_ignored_however_it_is_judged() {
    let (host, connections) = PipeHost::new();
    drop(connections);
    let client = piped(
        host,
        Settings {
            classify: Classifier::new(|_| Classification::FAIL),
            ..Settings::default()
        },
        |_| {},
    );
    for _ in 0..3 {
        carts(&client)
            .add_item(unary(item(b"x")))
            .await
            .expect_err("down");
    }
    assert_eq!(client.breaker().1.failures, 1);
}

/// Notes each request, then fails.
#[derive(Clone)]
struct Notes(Arc<Mutex<Vec<(bool, bool, bool)>>>);

#[derive(Clone, PartialEq)]
struct Mine;

impl Transport<http::Request<RequestBody>> for Notes {
    type Response = http::Response<Nothing>;
    type Error = AttemptError;
    type Future = std::future::Ready<Result<Self::Response, AttemptError>>;
    fn attempt(&self, r: http::Request<RequestBody>) -> Self::Future {
        let e = r.extensions();
        self.0.lock().unwrap().push((
            e.get::<Mine>().is_some(),
            e.get::<tonic::GrpcMethod<'static>>().is_some(),
            e.get::<CallKind>().is_some(),
        ));
        std::future::ready(Err(AttemptError::new(
            Status::unavailable("x"),
            Progress::NotSent,
        )))
    }
}

struct Nothing;

impl http_body::Body for Nothing {
    type Data = Bytes;
    type Error = AttemptError;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AttemptError>>> {
        Poll::Ready(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_callers_extensions_reach_every_attempt() {
    for mine in [true, false] {
        let notes = Notes(Arc::default());
        let s = Settings {
            addr: "x:1".to_owned(),
            ..settings()
        };
        let client = Client::new(notes.clone(), TokioTimer::new(), &s, 1).unwrap();
        let mut request = unary(item(b"x"));
        if mine {
            request.extensions_mut().insert(Mine);
        }
        let mut c = CartServiceClient::new(client);
        c.add_item(request).await.expect_err("down");
        assert_eq!(*notes.0.lock().unwrap(), vec![(mine, true, false); 3]);
    }
}

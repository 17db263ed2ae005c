//! Loopback in between, where the frames that the client sends are seen.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const PREFACE: usize = 24;
const HEAD: usize = 9;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;

/// A frame of the client's, on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Sent {
    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & 1 != 0
    }
}

#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) port: u16,
    sent: watch::Receiver<Vec<Sent>>,
    connections: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl Forwarder {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let own = listener.local_addr().expect("bound").port();
        let (tell, sent) = watch::channel(Vec::new());
        let connections = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.expect("a connection");
                *counted.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                tokio::spawn(forward(client, port, tell.clone()));
            }
        });
        Self {
            port: own,
            sent,
            connections,
            task,
        }
    }

    pub(crate) fn connections(&self) -> usize {
        *self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a frame of this kind was sent, and answers what was sent so far.
    pub(crate) async fn until(&mut self, kind: u8) -> Vec<Sent> {
        let any = |sent: &Vec<Sent>| sent.iter().any(|frame| frame.kind == kind);
        self.sent.wait_for(any).await.expect("it forwards").clone()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(client: TcpStream, port: u16, tell: watch::Sender<Vec<Sent>>) {
    let server = TcpStream::connect(("127.0.0.1", port)).await;
    let (mut from_server, mut to_server) = server.expect("the server listens").into_split();
    let (mut from_client, mut to_client) = client.into_split();
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut unread = Vec::new();
    let mut started = false;
    loop {
        match from_client.read_buf(&mut unread).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                let new = &unread[unread.len() - read..];
                if to_server.write_all(new).await.is_err() {
                    return;
                }
            }
        }
        if !started && unread.len() >= PREFACE {
            unread.drain(..PREFACE);
            started = true;
        }
        while started && let Some(frame) = take_frame(&mut unread) {
            if frame.stream != 0 {
                tell.send_modify(|sent| sent.push(frame));
            }
        }
    }
}

fn take_frame(unread: &mut Vec<u8>) -> Option<Sent> {
    let head = unread.get(..HEAD)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let (kind, flags) = (head[3], head[4]);
    let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
    let payload = unread.get(HEAD..HEAD + length)?.to_vec();
    unread.drain(..HEAD + length);
    Some(Sent {
        kind,
        flags,
        stream,
        payload,
    })
}

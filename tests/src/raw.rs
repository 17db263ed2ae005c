//! An HTTP/2 peer of raw frames, for what no HTTP/2 library would send.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::script::PATIENCE;

/// DATA.
pub const DATA: u8 = 0x0;
/// HEADERS.
pub const HEADERS: u8 = 0x1;
/// RST_STREAM.
pub const RST_STREAM: u8 = 0x3;
/// SETTINGS.
pub const SETTINGS: u8 = 0x4;
/// PING.
pub const PING: u8 = 0x6;
/// GOAWAY.
pub const GOAWAY: u8 = 0x7;

/// The flag of an answer to SETTINGS or PING.
pub const ACK: u8 = 0x1;
/// The flag that ends a stream.
pub const END_STREAM: u8 = 0x1;
/// The flag that ends a block of headers.
pub const END_HEADERS: u8 = 0x4;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// The server's end of a connection.
#[derive(Debug)]
pub struct Raw(DuplexStream);

impl Raw {
    /// Takes the client's preface and sends empty SETTINGS.
    ///
    /// # Panics
    ///
    /// If the client sends anything else first.
    pub async fn accept(stream: DuplexStream) -> Self {
        let mut raw = Self(stream);
        let mut preface = [0; 24];
        raw.0.read_exact(&mut preface).await.expect("a preface");
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        raw.send(SETTINGS, 0, 0, &[]).await;
        raw
    }

    /// Sends one frame, whatever it is.
    pub async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.write(&frame(kind, flags, stream, payload)).await;
    }

    /// Sends bytes, whatever they are.
    pub async fn write(&mut self, bytes: &[u8]) {
        // A client that has gone is the test's to notice.
        let _ = self.0.write_all(bytes).await;
    }

    /// The next frame; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await.ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff,
            payload,
        })
    }

    /// The next frame of this type.
    ///
    /// # Panics
    ///
    /// If the connection ends first, or nothing comes.
    pub async fn next_of(&mut self, kind: u8) -> Frame {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.next()).await;
            let frame = next.expect("a frame").expect("the connection goes on");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Answers a stream with OK and one empty message.
    pub async fn answer(&mut self, stream: u32) {
        let head = headers(&[(":status", "200"), ("content-type", "application/grpc")]);
        self.send(HEADERS, END_HEADERS, stream, &head).await;
        self.send(DATA, 0, stream, &[0; 5]).await;
        let trailers = headers(&[("grpc-status", "0")]);
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, &trailers)
            .await;
    }

    /// Sends GOAWAY.
    pub async fn goaway(&mut self, last: u32, code: u32, debug: &[u8]) {
        let payload = [&last.to_be_bytes(), &code.to_be_bytes(), debug].concat();
        self.send(GOAWAY, 0, 0, &payload).await;
    }
}

/// The bytes of one frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A block of headers, each a literal that is not indexed (RFC 7541, section 6.2.2).
#[must_use]
pub fn headers(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in pairs {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "one byte of length");
            block.push(text.len() as u8);
            block.extend(text.as_bytes());
        }
    }
    block
}

//! What passed on a connection, read off its frame heads.
//!
//! h2 doesn't tell four things that calls depend on: whether the server's SETTINGS came
//! (only then does the peer speak HTTP/2, and only then is it known what it allows), which
//! requests left (those that did not can be sent again freely), which left to their end, and
//! that a GOAWAY came while streams go on (new calls must take a new connection). All of it
//! stands in the nine bytes before each frame's payload, which this stream reads in passing. It
//! never changes or delays a byte.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const HEAD: usize = 9;
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;
/// A flag of DATA and of HEADERS.
const END_STREAM: u8 = 0x1;

/// How many of the streams that were ended last are remembered.
const REMEMBERED: usize = 1024;

/// What ENHANCE_YOUR_CALM and gRPC's debug data for too frequent pings are in a GOAWAY.
const TOO_MANY_PINGS: [u8; 18] = *b"\0\0\0\x0btoo_many_pings";
/// How much of a GOAWAY is looked at: its last stream, and that.
const GOAWAY_LOOK: usize = 4 + TOO_MANY_PINGS.len();

/// What has passed so far.
#[derive(Debug)]
pub(crate) struct Passed {
    /// Anything came since somebody asked.
    read: AtomicBool,
    settings: AtomicBool,
    goaway: AtomicBool,
    goaway_last: AtomicU32,
    too_many_pings: AtomicBool,
    /// Client streams are numbered upwards, so one number says which have left.
    last_written: AtomicU32,
    /// Streams whose END_STREAM has left, each where [`slot`] says.
    ended: [AtomicU32; REMEMBERED],
}

/// Streams of clients have odd numbers.
fn slot(stream: u32) -> usize {
    (stream / 2) as usize % REMEMBERED
}

impl Passed {
    fn new() -> Self {
        Self {
            read: AtomicBool::new(false),
            settings: AtomicBool::new(false),
            goaway: AtomicBool::new(false),
            goaway_last: AtomicU32::new(0),
            too_many_pings: AtomicBool::new(false),
            last_written: AtomicU32::new(0),
            ended: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Whether anything came since this was last asked.
    pub(crate) fn take_read(&self) -> bool {
        self.read.swap(false, Ordering::AcqRel)
    }

    /// A GOAWAY said that we ping too often (gRFC A8); told once.
    pub(crate) fn take_too_many_pings(&self) -> bool {
        self.too_many_pings.swap(false, Ordering::AcqRel)
    }

    /// The server's SETTINGS came.
    pub(crate) fn settings(&self) -> bool {
        self.settings.load(Ordering::Acquire)
    }

    /// A GOAWAY came: the last stream that the server will look at.
    pub(crate) fn goaway(&self) -> Option<u32> {
        let came = self.goaway.load(Ordering::Acquire);
        came.then(|| self.goaway_last.load(Ordering::Acquire))
    }

    /// A GOAWAY came, and it does not disown the requests that have left.
    pub(crate) fn goaway_accepts(&self) -> bool {
        let written = self.last_written.load(Ordering::Acquire);
        self.goaway()
            .is_some_and(|last| (1..=last).contains(&written))
    }

    /// Whether any byte of the stream's request was handed to the peer's connection.
    pub(crate) fn was_written(&self, stream: u32) -> bool {
        stream <= self.last_written.load(Ordering::Acquire)
    }

    /// Whether the request was handed to the peer's connection to its end, if that is still
    /// remembered.
    pub(crate) fn was_ended(&self, stream: u32) -> bool {
        self.ended[slot(stream)].load(Ordering::Acquire) == stream
    }
}

/// A byte stream that notes what passes.
pub(crate) struct Tap<S> {
    stream: S,
    passed: Arc<Passed>,
    read: Frames,
    written: Frames,
}

impl<S> Tap<S> {
    pub(crate) fn new(stream: S) -> (Self, Arc<Passed>) {
        let passed = Arc::new(Passed::new());
        let tap = Self {
            stream,
            passed: Arc::clone(&passed),
            read: Frames::new(0),
            written: Frames::new(PREFACE),
        };
        (tap, passed)
    }

    fn note_written(&mut self, bytes: &[u8]) {
        let passed = &self.passed;
        self.written.push(bytes, |frame, _| {
            if frame.kind == HEADERS {
                passed
                    .last_written
                    .fetch_max(frame.stream, Ordering::AcqRel);
            }
            if frame.ends_stream() {
                passed.ended[slot(frame.stream)].store(frame.stream, Ordering::Release);
            }
        });
    }

    fn note_read(&mut self, bytes: &[u8]) {
        let passed = &self.passed;
        passed.read.store(true, Ordering::Release);
        self.read.push(bytes, |frame, payload| match frame.kind {
            SETTINGS => passed.settings.store(true, Ordering::Release),
            GOAWAY => {
                let last = word(payload);
                passed.goaway_last.store(last, Ordering::Release);
                passed.goaway.store(true, Ordering::Release);
                if frame.length == GOAWAY_LOOK && payload.ends_with(&TOO_MANY_PINGS) {
                    passed.too_many_pings.store(true, Ordering::Release);
                }
            }
            _ => {}
        });
    }
}

/// One frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

/// Finds the frames in a stream of bytes that comes in pieces.
#[derive(Debug)]
struct Frames {
    /// Bytes of payload, or of the preface, still to pass.
    skip: usize,
    /// SETTINGS whose payload is still passing: they count once all of it came.
    settings: Option<Frame>,
    head: [u8; HEAD + GOAWAY_LOOK],
    have: usize,
}

impl Frames {
    const fn new(skip: usize) -> Self {
        Self {
            skip,
            settings: None,
            head: [0; HEAD + GOAWAY_LOOK],
            have: 0,
        }
    }

    fn push(&mut self, mut bytes: &[u8], mut on_frame: impl FnMut(Frame, &[u8])) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if self.skip == 0
                && let Some(settings) = self.settings.take()
            {
                on_frame(settings, &[]);
            }
            if bytes.is_empty() {
                return;
            }
            if self.have == 0
                && let Some((head, rest)) = bytes.split_first_chunk::<HEAD>()
                && head[3] != GOAWAY
            {
                // Almost every frame: its head in one piece, and nothing more to read.
                self.pass(Frame::read(head), &[], &mut on_frame);
                bytes = rest;
                continue;
            }
            let needed = self.needed();
            let taken = (needed - self.have).min(bytes.len());
            self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            // A GOAWAY's head asks for more once it is there.
            if self.have == needed && self.needed() == needed {
                let have = std::mem::take(&mut self.have);
                let seen = self.head;
                let (head, payload) = seen.split_first_chunk::<HEAD>().expect("it is longer");
                self.pass(Frame::read(head), &payload[..have - HEAD], &mut on_frame);
            }
        }
    }

    /// A frame, of whose payload this much has come.
    fn pass(&mut self, frame: Frame, payload: &[u8], on_frame: &mut impl FnMut(Frame, &[u8])) {
        self.skip = frame.length - payload.len();
        match frame.kind {
            SETTINGS => self.settings = Some(frame),
            _ => on_frame(frame, payload),
        }
    }

    fn needed(&self) -> usize {
        if self.have >= HEAD && self.head[3] == GOAWAY {
            HEAD + length(&self.head).min(GOAWAY_LOOK)
        } else {
            HEAD
        }
    }
}

/// The length of a frame's payload.
fn length(head: &[u8]) -> usize {
    u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize
}

/// A stream's number, if it is there. The highest bit is reserved, and to be ignored.
fn word(bytes: &[u8]) -> u32 {
    let word = bytes.first_chunk();
    word.map_or(0, |word| u32::from_be_bytes(*word)) & 0x7fff_ffff
}

impl Frame {
    fn read(head: &[u8; HEAD]) -> Self {
        Self {
            length: length(head),
            kind: head[3],
            flags: head[4],
            stream: word(&head[5..]),
        }
    }

    fn ends_stream(self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.note_read(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.note_written(&buf[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs))?;
        let mut left = written;
        for buf in bufs {
            let part = left.min(buf.len());
            self.note_written(&buf[..part]);
            left -= part;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, 0]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    fn frames(bytes: &[u8], size: usize, skip: usize) -> Vec<(u8, u32, u32)> {
        let mut seen = Vec::new();
        let mut frames = Frames::new(skip);
        for piece in bytes.chunks(size) {
            frames.push(piece, |frame, payload| {
                seen.push((frame.kind, frame.stream, word(payload)));
            });
        }
        seen
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let mut bytes = vec![b'x'; PREFACE];
        bytes.extend(frame(SETTINGS, 0, &[0; 18]));
        bytes.extend(frame(HEADERS, 1, &[7; 300]));
        bytes.extend(frame(DATA, 1, &[]));
        bytes.extend(frame(GOAWAY, 0, &[0x80, 0, 0, 9, 0, 0, 0, 2, b'h', b'i']));
        bytes.extend(frame(HEADERS, 0x8000_0003, &[7; 70_000]));
        for size in [1, 2, 3, 4, 8, 9, 10, 13, 64, 1_000, bytes.len()] {
            assert_eq!(
                frames(&bytes, size, PREFACE),
                [
                    (SETTINGS, 0, 0),
                    (HEADERS, 1, 0),
                    (DATA, 1, 0),
                    (GOAWAY, 0, 9),
                    (HEADERS, 3, 0)
                ],
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn a_goaway_too_short_to_be_one_is_passed_over() {
        for len in 0..8 {
            let mut bytes = frame(GOAWAY, 0, &vec![1; len]);
            bytes.extend(frame(SETTINGS, 0, &[]));
            for size in [1, 5, 100] {
                let seen = frames(&bytes, size, 0);
                assert_eq!(
                    seen.last(),
                    Some(&(SETTINGS, 0, 0)),
                    "{len} bytes in {size}"
                );
                assert_eq!(seen.len(), 2);
            }
        }
    }

    #[test]
    fn what_passed_is_told() {
        let (mut tap, passed) = Tap::new(());
        assert!(!passed.settings() && passed.goaway().is_none() && !passed.was_written(1));
        let settings = frame(SETTINGS, 0, &[0, 3, 0, 0, 0, 1]);
        let (last, rest) = settings.split_last().unwrap();
        tap.note_read(rest);
        assert!(!passed.settings(), "what they say has not come yet");
        tap.note_read(&[*last]);
        assert!(passed.settings());
        tap.note_read(&frame(GOAWAY, 0, &[0, 0, 0, 5, 0, 0, 0, 0]));
        assert_eq!(passed.goaway(), Some(5));
        tap.note_written(&[b'x'; PREFACE]);
        tap.note_written(&frame(HEADERS, 3, &[1]));
        assert!(passed.was_written(1) && passed.was_written(3) && !passed.was_written(5));
    }

    #[test]
    fn requests_that_left_to_their_end_are_told() {
        let (mut tap, passed) = Tap::new(());
        tap.note_written(&[b'x'; PREFACE]);
        let mut write = |kind, flags, stream| {
            let mut bytes = frame(kind, stream, &[1]);
            bytes[4] = flags;
            tap.note_written(&bytes);
        };
        write(HEADERS, 4, 1);
        // What is PADDED or END_HEADERS, and an ACK's flag, end nothing.
        for (kind, flags) in [(HEADERS, 4), (DATA, 8), (SETTINGS, 1), (DATA, 0)] {
            write(kind, flags, 1);
            assert!(!passed.was_ended(1));
        }
        write(DATA, 9, 1);
        write(HEADERS, 5, 3);
        assert!(passed.was_ended(1) && passed.was_ended(3) && !passed.was_ended(5));
        let much_later = 1 + 2 * REMEMBERED as u32;
        assert!(!passed.was_ended(much_later));
        write(DATA, 1, much_later);
        assert!(passed.was_ended(much_later) && !passed.was_ended(1));
    }

    #[test]
    fn only_gprcs_own_words_say_that_we_ping_too_often() {
        let says = |code: u8, debug: &[u8]| {
            let (mut tap, passed) = Tap::new(());
            let payload = [&[0, 0, 0, 5, 0, 0, 0, code], debug].concat();
            for byte in frame(GOAWAY, 0, &payload) {
                tap.note_read(&[byte]);
            }
            assert_eq!(passed.goaway(), Some(5));
            passed.take_too_many_pings()
        };
        assert!(says(11, b"too_many_pings"));
        assert!(!says(11, b"too_many_pingsx"));
        assert!(!says(11, b"too_many_ping"));
        assert!(!says(11, b""));
        assert!(!says(0, b"too_many_pings"));
    }
}

//! Counts the gRPC messages in a stream of bytes by their five-byte prefixes.
//!
//! A unary call has exactly one response message. tonic drops a second one in silence, so
//! the number is judged before it gets there. DATA frames are no measure: a frame may hold
//! several messages, or a part of one.

const PREFIX: u8 = 5;

/// How many messages began, and whether the last one is complete.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageCount {
    begun: u64,
    /// Bytes of the current prefix seen, 0 to 5.
    prefix: u8,
    /// The length that the prefix has told so far, and then the bytes still missing.
    missing: u32,
}

impl MessageCount {
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            if self.prefix == PREFIX && self.missing == 0 {
                self.prefix = 0;
            }
            if self.prefix < PREFIX {
                match self.prefix {
                    0 => self.begun += 1,
                    // The flag is behind; four bytes of length, the highest first.
                    _ => self.missing = (self.missing << 8) | u32::from(*byte),
                }
                self.prefix += 1;
                bytes = rest;
            } else {
                let taken = bytes.len().min(self.missing as usize);
                self.missing -= taken as u32;
                bytes = &bytes[taken..];
            }
        }
    }

    /// Messages begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether no message is cut in the middle.
    pub(crate) fn is_complete(&self) -> bool {
        self.begun == 0 || (self.prefix == PREFIX && self.missing == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend((len as u32).to_be_bytes());
        bytes.resize(5 + len, 0xff);
        bytes
    }

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let lengths = [0, 1, 300, 0, 70_000];
        let bytes: Vec<u8> = lengths.iter().flat_map(|len| message(*len)).collect();
        for size in [1, 2, 3, 5, 7, 64, 1_000, bytes.len()] {
            let mut count = MessageCount::default();
            for piece in bytes.chunks(size) {
                count.push(piece);
            }
            assert_eq!(count.begun(), 5, "pieces of {size}");
            assert!(count.is_complete(), "pieces of {size}");
        }
    }

    #[test]
    fn a_cut_message_is_seen() {
        let whole = message(3);
        for len in 1..whole.len() {
            let mut count = MessageCount::default();
            count.push(&whole[..len]);
            assert_eq!(count.begun(), 1, "{len} bytes");
            assert!(!count.is_complete(), "{len} bytes");
        }
        assert!(MessageCount::default().is_complete());
    }

    #[test]
    fn the_longest_length_is_no_overflow() {
        let mut count = MessageCount::default();
        count.push(&[1, 0xff, 0xff, 0xff, 0xff, 0]);
        assert!(!count.is_complete());
        assert_eq!(count.begun(), 1);
    }
}

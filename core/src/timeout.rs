//! The `grpc-timeout` header: how long the caller will wait, told to the server.
//!
//! PROTOCOL-HTTP2 allows at most eight digits and a unit. The value is rounded up to
//! what that can hold, so a server never gives up before its caller, and is never zero,
//! which servers read in different ways.

use core::fmt;
use core::time::Duration;

/// The name of the header.
pub const TIMEOUT_HEADER: &str = "grpc-timeout";

const MAX_DIGITS: usize = 8;
const MAX_VALUE: u128 = 99_999_999;

/// Units from the finest, with their length in nanoseconds.
const UNITS: [(u8, u128); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60 * 1_000_000_000),
    (b'H', 3_600 * 1_000_000_000),
];

/// A `grpc-timeout` value, encoded, without allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EncodedTimeout {
    text: [u8; MAX_DIGITS + 1],
    len: u8,
}

impl EncodedTimeout {
    /// Encodes `timeout` in the finest unit that holds it, rounded up. Zero becomes
    /// `1n`; more than 99,999,999 hours becomes that.
    ///
    /// ```
    /// use core::time::Duration;
    /// use steadfast_core::EncodedTimeout;
    ///
    /// assert_eq!(EncodedTimeout::new(Duration::from_secs(1)).as_str(), "1000000u");
    /// assert_eq!(EncodedTimeout::new(Duration::ZERO).as_str(), "1n");
    /// ```
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        let nanos = timeout.as_nanos().max(1);
        let (unit, value) = UNITS
            .iter()
            .map(|(unit, length)| (*unit, nanos.div_ceil(*length)))
            .find(|(_, value)| *value <= MAX_VALUE)
            .unwrap_or((b'H', MAX_VALUE));
        Self::write(value as u32, unit)
    }

    fn write(mut value: u32, unit: u8) -> Self {
        let len = value.ilog10() as usize + 1;
        let mut text = [0; MAX_DIGITS + 1];
        for digit in text[..len].iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
        text[len] = unit;
        Self {
            text,
            len: len as u8 + 1,
        }
    }

    /// The header's value: one to eight digits and a unit.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The same as ASCII bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }
}

impl fmt::Debug for EncodedTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A `grpc-timeout` that is not one to eight digits and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTimeout;

impl fmt::Display for InvalidTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be one to eight digits and a unit of H, M, S, m, u or n")
    }
}

impl core::error::Error for InvalidTimeout {}

/// Reads a `grpc-timeout` value.
///
/// # Errors
///
/// [`InvalidTimeout`] for anything but one to eight ASCII digits and one unit.
///
/// ```
/// use core::time::Duration;
/// use steadfast_core::decode_timeout;
///
/// assert_eq!(decode_timeout(b"250m"), Ok(Duration::from_millis(250)));
/// assert!(decode_timeout(b"250").is_err());
/// ```
pub fn decode_timeout(value: &[u8]) -> Result<Duration, InvalidTimeout> {
    let (unit, digits) = value.split_last().ok_or(InvalidTimeout)?;
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return Err(InvalidTimeout);
    }
    let count = digits
        .iter()
        .fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    match unit {
        b'n' => Ok(Duration::from_nanos(count)),
        b'u' => Ok(Duration::from_micros(count)),
        b'm' => Ok(Duration::from_millis(count)),
        b'S' => Ok(Duration::from_secs(count)),
        b'M' => Ok(Duration::from_secs(count * 60)),
        b'H' => Ok(Duration::from_secs(count * 3_600)),
        _ => Err(InvalidTimeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    #[test]
    fn the_finest_unit_that_holds_it_rounded_up() {
        for (timeout, text) in [
            (Duration::ZERO, "1n"),
            (Duration::from_nanos(1), "1n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_000), "100000u"),
            (Duration::from_nanos(100_000_001), "100001u"),
            (Duration::from_secs(99), "99000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_millis(99_999_999), "99999999m"),
            (Duration::from_millis(100_000_000), "100000S"),
            (Duration::from_secs(100_000_000), "1666667M"),
            (Duration::from_secs(6_000_000_000), "1666667H"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(EncodedTimeout::new(timeout).as_str(), text, "{timeout:?}");
        }
        assert_eq!(
            format!("{:?}", EncodedTimeout::new(Duration::ZERO)),
            "\"1n\""
        );
    }

    #[test]
    fn every_unit_is_read() {
        for (text, timeout) in [
            ("1n", Duration::from_nanos(1)),
            ("2u", Duration::from_micros(2)),
            ("3m", Duration::from_millis(3)),
            ("4S", Duration::from_secs(4)),
            ("5M", Duration::from_secs(300)),
            ("6H", Duration::from_secs(21_600)),
            ("00000000S", Duration::ZERO),
            ("99999999H", Duration::from_secs(359_999_996_400)),
        ] {
            assert_eq!(decode_timeout(text.as_bytes()), Ok(timeout), "{text}");
        }
    }

    #[test]
    fn anything_else_is_an_error() {
        for text in [
            "",
            "1",
            "m",
            "123456789m",
            "1s",
            "+1m",
            "-1m",
            "1.5S",
            "1 m",
            "1mm",
        ] {
            assert_eq!(
                decode_timeout(text.as_bytes()),
                Err(InvalidTimeout),
                "{text}"
            );
        }
        assert_eq!(
            format!("{InvalidTimeout}"),
            "must be one to eight digits and a unit of H, M, S, m, u or n"
        );
    }

    proptest! {
        #[test]
        fn decoding_an_encoded_value_is_never_earlier_and_within_one_unit(
            seconds in 0_u64..=359_999_996_400, nanos in 0_u32..1_000_000_000,
        ) {
            let timeout = Duration::new(seconds, nanos).max(Duration::from_nanos(1))
                .min(Duration::from_secs(359_999_996_400));
            let encoded = EncodedTimeout::new(timeout);
            let decoded = decode_timeout(encoded.as_bytes()).unwrap();
            prop_assert!(decoded >= timeout);
            // Eight digits: rounding up adds at most 60 parts in ten million.
            prop_assert!(decoded - timeout <= timeout / 100_000 + Duration::from_nanos(1));
        }

        #[test]
        fn any_bytes_are_read_without_panic(value in prop::collection::vec(any::<u8>(), 0..12)) {
            let _ = decode_timeout(&value);
        }
    }
}

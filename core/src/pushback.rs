//! What a server says about retrying: the `grpc-retry-pushback-ms` trailer.
//!
//! The value decides whether a call is repeated, and it comes from the other side. It
//! is read by the letter of gRFC A6: an ASCII signed 32-bit integer without unnecessary
//! leading zeros. Whatever is not one (`+5`, `010`, `1.5`, an empty value, two values)
//! means "do not retry", exactly as a negative number does.

use core::time::Duration;

/// The name of the trailer that [`Pushback::parse`] reads.
pub const PUSHBACK_TRAILER: &str = "grpc-retry-pushback-ms";

/// What the server asked for beside its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushback {
    /// The server said nothing.
    Absent,
    /// Retry, but not before this long has passed: 0 to 2^31 - 1 ms.
    After(Duration),
    /// Do not retry: a negative value, or one that is not a plain integer.
    Refused,
}

impl Pushback {
    /// Reads every value of the trailer. Any bytes are allowed.
    ///
    /// ```
    /// use core::time::Duration;
    /// use steadfast_core::Pushback;
    ///
    /// let parse = |values: &[&str]| Pushback::parse(values.iter().map(|v| v.as_bytes()));
    /// assert_eq!(parse(&[]), Pushback::Absent);
    /// assert_eq!(parse(&["1500"]), Pushback::After(Duration::from_millis(1500)));
    /// assert_eq!(parse(&["-1"]), Pushback::Refused);
    /// assert_eq!(parse(&["+5"]), Pushback::Refused);
    /// assert_eq!(parse(&["1", "1"]), Pushback::Refused);
    /// ```
    #[must_use]
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (None, _) => Self::Absent,
            (Some(value), None) => parse_millis(value).map_or(Self::Refused, |ms| {
                Self::After(Duration::from_millis(u64::from(ms)))
            }),
            (Some(_), Some(_)) => Self::Refused,
        }
    }
}

/// A plain decimal in `0..=2^31-1`. A minus sign is refused with all else: whether the
/// number behind it is one changes nothing.
fn parse_millis(value: &[u8]) -> Option<u32> {
    let plain = match value {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain {
        return None;
    }
    value
        .iter()
        .try_fold(0_i32, |sum, digit| {
            sum.checked_mul(10)?.checked_add(i32::from(digit - b'0'))
        })
        .map(i32::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn parse(value: &[u8]) -> Pushback {
        Pushback::parse([value])
    }

    #[test]
    fn plain_integers_are_read() {
        for (text, millis) in [
            ("0", 0),
            ("7", 7),
            ("1500", 1500),
            ("2147483647", 2_147_483_647),
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Pushback::After(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn everything_else_refuses() {
        for text in [
            "-1",
            "-2147483648",
            "2147483648",
            "9999999999",
            "99999999999999999999",
            "",
            "abc",
            "1.5",
            "010",
            "00",
            "+10",
            "-0",
            "-",
            " 1",
            "1 ",
            "1,2",
            "0x1",
            "1e3",
            "\u{0661}",
        ] {
            assert_eq!(parse(text.as_bytes()), Pushback::Refused, "{text:?}");
        }
        assert_eq!(parse(&[0xff, 0xfe]), Pushback::Refused);
        assert_eq!(Pushback::parse([b"1".as_slice(), b"1"]), Pushback::Refused);
        assert_eq!(Pushback::parse([b"1".as_slice(), b""]), Pushback::Refused);
    }

    #[test]
    fn no_value_is_no_word() {
        assert_eq!(Pushback::parse([]), Pushback::Absent);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_as_the_grammar_does(value in prop::collection::vec(any::<u8>(), 0..14)) {
            // Written from the grammar: what prints back as itself is plain.
            let expected = core::str::from_utf8(&value)
                .ok()
                .and_then(|text| Some((text, text.parse::<i32>().ok()?)))
                .filter(|(text, number)| *number >= 0 && number.to_string() == *text)
                .map_or(Pushback::Refused, |(_, number)| {
                    Pushback::After(Duration::from_millis(number as u64))
                });
            prop_assert_eq!(parse(&value), expected);
        }

        #[test]
        fn any_plain_number_is_judged_by_its_range(number in any::<i64>()) {
            let expected = match u64::try_from(number) {
                Ok(ms) if ms <= 2_147_483_647 => Pushback::After(Duration::from_millis(ms)),
                _ => Pushback::Refused,
            };
            prop_assert_eq!(parse(number.to_string().as_bytes()), expected);
        }
    }
}

//! One check a number: says what is wrong with a value without naming the setting, so that
//! the same words serve a field, an environment variable and a command line option.
//!
//! ```
//! use core::time::Duration;
//! use steadfast_core::check;
//!
//! assert!(check::timeout(Duration::from_secs(1)).is_ok());
//! let wrong = check::timeout(Duration::ZERO).unwrap_err();
//! assert_eq!(wrong.to_string(), "must be longer than zero");
//! ```

use core::fmt;
use core::time::Duration;

/// What is wrong with a value. The `Display` text completes "the setting ...".
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Invalid {
    /// A duration of zero where some time is needed.
    Zero,
    /// A whole number outside its range.
    OutOfRange {
        /// The least that is valid.
        min: u32,
        /// The most that is valid.
        max: u32,
        /// What was given.
        given: u32,
    },
    /// A ratio outside its range, or not a number.
    RatioOutOfRange {
        /// The least that is valid.
        min: f64,
        /// The most that is valid.
        max: f64,
        /// What was given.
        given: f64,
    },
    /// A longest wait below the base it grows from.
    BelowBase {
        /// The base.
        base: Duration,
        /// What was given.
        given: Duration,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("must be longer than zero"),
            Self::OutOfRange {
                min,
                max: u32::MAX,
                given,
            } => write!(f, "must be {min} or more, not {given}"),
            Self::OutOfRange { min, max, given } => {
                write!(f, "must be {min} to {max}, not {given}")
            }
            Self::RatioOutOfRange { min, max, given } => {
                write!(f, "must be {min} to {max}, not {given}")
            }
            Self::BelowBase { base, given } => {
                write!(
                    f,
                    "must be at least the backoff base of {base:?}, not {given:?}"
                )
            }
        }
    }
}

impl core::error::Error for Invalid {}

fn positive(duration: Duration) -> Result<(), Invalid> {
    if duration.is_zero() {
        Err(Invalid::Zero)
    } else {
        Ok(())
    }
}

fn within(given: u32, min: u32, max: u32) -> Result<(), Invalid> {
    if (min..=max).contains(&given) {
        Ok(())
    } else {
        Err(Invalid::OutOfRange { min, max, given })
    }
}

/// The timeout of a unary call: longer than zero.
///
/// # Errors
///
/// [`Invalid::Zero`].
pub fn timeout(timeout: Duration) -> Result<(), Invalid> {
    positive(timeout)
}

/// The attempts of a call, the first one included: 1 or more. 1 switches retries off.
///
/// # Errors
///
/// [`Invalid::OutOfRange`].
pub fn max_attempts(attempts: u32) -> Result<(), Invalid> {
    within(attempts, 1, u32::MAX)
}

/// The longest wait before the first retry: longer than zero.
///
/// # Errors
///
/// [`Invalid::Zero`].
pub fn backoff_base(base: Duration) -> Result<(), Invalid> {
    positive(base)
}

/// The longest wait before any retry: longer than zero and at least `base`.
///
/// # Errors
///
/// [`Invalid::Zero`] or [`Invalid::BelowBase`].
pub fn backoff_max(max: Duration, base: Duration) -> Result<(), Invalid> {
    positive(max)?;
    if max < base {
        return Err(Invalid::BelowBase { base, given: max });
    }
    Ok(())
}

/// The tokens of a full retry budget: 3 to 1000.
///
/// # Errors
///
/// [`Invalid::OutOfRange`].
pub fn retry_budget_max_tokens(tokens: u32) -> Result<(), Invalid> {
    within(tokens, 3, 1_000)
}

/// The tokens that a success earns: 0.001 to 1000.
///
/// # Errors
///
/// [`Invalid::RatioOutOfRange`], also for what is not a number.
pub fn retry_budget_token_ratio(given: f64) -> Result<(), Invalid> {
    const MIN: f64 = 0.001;
    const MAX: f64 = 1_000.0;
    if (MIN..=MAX).contains(&given) {
        return Ok(());
    }
    Err(Invalid::RatioOutOfRange {
        min: MIN,
        max: MAX,
        given,
    })
}

/// The results a closed breaker looks back on: 1 to 65535.
///
/// # Errors
///
/// [`Invalid::OutOfRange`].
pub fn breaker_window(window: u32) -> Result<(), Invalid> {
    within(window, 1, 65_535)
}

/// The calls a half-open breaker admits at once: 1 to 65535.
///
/// # Errors
///
/// [`Invalid::OutOfRange`].
pub fn breaker_probes(probes: u32) -> Result<(), Invalid> {
    within(probes, 1, 65_535)
}

/// How long a breaker stays open: longer than zero.
///
/// # Errors
///
/// [`Invalid::Zero`].
pub fn breaker_open_for(open_for: Duration) -> Result<(), Invalid> {
    positive(open_for)
}

/// How long a probe may stay unsettled: longer than zero.
///
/// # Errors
///
/// [`Invalid::Zero`].
pub fn breaker_probe_timeout(timeout: Duration) -> Result<(), Invalid> {
    positive(timeout)
}

/// How long one connection attempt may take: longer than zero.
///
/// # Errors
///
/// [`Invalid::Zero`].
pub fn connect_timeout(timeout: Duration) -> Result<(), Invalid> {
    positive(timeout)
}

/// How long a connection without a stream is kept: longer than zero.
///
/// # Errors
///
/// [`Invalid::Zero`].
pub fn idle_timeout(timeout: Duration) -> Result<(), Invalid> {
    positive(timeout)
}

/// How long a peer may leave a keepalive ping unanswered: longer than zero.
///
/// # Errors
///
/// [`Invalid::Zero`].
pub fn keepalive_timeout(timeout: Duration) -> Result<(), Invalid> {
    positive(timeout)
}

/// How much a peer may send before it is read, in bytes: 65535, which is what HTTP/2 starts
/// with, to 2147483647, which is its most.
///
/// # Errors
///
/// [`Invalid::OutOfRange`].
pub fn http2_window(bytes: u32) -> Result<(), Invalid> {
    within(bytes, 65_535, (1 << 31) - 1)
}

/// What a peer's headers, or its trailers, may take, in bytes: 1 or more.
///
/// # Errors
///
/// [`Invalid::OutOfRange`].
pub fn http2_max_header_list_size(bytes: u32) -> Result<(), Invalid> {
    within(bytes, 1, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    const TINY: Duration = Duration::from_nanos(1);

    fn text(result: Result<(), Invalid>) -> String {
        result.map_or_else(|invalid| invalid.to_string(), |()| "ok".to_string())
    }

    #[test]
    fn durations_are_longer_than_zero() {
        for check in [
            timeout,
            backoff_base,
            breaker_open_for,
            breaker_probe_timeout,
            connect_timeout,
            idle_timeout,
            keepalive_timeout,
        ] {
            assert_eq!(check(TINY), Ok(()));
            assert_eq!(check(Duration::MAX), Ok(()));
            assert_eq!(text(check(Duration::ZERO)), "must be longer than zero");
        }
    }

    #[test]
    fn the_longest_wait_is_at_least_the_base() {
        assert_eq!(backoff_max(TINY, TINY), Ok(()));
        assert_eq!(backoff_max(Duration::MAX, Duration::MAX), Ok(()));
        assert_eq!(
            text(backoff_max(Duration::ZERO, Duration::ZERO)),
            "must be longer than zero"
        );
        assert_eq!(
            text(backoff_max(TINY, Duration::from_millis(2))),
            "must be at least the backoff base of 2ms, not 1ns"
        );
    }

    #[test]
    fn whole_numbers_are_within_their_range() {
        for check in [breaker_window, breaker_probes] {
            assert_eq!(check(1), Ok(()));
            assert_eq!(check(65_535), Ok(()));
            assert_eq!(text(check(0)), "must be 1 to 65535, not 0");
            assert_eq!(text(check(65_536)), "must be 1 to 65535, not 65536");
        }
        assert_eq!(max_attempts(1), Ok(()));
        assert_eq!(max_attempts(u32::MAX), Ok(()));
        assert_eq!(text(max_attempts(0)), "must be 1 or more, not 0");
    }

    #[test]
    fn the_budget_is_within_its_ranges() {
        for tokens in [3, 1_000] {
            assert_eq!(retry_budget_max_tokens(tokens), Ok(()));
        }
        assert_eq!(text(retry_budget_max_tokens(2)), "must be 3 to 1000, not 2");
        assert_eq!(
            text(retry_budget_max_tokens(1_001)),
            "must be 3 to 1000, not 1001"
        );
        for ratio in [0.001, 1_000.0] {
            assert_eq!(retry_budget_token_ratio(ratio), Ok(()));
        }
        for (ratio, given) in [
            (0.0009, "0.0009"),
            (1_000.1, "1000.1"),
            (-1.0, "-1"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(
                text(retry_budget_token_ratio(ratio)),
                std::format!("must be 0.001 to 1000, not {given}")
            );
        }
    }

    #[test]
    fn http2_has_ranges_of_its_own() {
        for bytes in [65_535, 2_147_483_647] {
            assert_eq!(http2_window(bytes), Ok(()));
        }
        for bytes in [0, 65_534, 2_147_483_648, u32::MAX] {
            let expected = std::format!("must be 65535 to 2147483647, not {bytes}");
            assert_eq!(text(http2_window(bytes)), expected);
        }
        assert_eq!(http2_max_header_list_size(1), Ok(()));
        assert_eq!(http2_max_header_list_size(u32::MAX), Ok(()));
        assert_eq!(
            text(http2_max_header_list_size(0)),
            "must be 1 or more, not 0"
        );
    }
}

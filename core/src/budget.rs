//! How much retrying a client may add to a server that is already in trouble.
//!
//! When a server fails every call, three attempts a call triple its load just when it
//! can bear least. The budget is gRFC A6's throttle: a bucket of tokens that starts full,
//! pays one for each retryable failure and earns a little for each success. Retries go on
//! only while more than half of it is left; first attempts are never limited.
//!
//! Tokens are counted in integer thousandths, so fifty successes at 0.1 are exactly 5.
//!
//! ```
//! use steadfast_core::{Budget, RetryBudget};
//!
//! let mut budget = Budget::new(RetryBudget::default());
//! let allowed = (0..6).filter(|_| budget.on_failure()).count();
//! assert_eq!(allowed, 4); // 10 -> 9, 8, 7, 6; at 5 half is reached
//! ```

/// The numbers of a [`Budget`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudget {
    /// Tokens in a full bucket. Default 10, range 3 to 1000.
    pub max_tokens: u32,
    /// Tokens that a success earns. Default 0.1, range 0.001 to 1000; decimals past the
    /// third are cut.
    pub token_ratio: f64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            max_tokens: 10,
            token_ratio: 0.1,
        }
    }
}

const THOUSAND: u32 = 1_000;

/// The token bucket of gRFC A6, "Throttling Retry Attempts and Hedged RPCs".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    tokens: u32,
    max: u32,
    ratio: u32,
}

impl Budget {
    /// A full bucket. Numbers outside the ranges of [`RetryBudget`] are brought to the
    /// nearest end; the functions in [`check`](crate::check) tell them apart beforehand.
    #[must_use]
    pub fn new(settings: RetryBudget) -> Self {
        let max = settings.max_tokens.clamp(3, 1_000) * THOUSAND;
        Self {
            tokens: max,
            max,
            ratio: thousandths(settings.token_ratio),
        }
    }

    /// A call succeeded: earns the ratio, up to a full bucket.
    pub fn on_success(&mut self) {
        self.tokens = self.tokens.saturating_add(self.ratio).min(self.max);
    }

    /// An attempt failed in a way that may be retried, or the server refused a retry by
    /// pushback: pays one token. Answers whether a retry is allowed now, which is while
    /// strictly more than half of the bucket is left.
    #[must_use]
    pub fn on_failure(&mut self) -> bool {
        self.tokens = self.tokens.saturating_sub(THOUSAND);
        self.tokens > self.max / 2
    }

    /// What is left, in thousandths of a token.
    #[must_use]
    pub const fn millitokens(&self) -> u32 {
        self.tokens
    }
}

/// `ratio` in whole thousandths. A decimal such as 1.001 stands for a binary fraction
/// slightly below it; the tolerance is far above that error and far below a fourth
/// decimal that anyone writes.
fn thousandths(ratio: f64) -> u32 {
    const TOLERANCE: f64 = 1e-9;
    ((ratio.clamp(0.001, 1_000.0) * 1_000.0 + TOLERANCE) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(max_tokens: u32, token_ratio: f64) -> Budget {
        Budget::new(RetryBudget {
            max_tokens,
            token_ratio,
        })
    }

    #[test]
    fn pays_earns_and_clamps_exactly() {
        let mut budget = budget(10, 0.1);
        for _ in 0..1_000 {
            budget.on_success();
        }
        assert_eq!(budget.millitokens(), 10_000);
        let allowed = [(); 5].map(|()| budget.on_failure());
        assert_eq!(allowed, [true, true, true, true, false]);
        for _ in 0..20 {
            assert!(!budget.on_failure());
        }
        assert_eq!(budget.millitokens(), 0);
        for _ in 0..60 {
            budget.on_success();
        }
        assert_eq!(budget.millitokens(), 6_000);
        assert!(!budget.on_failure(), "5 is not above half of 10");
        for _ in 0..11 {
            budget.on_success();
        }
        assert!(budget.on_failure(), "5.1 is");
        assert_eq!(budget.millitokens(), 5_100);
    }

    #[test]
    fn an_odd_bucket_allows_above_its_exact_half() {
        let mut budget = budget(3, 0.5);
        assert!(budget.on_failure(), "2 of 3");
        budget.on_success();
        assert!(!budget.on_failure(), "1.5 of 3 is half");
    }

    #[test]
    fn ratios_are_cut_at_the_third_decimal() {
        for (ratio, millis) in [
            (0.1, 100),
            (0.5466, 546),
            (0.5469999, 546),
            (0.001, 1),
            (1.001, 1_001),
            (0.29, 290),
            (2.3, 2_300),
            (999.999, 999_999),
            (1_000.0, 1_000_000),
        ] {
            assert_eq!(thousandths(ratio), millis, "{ratio}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_brought_to_its_ends() {
        assert_eq!(budget(0, 0.1), budget(3, 0.1));
        assert_eq!(budget(u32::MAX, 0.1), budget(1_000, 0.1));
        assert_eq!(budget(10, -1.0), budget(10, 0.001));
        assert_eq!(budget(10, f64::INFINITY), budget(10, 1_000.0));
        assert_eq!(budget(10, f64::NAN), budget(10, 0.001));
    }

    proptest! {
        #[test]
        fn every_ratio_of_three_decimals_is_exact(millis in 1_u32..=1_000_000) {
            prop_assert_eq!(thousandths(f64::from(millis) / 1_000.0), millis);
        }

        #[test]
        fn agrees_with_a_naive_bucket(
            max in 3_u32..=1_000,
            ratio in 1_u32..=1_000_000,
            successes in prop::collection::vec(any::<bool>(), 0..400),
        ) {
            let mut budget = budget(max, f64::from(ratio) / 1_000.0);
            let (full, mut tokens) = (i64::from(max) * 1_000, i64::from(max) * 1_000);
            for success in successes {
                if success {
                    tokens = (tokens + i64::from(ratio)).min(full);
                    budget.on_success();
                } else {
                    tokens = (tokens - 1_000).max(0);
                    prop_assert_eq!(budget.on_failure(), tokens * 2 > full);
                }
                prop_assert_eq!(i64::from(budget.millitokens()), tokens);
            }
        }
    }
}

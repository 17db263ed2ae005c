//! What a user may decide about calls to one server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::{
    Backoff, Breaker, BreakerPolicy, BreakerSettings, Budget, DefaultPolicy, Protection,
    RetryBudget, RetryPolicy, check,
};

use crate::address::Address;
use crate::methods::MethodTable;
use crate::outcome::Classifier;

/// The settings of one client: one server, one connection, one breaker, one budget.
///
/// A zero means zero, never "use the default". Building a client checks every field and
/// reports all that are wrong at once.
///
/// ```
/// use std::time::Duration;
/// use steadfast_client::Settings;
///
/// let settings = Settings {
///     addr: "carts.internal:50051".to_owned(),
///     timeout: Duration::from_secs(2),
///     ..Settings::default()
/// };
/// assert!(settings.check().is_ok());
///
/// let wrong = Settings {
///     timeout: Duration::ZERO,
///     max_attempts: 0,
///     ..settings
/// };
/// assert_eq!(
///     wrong.check().unwrap_err().to_string(),
///     "invalid settings: timeout must be longer than zero; max_attempts must be 1 or more, not 0"
/// );
/// ```
#[derive(Clone)]
pub struct Settings {
    /// Where the server is: `host:port`, without a scheme. No default. The host is a name
    /// or an IP address, an IPv6 one in brackets; the port 1 to 65535.
    pub addr: String,
    /// How long a unary call may take in all, its retries included. Default 10 s, longer
    /// than zero. An earlier deadline of the caller's wins. A call of unknown kind has it
    /// until its response headers.
    pub timeout: Duration,
    /// Attempts of a call, the first included. Default 3, 1 or more; 1 switches retries off.
    pub max_attempts: u32,
    /// The longest wait before the first retry; doubles with each. Default 100 ms, longer
    /// than zero.
    pub backoff_base: Duration,
    /// The longest wait before any retry, and the longest pushback that is followed. Default
    /// 5 s, at least `backoff_base`.
    pub backoff_max: Duration,
    /// How much retrying may add to the server's load. Default 10 tokens, ratio 0.1.
    pub retry_budget: RetryBudget,
    /// The breaker's numbers. Default: window 20, 1 probe, open for 10 s, probe timeout 10 s.
    pub breaker: BreakerSettings,
    /// When the breaker opens and closes. Default [`DefaultPolicy`];
    /// [`NeverOpen`](steadfast_core::NeverOpen) switches it off.
    pub breaker_policy: Arc<dyn BreakerPolicy>,
    /// What a result means. Default: [`Classification::of`](steadfast_core::Classification::of).
    pub classify: Classifier,
    /// Which methods are unary, for calls that don't say so by a
    /// [`CallKind`](crate::CallKind). Default: only the standard services' are known.
    pub methods: MethodTable,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            addr: String::new(),
            timeout: Duration::from_secs(10),
            max_attempts: 3,
            backoff_base: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            retry_budget: RetryBudget::default(),
            breaker: BreakerSettings::default(),
            breaker_policy: Arc::new(DefaultPolicy),
            classify: Classifier::default(),
            methods: MethodTable::default(),
        }
    }
}

impl Settings {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] names every field that is wrong, and says what is wrong with it.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.parse().map(drop)
    }

    /// The address, parsed, once every field is known to be right.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn parse(&self) -> Result<Address, SettingsError> {
        self.parse_with([])
    }

    /// The same, with the findings of whoever has more to check, so that all are reported at
    /// once: each a name and what is wrong with it, or nothing.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn parse_with(
        &self,
        more: impl IntoIterator<Item = (&'static str, Result<(), check::Invalid>)>,
    ) -> Result<Address, SettingsError> {
        let address = Address::parse(&self.addr);
        let breaker = &self.breaker;
        let own = [
            ("timeout", check::timeout(self.timeout)),
            ("max_attempts", check::max_attempts(self.max_attempts)),
            ("backoff_base", check::backoff_base(self.backoff_base)),
            (
                "backoff_max",
                check::backoff_max(self.backoff_max, self.backoff_base),
            ),
            (
                "retry_budget.max_tokens",
                check::retry_budget_max_tokens(self.retry_budget.max_tokens),
            ),
            (
                "retry_budget.token_ratio",
                check::retry_budget_token_ratio(self.retry_budget.token_ratio),
            ),
            ("breaker.window", check::breaker_window(breaker.window)),
            ("breaker.probes", check::breaker_probes(breaker.probes)),
            (
                "breaker.open_for",
                check::breaker_open_for(breaker.open_for),
            ),
            (
                "breaker.probe_timeout",
                check::breaker_probe_timeout(breaker.probe_timeout),
            ),
        ];
        let wrong_address = address.as_ref().err().map(|wrong| InvalidField {
            field: "addr",
            reason: wrong.to_string(),
        });
        let wrong = own.into_iter().chain(more).filter_map(|(field, result)| {
            let reason = result.err()?.to_string();
            Some(InvalidField { field, reason })
        });
        let invalid: Vec<_> = wrong_address.into_iter().chain(wrong).collect();
        match address {
            Ok(address) if invalid.is_empty() => Ok(address),
            _ => Err(SettingsError { invalid }),
        }
    }

    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            max_attempts: self.max_attempts,
            backoff: Backoff::new(self.backoff_base, self.backoff_max),
        }
    }

    pub(crate) fn protection(&self) -> Protection {
        Protection {
            breaker: Breaker::with_policy(self.breaker, Arc::clone(&self.breaker_policy)),
            budget: Budget::new(self.retry_budget),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("addr", &self.addr)
            .field("timeout", &self.timeout)
            .field("max_attempts", &self.max_attempts)
            .field("backoff_base", &self.backoff_base)
            .field("backoff_max", &self.backoff_max)
            .field("retry_budget", &self.retry_budget)
            .field("breaker", &self.breaker)
            .field("classify", &self.classify)
            .field("methods", &self.methods)
            .finish_non_exhaustive()
    }
}

/// Settings that can't be used: every field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    invalid: Vec<InvalidField>,
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidField {
    /// The field's name, such as `timeout` or `breaker.window`.
    pub field: &'static str,
    /// What is wrong with it, such as `must be longer than zero`.
    pub reason: String,
}

impl SettingsError {
    /// The fields that are wrong, in the order they are declared in.
    #[must_use]
    pub fn invalid(&self) -> &[InvalidField] {
        &self.invalid
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid settings: ")?;
        for (n, InvalidField { field, reason }) in self.invalid.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            write!(f, "{separator}{field} {reason}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

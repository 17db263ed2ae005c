//! What happens when: the phases of the server, the load, and the settings of both clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadfast_tokio::{
    BreakerPolicy, BreakerSettings, Counts, ProbeVerdict, RetryBudget, Settings,
};

/// How the server behaves for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Answers everything.
    Healthy,
    /// Its socket and every connection are gone.
    Refusing,
    /// Fails `percent` of the attempts with UNAVAILABLE, and asks for a pause if `pushback_ms`
    /// is given.
    Unavailable {
        percent: u64,
        pushback_ms: Option<u32>,
    },
    /// Takes every attempt and never answers.
    Hanging,
}

/// A stretch of the script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) behaviour: Behaviour,
    pub(crate) lasts: Duration,
}

impl Phase {
    /// Whether at least some attempts of it can succeed.
    pub(crate) fn is_up(&self) -> bool {
        !matches!(self.behaviour, Behaviour::Refusing | Behaviour::Hanging)
    }
}

/// The whole of one run, the same for both clients.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) phases: Vec<Phase>,
    /// Calls a second.
    pub(crate) rate: u32,
    /// How long a call may take, with either client.
    pub(crate) timeout: Duration,
    open_for: Duration,
    window: u32,
}

impl Plan {
    /// A run of 14 seconds, in whole ones, so that a line of progress is about one phase.
    pub(crate) fn full() -> Self {
        Self {
            phases: phases(
                [
                    1_000, 1_000, 1_000, 2_000, 2_000, 1_000, 3_000, 2_000, 1_000,
                ],
                100,
            ),
            rate: 200,
            timeout: Duration::from_millis(500),
            open_for: Duration::from_secs(1),
            window: 100,
        }
    }

    /// The same in less than four seconds: everything happens, but most phases are too short
    /// for the numbers to mean much. The server is gone for less than a connection backs off
    /// after its first failure, 0.8 to 1.2 s, so that one failure is all there is.
    pub(crate) fn short() -> Self {
        Self {
            phases: phases([100, 750, 550, 800, 700, 50, 300, 300, 100], 20),
            rate: 200,
            timeout: Duration::from_millis(100),
            open_for: Duration::from_millis(150),
            window: 30,
        }
    }

    /// Steadfast's settings for the server at `addr`.
    pub(crate) fn settings(&self, addr: String) -> Settings {
        Settings {
            addr,
            timeout: self.timeout,
            max_attempts: 4,
            backoff_base: Duration::from_millis(50),
            backoff_max: Duration::from_millis(500),
            retry_budget: RetryBudget {
                max_tokens: 200,
                token_ratio: 0.3,
            },
            breaker: BreakerSettings {
                window: self.window,
                probes: PROBES,
                open_for: self.open_for,
                ..BreakerSettings::default()
            },
            // The default opens on five failures in a row, 25 ms of this load, and again on one
            // failed probe: too nervous for a server that many call at once.
            breaker_policy: Arc::new(Half {
                window: self.window,
            }),
            ..Settings::default()
        }
    }

    /// How long a run takes.
    pub(crate) fn lasts(&self) -> Duration {
        self.phases.iter().map(|phase| phase.lasts).sum()
    }

    /// Which phase holds this time; the last one afterwards.
    pub(crate) fn phase_at(&self, since_start: Duration) -> usize {
        let mut end = Duration::ZERO;
        let ended = |phase: &&Phase| {
            end += phase.lasts;
            end <= since_start
        };
        let ended = self.phases.iter().take_while(ended).count();
        ended.min(self.phases.len() - 1)
    }

    /// How many calls a run makes.
    pub(crate) fn calls(&self) -> u32 {
        (self.lasts().as_secs_f64() * f64::from(self.rate)).round() as u32
    }

    /// When call `n` is due, after the start.
    pub(crate) fn due(&self, n: u32) -> Duration {
        Duration::from_secs(1) * n / self.rate
    }
}

fn phases(millis: [u64; 9], pushback_ms: u32) -> Vec<Phase> {
    use Behaviour::{Hanging, Healthy, Refusing, Unavailable};
    let unavailable = |percent, pushback_ms| Unavailable {
        percent,
        pushback_ms,
    };
    let behaviours = [
        ("healthy", Healthy),
        ("connection refused", Refusing),
        ("healthy", Healthy),
        ("unavailable", unavailable(25, None)),
        ("unavailable, pushback", unavailable(25, Some(pushback_ms))),
        ("healthy", Healthy),
        ("hanging", Hanging),
        ("recovering", unavailable(20, None)),
        ("healthy", Healthy),
    ];
    let phase = |((name, behaviour), millis)| Phase {
        name,
        behaviour,
        lasts: Duration::from_millis(millis),
    };
    behaviours.into_iter().zip(millis).map(phase).collect()
}

/// How many calls may try a server that was in trouble, at once.
const PROBES: u32 = 5;

/// Opens when half of the last results failed, once half a window is in. Half-open, whichever
/// comes first decides: five successes or five failures.
struct Half {
    window: u32,
}

impl BreakerPolicy for Half {
    fn should_open(&self, counts: &Counts) -> bool {
        counts.results() >= self.window / 2 && counts.failures >= counts.successes
    }

    fn judge_probes(&self, counts: &Counts) -> ProbeVerdict {
        if counts.failures >= PROBES {
            ProbeVerdict::Open
        } else if counts.successes >= PROBES {
            ProbeVerdict::Close
        } else {
            ProbeVerdict::KeepProbing
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings(String::new());
        writeln!(
            f,
            "{} calls a second for {:?}, first through tonic's Channel, then through Steadfast.",
            self.rate,
            self.lasts(),
        )?;
        if self.lasts() < Duration::from_secs(10) {
            writeln!(
                f,
                "The short form. Its phases are shorter than the second that gRPC waits between two dials,\nso its numbers mean little."
            )?;
        }
        writeln!(
            f,
            "\nBoth give a call {:?}. Steadfast makes up to {} attempts within it, while retries \
             stay\nunder about {:.0} % of the successes, and opens its breaker for {:?} when half \
             of the last\n{} attempts failed.\n\nThe server's script:",
            self.timeout,
            settings.max_attempts,
            settings.retry_budget.token_ratio * 100.0,
            self.open_for,
            self.window,
        )?;
        let mut start = Duration::ZERO;
        for phase in &self.phases {
            let (from, to) = (start.as_secs_f64(), (start + phase.lasts).as_secs_f64());
            writeln!(f, "  {from:5.2} to {to:5.2} s  {}", phase.behaviour)?;
            start += phase.lasts;
        }
        Ok(())
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Refusing => f.write_str("connection refused: the server is gone"),
            Self::Unavailable {
                percent,
                pushback_ms: None,
            } => write!(f, "{percent} % of attempts fail with UNAVAILABLE"),
            Self::Unavailable {
                percent,
                pushback_ms: Some(ms),
            } => write!(
                f,
                "{percent} % of attempts fail with UNAVAILABLE and a pushback of {ms} ms"
            ),
            Self::Hanging => f.write_str("hanging: attempts are taken and never answered"),
        }
    }
}

//! The connection against a naive model: it counts failures and works the backoff out anew
//! each time, and leaves the jitter open, which it only bounds.

use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::{
    Connection, ConnectionAction, ConnectionSettings, ConnectionState, Instant, Latch,
    SeededRandom, Usage,
};

const SECOND: u64 = 1_000_000_000;
const CONNECT_TIMEOUT: u64 = 20 * SECOND;
const IDLE_TIMEOUT: u64 = 60 * SECOND;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Idle,
    /// A call waits until the pace allows a dial.
    Paced(u64),
    Dialing,
    /// Ready, and to be looked at then.
    Ready(u64),
    Failed(u64),
    Closed,
}

struct Model {
    phase: Phase,
    failures: u32,
    dials: u64,
    dialed_at: u64,
    /// The earliest dial after a connection that served nothing.
    pace: u64,
    was_ready: bool,
}

impl Model {
    /// 1 s, times 1.6 for each failure since the last SETTINGS, at most 120 s.
    fn backoff(&self) -> f64 {
        (1.6_f64.powi(self.failures as i32) * SECOND as f64).min(120.0 * SECOND as f64)
    }

    fn state(&self) -> ConnectionState {
        match self.phase {
            Phase::Idle => ConnectionState::Idle,
            Phase::Paced(_) | Phase::Dialing => ConnectionState::Connecting,
            Phase::Ready(_) => ConnectionState::Ready,
            Phase::Failed(_) => ConnectionState::TransientFailure,
            Phase::Closed => ConnectionState::Closed,
        }
    }

    fn latch(&self) -> Latch {
        match (self.phase, self.was_ready) {
            (Phase::Closed, _) => Latch::Closed,
            (_, true) => Latch::Set,
            (_, false) => Latch::Unset,
        }
    }

    fn due(&self) -> Option<u64> {
        match self.phase {
            Phase::Paced(until) | Phase::Ready(until) | Phase::Failed(until) => Some(until),
            Phase::Dialing => Some(self.dialed_at + CONNECT_TIMEOUT),
            Phase::Idle | Phase::Closed => None,
        }
    }

    fn dial(&mut self, now: u64) -> ConnectionAction {
        self.phase = Phase::Dialing;
        self.dialed_at = now;
        self.dials += 1;
        ConnectionAction::Dial {
            generation: self.dials,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Demand,
    ConnectNow,
    Served {
        stale: bool,
    },
    Failed {
        stale: bool,
    },
    Lost {
        stale: bool,
        served: bool,
    },
    /// Jumps to when the connection is due, if it is, and a little further.
    Due {
        past: u64,
        idle_for: Option<u64>,
    },
    Early,
    Pass(u64),
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    let stale = || prop::bool::weighted(0.2);
    let idle_for = prop::option::of(0_u64..2 * IDLE_TIMEOUT);
    prop_oneof![
        60 => Just(Op::Demand),
        10 => Just(Op::ConnectNow),
        30 => stale().prop_map(|stale| Op::Served { stale }),
        50 => stale().prop_map(|stale| Op::Failed { stale }),
        20 => (stale(), any::<bool>()).prop_map(|(stale, served)| Op::Lost { stale, served }),
        40 => (0_u64..3, idle_for).prop_map(|(past, idle_for)| Op::Due { past, idle_for }),
        10 => Just(Op::Early),
        30 => (0_u64..2 * SECOND).prop_map(Op::Pass),
        1 => Just(Op::Close),
    ]
}

/// The machine, the model, and the time they share.
struct Pair {
    machine: Connection,
    model: Model,
    random: SeededRandom,
    now: u64,
}

impl Pair {
    fn new(seed: u64) -> Self {
        Self {
            machine: Connection::new(ConnectionSettings {
                connect_timeout: Duration::from_nanos(CONNECT_TIMEOUT),
                idle_timeout: Duration::from_nanos(IDLE_TIMEOUT),
                ..ConnectionSettings::default()
            }),
            model: Model {
                phase: Phase::Idle,
                failures: 0,
                dials: 0,
                dialed_at: 0,
                pace: 0,
                was_ready: false,
            },
            random: SeededRandom::new(seed),
            now: 0,
        }
    }

    fn generation(&self, stale: bool) -> u64 {
        self.model.dials.wrapping_sub(u64::from(stale))
    }

    /// The attempt under way failed: a backoff from its start, of which the jitter is open.
    fn fail(&mut self) -> Result<(), TestCaseError> {
        let backoff = self.model.backoff();
        self.model.failures += 1;
        let dialed_at = self.model.dialed_at as f64;
        let (least, most) = (dialed_at + 0.8 * backoff, dialed_at + 1.2 * backoff);
        // Whole nanoseconds, of values that a float holds to a few.
        const ROUNDING: f64 = 100.0;
        self.model.phase = match self.machine.state() {
            ConnectionState::TransientFailure => {
                let until = self.machine.poll_timeout().expect("a backoff").as_nanos();
                prop_assert!((least - ROUNDING..=most + ROUNDING).contains(&(until as f64)));
                prop_assert!(until > self.now);
                Phase::Failed(until)
            }
            _ => {
                prop_assert!(least - ROUNDING <= self.now as f64, "a backoff was due");
                Phase::Idle
            }
        };
        Ok(())
    }

    fn step(&mut self, op: Op) -> Result<Option<ConnectionAction>, TestCaseError> {
        let now = Instant::from_nanos(self.now);
        match op {
            Op::Demand => {
                self.machine.handle_demand(now);
                match self.model.phase {
                    Phase::Failed(until) if self.now < until => {}
                    Phase::Idle | Phase::Failed(_) if self.now < self.model.pace => {
                        self.model.phase = Phase::Paced(self.model.pace);
                    }
                    Phase::Idle | Phase::Failed(_) => return Ok(Some(self.model.dial(self.now))),
                    _ => {}
                }
            }
            Op::ConnectNow => {
                self.machine.handle_connect_now(now);
                if let Phase::Idle | Phase::Paced(_) | Phase::Failed(_) = self.model.phase {
                    self.model.failures = 0;
                    self.model.pace = self.now;
                    return Ok(Some(self.model.dial(self.now)));
                }
            }
            Op::Served { stale } => {
                self.machine.handle_served(self.generation(stale), now);
                if self.model.phase == Phase::Dialing && !stale {
                    self.model.phase = Phase::Ready(self.now + IDLE_TIMEOUT);
                    self.model.failures = 0;
                    self.model.was_ready = true;
                }
            }
            Op::Failed { stale } => {
                let generation = self.generation(stale);
                self.machine
                    .handle_failed(generation, now, &mut self.random);
                if self.model.phase == Phase::Dialing && !stale {
                    self.fail()?;
                }
            }
            Op::Lost { stale, served } => {
                let generation = self.generation(stale);
                self.machine
                    .handle_lost(generation, served, &mut self.random);
                if matches!(self.model.phase, Phase::Ready(_)) && !stale {
                    self.model.phase = Phase::Idle;
                    if !served {
                        // When the next dial may be is only seen when a call asks.
                        self.machine.handle_demand(now);
                        return self.pace();
                    }
                }
            }
            Op::Due { idle_for, .. } => return self.timeout(idle_for),
            Op::Early => {
                if self.model.due().is_none_or(|due| self.now < due) {
                    let usage = Usage::IdleSince(Instant::ZERO);
                    self.machine.handle_timeout(now, usage, &mut self.random);
                }
            }
            Op::Close => {
                self.machine.handle_close();
                let generation = self.model.dials;
                let phase = std::mem::replace(&mut self.model.phase, Phase::Closed);
                return Ok(match phase {
                    Phase::Dialing => Some(ConnectionAction::Abandon { generation }),
                    Phase::Ready(_) => Some(ConnectionAction::Retire { generation }),
                    _ => None,
                });
            }
            Op::Pass(_) => {}
        }
        Ok(None)
    }

    /// A call asked right after a connection was lost that served nothing.
    fn pace(&mut self) -> Result<Option<ConnectionAction>, TestCaseError> {
        let dialed_at = self.model.dialed_at;
        let (least, most) = (dialed_at + SECOND / 5 * 4, dialed_at + SECOND / 5 * 6);
        match self.machine.poll_timeout().map(Instant::as_nanos) {
            Some(until) if until <= most => {
                prop_assert!((least..=most).contains(&until) && until > self.now);
                self.model.pace = until;
                self.model.phase = Phase::Paced(until);
                Ok(None)
            }
            _ => {
                prop_assert!(self.now >= least, "dialed too soon");
                Ok(Some(self.model.dial(self.now)))
            }
        }
    }

    fn timeout(
        &mut self,
        idle_for: Option<u64>,
    ) -> Result<Option<ConnectionAction>, TestCaseError> {
        let idle_since = idle_for.map(|idle_for| self.now.saturating_sub(idle_for));
        let usage = idle_since.map_or(Usage::Busy, |since| {
            Usage::IdleSince(Instant::from_nanos(since))
        });
        let now = Instant::from_nanos(self.now);
        self.machine.handle_timeout(now, usage, &mut self.random);
        let generation = self.model.dials;
        if self.model.due().is_none_or(|due| self.now < due) {
            return Ok(None);
        }
        match self.model.phase {
            Phase::Paced(_) => return Ok(Some(self.model.dial(self.now))),
            Phase::Dialing => {
                self.fail()?;
                return Ok(Some(ConnectionAction::Abandon { generation }));
            }
            Phase::Ready(_) => {
                let idle_since = idle_since.unwrap_or(self.now);
                if idle_since + IDLE_TIMEOUT <= self.now {
                    self.model.phase = Phase::Idle;
                    return Ok(Some(ConnectionAction::Retire { generation }));
                }
                self.model.phase = Phase::Ready(idle_since + IDLE_TIMEOUT);
            }
            Phase::Failed(_) => self.model.phase = Phase::Idle,
            Phase::Idle | Phase::Closed => {}
        }
        Ok(None)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn agrees_with_the_model(seed in any::<u64>(), ops in prop::collection::vec(op(), 0..200)) {
        let mut pair = Pair::new(seed);
        for op in ops {
            match op {
                Op::Pass(by) => pair.now += by,
                Op::Due { past, .. } => {
                    pair.now = pair.now.max(pair.model.due().unwrap_or(pair.now) + past);
                }
                _ => {}
            }
            let expected = pair.step(op)?;
            prop_assert_eq!(pair.machine.poll_action(), expected, "{:?}", op);
            prop_assert_eq!(pair.machine.poll_action(), None);
            prop_assert_eq!(pair.machine.state(), pair.model.state(), "{:?}", op);
            prop_assert_eq!(pair.machine.latch(), pair.model.latch());
            let due = pair.machine.poll_timeout().map(Instant::as_nanos);
            prop_assert_eq!(due, pair.model.due(), "{:?}", op);
        }
    }
}

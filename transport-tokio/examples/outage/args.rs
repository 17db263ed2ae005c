//! The command line, read by hand: seven flags don't need a library.

use std::ffi::OsString;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use steadfast_tokio::{Address, check};

pub(crate) const HELP: &str = "\
An outage, lived through by a tonic Channel and by Steadfast.

usage: outage [--short]
       outage --addr HOST:PORT --method /PACKAGE.SERVICE/METHOD [options]

Without --addr: a server on loopback fails in every way, twice, while calls arrive
at a fixed rate. About 30 seconds.

  --short             the same in about 8 seconds, too short for the numbers to mean much

With --addr: calls a server of yours through Steadfast with its default settings, and
prints each attempt, what it was taken for, and each change of the breaker.

  --addr HOST:PORT    the server, plain text
  --method PATH       a unary method, such as /carts.v1.CartService/AddItem
  --request-hex HEX   the request, a protobuf message in hex; empty by default
  --calls N           how many calls, 1 by default
  --rate R            calls a second, 10 by default; they don't wait for each other
  --timeout TIME      how long a call may take, such as 500ms or 2s; 2s by default

Exit code: 0; 1 if no call succeeded; 2 for bad arguments or a server that can't be reached.";

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Outage { short: bool },
    Probe(Target),
}

/// A server of the user's, and what to call there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) method: PathAndQuery,
    pub(crate) request: Bytes,
    pub(crate) calls: u32,
    /// From the start of one call to the start of the next.
    pub(crate) period: Duration,
    pub(crate) timeout: Duration,
}

/// Reads the arguments; an error is one line that names what is wrong.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut given = Given::default();
    let mut args = args.into_iter().map(|arg| {
        arg.into_string()
            .map_err(|arg| format!("the argument {arg:?} is not text"))
    });
    while let Some(arg) = args.next() {
        let arg = arg?;
        let (flag, value) = match arg.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => (arg.as_str(), None),
        };
        match (flag, value) {
            ("--help" | "-h", None) => return Ok(Command::Help),
            ("--short", None) => given.short = true,
            ("--help" | "-h" | "--short", Some(_)) => return Err(format!("{flag} takes no value")),
            (flag, value) => {
                let slot = given.slot(flag)?;
                let value = match value {
                    Some(value) => value,
                    None => args
                        .next()
                        .transpose()?
                        .filter(|value| !value.starts_with("--"))
                        .ok_or_else(|| format!("{flag} needs a value"))?,
                };
                if slot.replace(value).is_some() {
                    return Err(format!("{flag} is given twice"));
                }
            }
        }
    }
    given.command()
}

/// The arguments as written.
#[derive(Default)]
struct Given {
    short: bool,
    addr: Option<String>,
    method: Option<String>,
    request: Option<String>,
    calls: Option<String>,
    rate: Option<String>,
    timeout: Option<String>,
}

impl Given {
    fn slot(&mut self, flag: &str) -> Result<&mut Option<String>, String> {
        Ok(match flag {
            "--addr" => &mut self.addr,
            "--method" => &mut self.method,
            "--request-hex" => &mut self.request,
            "--calls" => &mut self.calls,
            "--rate" => &mut self.rate,
            "--timeout" => &mut self.timeout,
            _ => return Err(format!("unknown argument {flag:?}; --help lists them")),
        })
    }

    fn command(self) -> Result<Command, String> {
        let Some(addr) = self.addr else {
            let others = [
                ("--method", self.method),
                ("--request-hex", self.request),
                ("--calls", self.calls),
                ("--rate", self.rate),
                ("--timeout", self.timeout),
            ];
            return match others.iter().find(|(_, value)| value.is_some()) {
                Some((flag, _)) => Err(format!("{flag} needs --addr as well")),
                None => Ok(Command::Outage { short: self.short }),
            };
        };
        if self.short {
            return Err("--short and --addr don't go together".to_owned());
        }
        let address = Address::parse(&addr).map_err(|error| format!("--addr {error}"))?;
        let method = self.method.ok_or("--addr needs --method as well")?;
        Ok(Command::Probe(Target {
            address,
            method: parse_method(&method)?,
            request: parse_hex(&self.request.unwrap_or_default())?.into(),
            calls: self.calls.map_or(Ok(1), |text| parse_calls(&text))?,
            period: parse_rate(self.rate.as_deref().unwrap_or("10"))?,
            timeout: parse_timeout(self.timeout.as_deref().unwrap_or("2s"))?,
        }))
    }
}

fn parse_method(text: &str) -> Result<PathAndQuery, String> {
    let wrong = || format!("--method must be /package.Service/Method, not {text:?}");
    let (service, method) = text
        .strip_prefix('/')
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(wrong)?;
    let is_name = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
        !name.is_empty() && name.chars().all(allowed)
    };
    if !is_name(service) || !is_name(method) {
        return Err(wrong());
    }
    text.parse().map_err(|_| wrong())
}

fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |c: char| {
        c.to_digit(16)
            .ok_or_else(|| format!("--request-hex has {c:?}, which is not a hex digit"))
    };
    let digits = text.chars().map(digit).collect::<Result<Vec<_>, _>>()?;
    if digits.len() % 2 == 1 {
        let count = digits.len();
        return Err(format!(
            "--request-hex has {count} digits; a byte takes two"
        ));
    }
    let byte = |pair: &[u32]| (pair[0] * 16 + pair[1]) as u8;
    Ok(digits.chunks_exact(2).map(byte).collect())
}

fn parse_calls(text: &str) -> Result<u32, String> {
    let calls = text.parse().ok().filter(|calls| *calls > 0);
    calls.ok_or_else(|| format!("--calls must be a whole number of 1 or more, not {text:?}"))
}

fn parse_rate(text: &str) -> Result<Duration, String> {
    let rate: Option<f64> = text.parse().ok();
    rate.filter(|rate| (0.001..=10_000.0).contains(rate))
        .map(|rate| Duration::from_secs_f64(rate.recip()))
        .ok_or_else(|| format!("--rate must be a number of 0.001 to 10000, not {text:?}"))
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let wrong = || format!("--timeout must be a time such as 500ms or 2s, not {text:?}");
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').ok_or_else(wrong)?, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let timeout = Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    check::timeout(timeout).map_err(|error| format!("--timeout {error}, not {text:?}"))?;
    Ok(timeout)
}

//! The one address of a client.

use std::fmt;
use std::net::Ipv6Addr;

use http::uri::Authority;

/// A checked `host:port`.
///
/// Nothing here resolves it: it is handed as written to the one who dials, and the
/// authority of every request comes from it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    text: String,
    authority: Authority,
    /// Where the last colon stands.
    colon: usize,
    port: u16,
}

impl Address {
    /// Reads `host:port`.
    ///
    /// # Errors
    ///
    /// [`InvalidAddress`] for an empty host, a missing or zero port, a scheme, a path, or an
    /// IPv6 address without brackets. Its text says which.
    ///
    /// ```
    /// use steadfast_client::Address;
    ///
    /// let address = Address::parse("[::1]:50051").unwrap();
    /// assert_eq!((address.host(), address.port()), ("::1", 50051));
    /// assert!(Address::parse("http://localhost:1").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = |reason| InvalidAddress {
            given: text.to_owned(),
            reason,
        };
        if text.contains("://") {
            return Err(invalid("must be host:port without a scheme"));
        }
        let colon = text
            .rfind(':')
            .ok_or(invalid("must be host:port, with a port"))?;
        let (host, port) = (&text[..colon], &text[colon + 1..]);
        if host.is_empty() {
            return Err(invalid("must have a host before the colon"));
        }
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        match bracketed {
            Some(host) if host.parse::<Ipv6Addr>().is_err() => {
                return Err(invalid("must have an IPv6 address inside its brackets"));
            }
            None if host.contains(':') => {
                return Err(invalid("must have an IPv6 address in brackets"));
            }
            _ => {}
        }
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| digits && *port != 0);
        let port = port.ok_or(invalid("must have a port of 1 to 65535"))?;
        if host.contains(['/', '@', '?', '#']) {
            return Err(invalid("must be host:port and nothing else"));
        }
        let authority = text
            .parse()
            .map_err(|_| invalid("must have a host of letters, digits, dots and hyphens"))?;
        Ok(Self {
            text: text.to_owned(),
            authority,
            colon,
            port,
        })
    }

    /// The host, an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = &self.text[..self.colon];
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    /// The port, 1 to 65535.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The `:authority` of requests: the address as written.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The address as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl std::str::FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// A text that is not `host:port`. Its `Display` says what is wrong, and ends with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress {
    given: String,
    reason: &'static str,
}

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, not {:?}", self.reason, self.given)
    }
}

impl std::error::Error for InvalidAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read() {
        for (text, host, port) in [
            ("localhost:1", "localhost", 1),
            ("carts.internal:65535", "carts.internal", 65535),
            ("10.0.0.5:50051", "10.0.0.5", 50051),
            ("[::1]:443", "::1", 443),
            ("[2001:db8::7]:80", "2001:db8::7", 80),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!((address.host(), address.port()), (host, port));
            assert_eq!(address.as_str(), text);
            assert_eq!(address.authority().as_str(), text);
        }
    }

    #[test]
    fn everything_else_says_what_is_wrong() {
        for (text, reason) in [
            ("", "must be host:port, with a port"),
            ("localhost", "must be host:port, with a port"),
            (":1", "must have a host before the colon"),
            ("localhost:", "must have a port of 1 to 65535"),
            ("localhost:0", "must have a port of 1 to 65535"),
            ("localhost:65536", "must have a port of 1 to 65535"),
            ("localhost:+1", "must have a port of 1 to 65535"),
            ("localhost:-1", "must have a port of 1 to 65535"),
            ("localhost:http", "must have a port of 1 to 65535"),
            ("http://localhost:1", "must be host:port without a scheme"),
            ("::1:50051", "must have an IPv6 address in brackets"),
            ("[::g]:1", "must have an IPv6 address inside its brackets"),
            ("[]:1", "must have an IPv6 address inside its brackets"),
            ("user@host:1", "must be host:port and nothing else"),
            ("host/path:1", "must be host:port and nothing else"),
            (
                "a b:1",
                "must have a host of letters, digits, dots and hyphens",
            ),
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert_eq!(error, format!("{reason}, not {text:?}"));
        }
    }
}

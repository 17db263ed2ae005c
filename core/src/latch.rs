//! Readiness that does not flap.
//!
//! A readiness probe that followed each reconnect would take a healthy process out of
//! rotation every time a server's connection age runs out; one that was green before the
//! first connection would let traffic in too early. The latch is set by the first ready
//! connection, and stays so until the client is closed.
//!
//! ```
//! use steadfast_core::Latch;
//!
//! let mut latch = Latch::default();
//! assert!(!latch.is_set());
//! assert!(latch.on_ready(), "waiters are woken once");
//! assert!(!latch.on_ready());
//! latch.on_closed();
//! assert!(!latch.is_set());
//! ```

/// Unset until the first ready connection, then set until closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Latch {
    /// No connection was ready yet.
    #[default]
    Unset,
    /// A connection was ready once.
    Set,
    /// The client is closed. Nothing sets it again.
    Closed,
}

impl Latch {
    /// A connection is ready. Whether that changed the latch.
    pub fn on_ready(&mut self) -> bool {
        let changed = *self == Self::Unset;
        if changed {
            *self = Self::Set;
        }
        changed
    }

    /// The client is closed. Whether that changed the latch.
    pub fn on_closed(&mut self) -> bool {
        let changed = *self != Self::Closed;
        *self = Self::Closed;
        changed
    }

    /// Whether a connection was ready and the client is not closed.
    #[must_use]
    pub fn is_set(self) -> bool {
        self == Self::Set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_once_and_closes_for_good() {
        let mut latch = Latch::default();
        assert!(!latch.is_set());
        assert!(latch.on_ready());
        assert!(latch.is_set());
        assert!(!latch.on_ready());
        assert!(latch.is_set());
        assert!(latch.on_closed());
        assert!(!latch.is_set());
        assert!(!latch.on_closed());
        assert!(!latch.on_ready());
        assert!(!latch.is_set());
    }

    #[test]
    fn can_be_closed_before_it_was_set() {
        let mut latch = Latch::default();
        assert!(latch.on_closed());
        assert_eq!(latch, Latch::Closed);
    }
}

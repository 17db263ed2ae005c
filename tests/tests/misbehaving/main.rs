//! Peers, networks and callers that misbehave, one scenario a file.
//!
//! Time is paused; peers are raw frames, h2's server half, or a tonic server that is cut off.

mod cancel_storm;
mod dropped_streams;
mod early_replies;
mod informational;
mod padding;
mod split_reads;

//! Steadfast measured against its peers, in one run.

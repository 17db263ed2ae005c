//! HTTP/2's own numbers.

use std::time::Duration;

use steadfast_core::check::{self, Invalid};

/// The limits of one HTTP/2 connection, on what the peer may send and on what is kept for
/// streams that are gone.
///
/// The defaults suit calls of up to some hundred kilobytes. Large streams over a long way want
/// larger windows: a stream is no faster than its window each round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Settings {
    /// How much one stream may send before its caller reads, in bytes. Default 256 KiB; 65535
    /// to 2147483647.
    pub stream_window: u32,
    /// How much all streams may send before their callers read, in bytes. Default 16 MiB, so
    /// that sixty-four callers which don't read leave something for the rest; 65535 to
    /// 2147483647.
    pub connection_window: u32,
    /// What response headers, or trailers, may take uncompressed, in bytes. Default 64 KiB; 1
    /// or more. Larger response headers fail their call; of larger trailers what is beyond is
    /// lost.
    pub max_header_list_size: u32,
    /// For how many streams that were reset here late frames are told from wrong ones. Default
    /// 50.
    pub max_concurrent_reset_streams: usize,
    /// For how long. Default 1 s, by the clock of the operating system.
    pub reset_stream_duration: Duration,
    /// How many streams may be reset here for what the peer did wrong before the connection is
    /// ended. Default no limit: frames that arrive late for calls which were given up are no
    /// attack.
    pub max_local_error_reset_streams: Option<usize>,
    /// A connection has streams until 2147483647; a test of what comes then starts near it.
    #[cfg(test)]
    pub(crate) first_stream: u32,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Self {
            stream_window: 256 * 1024,
            connection_window: 64 * 256 * 1024,
            max_header_list_size: 64 * 1024,
            max_concurrent_reset_streams: 50,
            reset_stream_duration: Duration::from_secs(1),
            max_local_error_reset_streams: None,
            #[cfg(test)]
            first_stream: 1,
        }
    }
}

impl Http2Settings {
    /// Each number's name and what is wrong with it, for
    /// [`Settings::parse_with`](steadfast_client::Settings::parse_with).
    ///
    /// # Errors
    ///
    /// Beside each name.
    pub fn check(&self) -> [(&'static str, Result<(), Invalid>); 3] {
        [
            (
                "http2.stream_window",
                check::http2_window(self.stream_window),
            ),
            (
                "http2.connection_window",
                check::http2_window(self.connection_window),
            ),
            (
                "http2.max_header_list_size",
                check::http2_max_header_list_size(self.max_header_list_size),
            ),
        ]
    }

    pub(crate) fn builder(&self) -> h2::client::Builder {
        let mut builder = h2::client::Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(self.stream_window)
            .initial_connection_window_size(self.connection_window)
            .max_header_list_size(self.max_header_list_size)
            .max_concurrent_reset_streams(self.max_concurrent_reset_streams)
            .reset_stream_duration(self.reset_stream_duration)
            .max_local_error_reset_streams(self.max_local_error_reset_streams);
        #[cfg(test)]
        builder.initial_stream_id(self.first_stream);
        builder
    }
}

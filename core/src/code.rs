//! The seventeen gRPC status codes, and the codes of other layers mapped on them.

/// A gRPC status code, as the gRPC core documentation (`statuscodes.md`) names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The caller gave up, or the server did on its behalf.
    Cancelled = 1,
    /// An error without a better code, or an answer that is no gRPC.
    Unknown = 2,
    /// The request is wrong whatever the state of the server.
    InvalidArgument = 3,
    /// The deadline passed first.
    DeadlineExceeded = 4,
    /// What was asked for is not there.
    NotFound = 5,
    /// What was to be made is there already.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A quota or a resource is used up.
    ResourceExhausted = 8,
    /// The server is not in the state that this needs.
    FailedPrecondition = 9,
    /// A conflict, such as of transactions; a retry at a higher level may work.
    Aborted = 10,
    /// Past the valid range, such as the end of a file.
    OutOfRange = 11,
    /// The server does not have the method.
    Unimplemented = 12,
    /// Something that must not happen did.
    Internal = 13,
    /// The server can not be used just now.
    Unavailable = 14,
    /// Data is lost or broken beyond repair.
    DataLoss = 15,
    /// The caller did not say who it is, or not credibly.
    Unauthenticated = 16,
}

impl Code {
    /// Every code, in numeric order.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// Reads the `grpc-status` header: `0` to `16` without leading zeros. Any other bytes
    /// are [`Code::Unknown`].
    #[must_use]
    pub fn from_grpc_status(value: &[u8]) -> Self {
        match value {
            [digit @ b'0'..=b'9'] => Self::ALL[usize::from(digit - b'0')],
            [b'1', digit @ b'0'..=b'6'] => Self::ALL[usize::from(digit - b'0') + 10],
            _ => Self::Unknown,
        }
    }

    /// The code for an HTTP response that carries no `grpc-status`
    /// (`http-grpc-status-mapping.md`). A 200 without one is [`Code::Unknown`].
    #[must_use]
    pub const fn from_http_status(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502 | 503 | 504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }

    /// The code for a stream that the peer reset with this HTTP/2 error code
    /// (PROTOCOL-HTTP2, "Errors"). A code that HTTP/2 doesn't know is [`Code::Internal`].
    #[must_use]
    pub const fn from_http2_error(code: u32) -> Self {
        match code {
            0x7 => Self::Unavailable,       // REFUSED_STREAM
            0x8 => Self::Cancelled,         // CANCEL
            0xb => Self::ResourceExhausted, // ENHANCE_YOUR_CALM
            0xc => Self::PermissionDenied,  // INADEQUATE_SECURITY
            _ => Self::Internal,
        }
    }

    /// The name in the gRPC documents, such as `RESOURCE_EXHAUSTED`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl core::fmt::Display for Code {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn grpc_status_is_read_by_its_exact_text() {
        for (number, code) in Code::ALL.iter().enumerate() {
            assert_eq!(Code::from_grpc_status(number.to_string().as_bytes()), *code);
            assert_eq!(*code as usize, number);
        }
        for text in [
            "", "00", "01", "014", "17", "20", "26", "99", "-1", "+1", "1 ", "a", "255",
        ] {
            assert_eq!(
                Code::from_grpc_status(text.as_bytes()),
                Code::Unknown,
                "{text:?}"
            );
        }
    }

    #[test]
    fn http_statuses_map_as_the_document_says() {
        for (status, code) in [
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (429, Code::Unavailable),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
            (200, Code::Unknown),
            (418, Code::Unknown),
            (500, Code::Unknown),
            (505, Code::Unknown),
        ] {
            assert_eq!(Code::from_http_status(status), code, "{status}");
        }
    }

    #[test]
    fn http2_errors_map_as_the_document_says() {
        for code in [
            0x0,
            0x1,
            0x2,
            0x3,
            0x4,
            0x5,
            0x6,
            0x9,
            0xa,
            0xd,
            0xe,
            u32::MAX,
        ] {
            assert_eq!(Code::from_http2_error(code), Code::Internal, "{code:#x}");
        }
        assert_eq!(Code::from_http2_error(0x7), Code::Unavailable);
        assert_eq!(Code::from_http2_error(0x8), Code::Cancelled);
        assert_eq!(Code::from_http2_error(0xb), Code::ResourceExhausted);
        assert_eq!(Code::from_http2_error(0xc), Code::PermissionDenied);
    }

    #[test]
    fn names_are_those_of_the_documents() {
        assert_eq!(Code::ResourceExhausted.to_string(), "RESOURCE_EXHAUSTED");
        let mut names = Code::ALL.map(Code::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_code(value in prop::collection::vec(any::<u8>(), 0..6)) {
            let expected = core::str::from_utf8(&value)
                .ok()
                .and_then(|text| text.parse::<usize>().ok().filter(|n| n.to_string() == text))
                .and_then(|number| Code::ALL.get(number).copied())
                .unwrap_or(Code::Unknown);
            prop_assert_eq!(Code::from_grpc_status(&value), expected);
        }
    }
}

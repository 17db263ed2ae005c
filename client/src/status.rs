//! A status out of what a server, or something in between, answered.
//!
//! PROTOCOL-HTTP2's rules, applied here because tonic's client half trusts its transport:
//! it panics on bad base64 in `grpc-status-details-bin` and loses the code over a
//! `grpc-message` that isn't UTF-8. Nothing in here fails on any bytes.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, response};
use percent_encoding::percent_decode;
use steadfast_core::Code;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::attempt::tonic_code;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a response's headers say.
pub(crate) enum Head {
    /// Messages and trailers follow.
    Open,
    /// Trailers-only, and OK.
    Succeeded,
    /// Trailers-only with another status, or not a gRPC response.
    Failed(Status),
}

/// Reads a response's headers, with which it has `ended` or not. A `grpc-status` wins over the
/// HTTP status; without one, what isn't a 200 of `application/grpc` is not decoded.
pub(crate) fn read_head(parts: &mut response::Parts, ended: impl FnOnce() -> bool) -> Head {
    match read_trailers(&parts.headers) {
        Some(Ok(())) if ended() => return Head::Succeeded,
        // An OK before the messages is none: the trailers are to say how it ended. tonic would
        // take it for the end.
        Some(Ok(())) => drop(parts.headers.remove(GRPC_STATUS)),
        Some(Err(status)) => return Head::Failed(status),
        None => {}
    }
    let content_type = find(&parts.headers, &CONTENT_TYPE);
    if parts.status == StatusCode::OK && content_type.is_some_and(is_grpc) {
        return Head::Open;
    }
    let code = tonic_code(Code::from_http_status(parts.status.as_u16()));
    let content_type = match content_type {
        Some(value) => format!("content-type {value:?}"),
        None => "no content-type".to_owned(),
    };
    let message = format!(
        "HTTP status {} with {content_type} and no grpc-status",
        parts.status
    );
    Head::Failed(Status::with_metadata(
        code,
        message,
        MetadataMap::from_headers(parts.headers.clone()),
    ))
}

/// `application/grpc`, alone or followed by a subtype (`+proto`) or a parameter.
fn is_grpc(content_type: &HeaderValue) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    content_type
        .as_bytes()
        .split_at_checked(GRPC.len())
        .is_some_and(|(start, rest)| {
            start.eq_ignore_ascii_case(GRPC) && matches!(rest.first(), None | Some(b'+' | b';'))
        })
}

/// The first value of a header. A look at the few that a response has costs less than the
/// hash of a name.
fn find<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    const FEW: usize = 8;
    if headers.len() > FEW {
        return headers.get(name);
    }
    headers
        .iter()
        .find_map(|(found, value)| (found == name).then_some(value))
}

/// Reads the status in a block of headers; `None` if there is no `grpc-status`.
pub(crate) fn read_trailers(trailers: &HeaderMap) -> Option<Result<(), Status>> {
    let code = Code::from_grpc_status(find(trailers, &GRPC_STATUS)?.as_bytes());
    if code == Code::Ok {
        return Some(Ok(()));
    }
    let message = trailers
        .get(GRPC_MESSAGE)
        .map(read_message)
        .unwrap_or_default();
    let details = trailers
        .get(GRPC_DETAILS)
        .and_then(|value| BASE64.decode(value.as_bytes()).ok());
    let mut metadata = trailers.clone();
    metadata.remove(GRPC_STATUS);
    metadata.remove(GRPC_MESSAGE);
    if details.is_some() {
        metadata.remove(GRPC_DETAILS);
    }
    Some(Err(Status::with_details_and_metadata(
        tonic_code(code),
        message,
        details.map(Bytes::from).unwrap_or_default(),
        MetadataMap::from_headers(metadata),
    )))
}

/// Percent-decoded; an encoding that doesn't come out as UTF-8 is kept as it is.
fn read_message(value: &HeaderValue) -> String {
    match percent_decode(value.as_bytes()).decode_utf8() {
        Ok(message) => message.into_owned(),
        Err(_) => String::from_utf8_lossy(value.as_bytes()).into_owned(),
    }
}

/// Removes from the trailers of an OK what tonic could stumble over; an OK has no use for
/// either.
pub(crate) fn mend_ok_trailers(trailers: &mut HeaderMap) {
    if trailers.len() > 1 {
        trailers.remove(GRPC_MESSAGE);
        trailers.remove(GRPC_DETAILS);
    }
}

/// A stream that ended without a `grpc-status`: cut, never a clean end.
pub(crate) fn missing() -> Status {
    Status::unknown("the response ended without a grpc-status")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let value = HeaderValue::from_bytes(value).expect("a header value");
                (HeaderName::from_static(name), value)
            })
            .collect()
    }

    fn status(pairs: &[(&'static str, &[u8])]) -> Status {
        read_trailers(&headers(pairs))
            .expect("a status")
            .expect_err("not OK")
    }

    fn head(http: u16, pairs: &[(&'static str, &[u8])]) -> Head {
        let mut response = http::Response::new(());
        *response.status_mut() = StatusCode::from_u16(http).expect("a status");
        *response.headers_mut() = headers(pairs);
        read_head(&mut response.into_parts().0, || true)
    }

    #[test]
    fn message_details_and_trailers_are_read() {
        let status = status(&[
            ("grpc-status", b"5"),
            ("grpc-message", b"no%20such%20cart%3A%20%C3%A9"),
            ("grpc-status-details-bin", b"AQID"),
            ("x-shard", b"7"),
        ]);
        assert_eq!(status.code(), tonic::Code::NotFound);
        assert_eq!(status.message(), "no such cart: \u{e9}");
        assert_eq!(status.details(), [1, 2, 3]);
        assert_eq!(status.metadata().len(), 1);
        assert_eq!(status.metadata().get("x-shard").expect("kept"), "7");
    }

    #[test]
    fn padding_is_optional() {
        for encoded in ["AQ==", "AQ"] {
            let status = status(&[
                ("grpc-status", b"5"),
                ("grpc-status-details-bin", encoded.as_bytes()),
            ]);
            assert_eq!(status.details(), [1], "{encoded}");
        }
    }

    #[test]
    fn a_broken_encoding_never_costs_the_code() {
        let status = status(&[
            ("grpc-status", b"9"),
            ("grpc-message", b"100%zz \xff %ff"),
            ("grpc-status-details-bin", b"!!!"),
        ]);
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        assert_eq!(status.message(), "100%zz \u{fffd} %ff");
        assert!(status.details().is_empty());
        assert!(
            status
                .metadata()
                .as_ref()
                .contains_key("grpc-status-details-bin"),
            "what could not be read is kept"
        );
    }

    #[test]
    fn anything_but_zero_to_sixteen_is_unknown() {
        for text in ["17", "014", "", "x", "-1"] {
            let code = status(&[("grpc-status", text.as_bytes())]).code();
            assert_eq!(code, tonic::Code::Unknown, "{text:?}");
        }
        assert!(matches!(
            read_trailers(&headers(&[("grpc-status", b"0")])),
            Some(Ok(()))
        ));
        assert!(read_trailers(&headers(&[])).is_none());
    }

    #[test]
    fn only_a_200_of_grpc_is_open() {
        for content_type in [
            "application/grpc",
            "application/grpc+proto",
            "Application/GRPC; a=b",
        ] {
            let head = head(200, &[("content-type", content_type.as_bytes())]);
            assert!(matches!(head, Head::Open), "{content_type}");
        }
        for content_type in ["text/html", "application/grpc-web", "application/grp", ""] {
            let Head::Failed(status) = head(200, &[("content-type", content_type.as_bytes())])
            else {
                panic!("{content_type:?} was taken for gRPC");
            };
            assert_eq!(status.code(), tonic::Code::Unknown);
            assert!(
                status.message().contains(content_type),
                "{}",
                status.message()
            );
        }
    }

    #[test]
    fn an_http_error_names_its_status_and_content_type() {
        let Head::Failed(status) = head(503, &[("content-type", b"text/html")]) else {
            panic!("a 503 is not open");
        };
        assert_eq!(status.code(), tonic::Code::Unavailable);
        assert_eq!(
            status.message(),
            "HTTP status 503 Service Unavailable with content-type \"text/html\" and no grpc-status"
        );
        let Head::Failed(status) = head(404, &[]) else {
            panic!("a 404 is not open");
        };
        assert_eq!(status.code(), tonic::Code::Unimplemented);
        assert!(
            status.message().contains("no content-type"),
            "{}",
            status.message()
        );
    }

    #[test]
    fn a_grpc_status_wins_over_http() {
        let Head::Failed(status) = head(503, &[("grpc-status", b"5")]) else {
            panic!("failed");
        };
        assert_eq!(status.code(), tonic::Code::NotFound);
        assert!(matches!(
            head(503, &[("grpc-status", b"0")]),
            Head::Succeeded
        ));
    }
}

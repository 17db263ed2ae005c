//! What kinds of calls a server's methods are, read from the descriptors of its services.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prost::Message as _;
use prost_types::{FileDescriptorProto, FileDescriptorSet, ServiceDescriptorProto};

use crate::options::CallKind;

/// Methods that servers have beside their own, by their standard definitions.
const STANDARD: [(&str, CallKind); 5] = [
    ("/grpc.health.v1.Health/Check", CallKind::Unary),
    ("/grpc.health.v1.Health/List", CallKind::Unary),
    ("/grpc.health.v1.Health/Watch", CallKind::Streaming),
    (
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        CallKind::Streaming,
    ),
    (
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        CallKind::Streaming,
    ),
];

/// The kind of each method whose descriptor was given. Default: those of `grpc.health.v1` and
/// of server reflection, which are always known.
///
/// tonic's generated code doesn't say which calls are unary, but what it was generated from
/// does: `file_descriptor_set_path` of `tonic-prost-build`, or `protoc --descriptor_set_out`,
/// writes a `FileDescriptorSet`. With it no request needs a [`CallKind`]; one that has it keeps
/// it.
///
/// A cheap clone.
///
/// ```
/// use steadfast_client::{CallKind, MethodTable};
///
/// // let methods = MethodTable::from_descriptor_set(include_bytes!("carts.bin"))?;
/// let methods = MethodTable::default();
/// let kind = methods.kind("/grpc.health.v1.Health/Check");
/// assert_eq!(kind, Some(CallKind::Unary));
///
/// let error = MethodTable::from_descriptor_set(b"syntax = \"proto3\";").unwrap_err();
/// assert!(error.to_string().starts_with("not a FileDescriptorSet: "));
/// ```
#[derive(Clone)]
pub struct MethodTable {
    /// By the path of the HTTP request.
    kinds: Arc<BTreeMap<String, CallKind>>,
}

impl Default for MethodTable {
    fn default() -> Self {
        let standard = STANDARD.map(|(path, kind)| (path.to_owned(), kind));
        Self {
            kinds: Arc::new(standard.into()),
        }
    }
}

impl MethodTable {
    /// The methods of a serialized `google.protobuf.FileDescriptorSet`, and the standard ones.
    ///
    /// # Errors
    ///
    /// [`InvalidDescriptors`], if the bytes aren't one.
    pub fn from_descriptor_set(bytes: &[u8]) -> Result<Self, InvalidDescriptors> {
        Self::default().with_descriptor_set(bytes)
    }

    /// The same and those of another, which wins where both know a method.
    ///
    /// # Errors
    ///
    /// [`InvalidDescriptors`], if the bytes aren't one.
    pub fn with_descriptor_set(mut self, bytes: &[u8]) -> Result<Self, InvalidDescriptors> {
        let set = FileDescriptorSet::decode(bytes)
            .map_err(|error| InvalidDescriptors(Wrong::Bytes(error)))?;
        if set.file.is_empty() {
            return Err(InvalidDescriptors(Wrong::Empty));
        }
        let kinds = Arc::make_mut(&mut self.kinds);
        for file in &set.file {
            for service in &file.service {
                add(kinds, file, service).map_err(InvalidDescriptors)?;
            }
        }
        Ok(self)
    }

    /// The kind of the method at `path`, such as `/carts.v1.CartService/AddItem`.
    #[must_use]
    pub fn kind(&self, path: &str) -> Option<CallKind> {
        self.kinds.get(path).copied()
    }
}

fn add(
    kinds: &mut BTreeMap<String, CallKind>,
    file: &FileDescriptorProto,
    service: &ServiceDescriptorProto,
) -> Result<(), Wrong> {
    let unnamed = |what| Wrong::Unnamed {
        what,
        file: file.name().to_owned(),
    };
    if service.name().is_empty() {
        return Err(unnamed("service"));
    }
    let dot = if file.package().is_empty() { "" } else { "." };
    for method in &service.method {
        if method.name().is_empty() {
            return Err(unnamed("method"));
        }
        let (package, service, name) = (file.package(), service.name(), method.name());
        let kind = match (method.client_streaming(), method.server_streaming()) {
            (false, false) => CallKind::Unary,
            _ => CallKind::Streaming,
        };
        kinds.insert(format!("/{package}{dot}{service}/{name}"), kind);
    }
    Ok(())
}

impl fmt::Debug for MethodTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.kinds.iter()).finish()
    }
}

/// Bytes that are not a `FileDescriptorSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDescriptors(Wrong);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    Bytes(prost::DecodeError),
    Empty,
    Unnamed { what: &'static str, file: String },
}

impl fmt::Display for InvalidDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a FileDescriptorSet: ")?;
        match &self.0 {
            Wrong::Bytes(error) => error.fmt(f),
            Wrong::Empty => f.write_str("it holds no file"),
            Wrong::Unnamed { what, file } => write!(f, "a {what} of file {file:?} has no name"),
        }
    }
}

impl std::error::Error for InvalidDescriptors {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Wrong::Bytes(error) => Some(error),
            Wrong::Empty | Wrong::Unnamed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use prost_types::MethodDescriptorProto;

    use super::*;

    fn method(name: &str, client: bool, server: bool) -> MethodDescriptorProto {
        MethodDescriptorProto {
            name: Some(name.to_owned()),
            client_streaming: Some(client),
            server_streaming: Some(server),
            ..MethodDescriptorProto::default()
        }
    }

    fn set(package: &str, service: &str, methods: Vec<MethodDescriptorProto>) -> Vec<u8> {
        let service = ServiceDescriptorProto {
            name: Some(service.to_owned()),
            method: methods,
            ..ServiceDescriptorProto::default()
        };
        let file = FileDescriptorProto {
            name: Some("a.proto".to_owned()),
            package: Some(package.to_owned()),
            service: vec![service],
            ..FileDescriptorProto::default()
        };
        FileDescriptorSet { file: vec![file] }.encode_to_vec()
    }

    #[test]
    fn only_a_method_without_a_stream_is_unary() {
        let bytes = set(
            "a.b",
            "S",
            vec![
                method("Unary", false, false),
                method("Client", true, false),
                method("Server", false, true),
                method("Both", true, true),
            ],
        );
        let methods = MethodTable::from_descriptor_set(&bytes).expect("a set");
        let kind = |name| methods.kind(&format!("/a.b.S/{name}"));
        assert_eq!(kind("Unary"), Some(CallKind::Unary));
        for name in ["Client", "Server", "Both"] {
            assert_eq!(kind(name), Some(CallKind::Streaming), "{name}");
        }
        assert_eq!(kind("Other"), None);
        assert_eq!(methods.kind("a.b.S/Unary"), None);
    }

    #[test]
    fn a_package_may_be_missing_and_sets_add_up() {
        let one = set("", "S", vec![method("M", false, false)]);
        let other = set("b", "S", vec![method("M", false, true)]);
        let methods = MethodTable::from_descriptor_set(&one).expect("a set");
        let methods = methods.with_descriptor_set(&other).expect("a set");
        assert_eq!(methods.kind("/S/M"), Some(CallKind::Unary));
        assert_eq!(methods.kind("/b.S/M"), Some(CallKind::Streaming));
        let watch = methods.kind("/grpc.health.v1.Health/Watch");
        assert_eq!(watch, Some(CallKind::Streaming));
    }

    #[test]
    fn other_bytes_are_named_as_such() {
        let text = |bytes: &[u8]| {
            let error = MethodTable::from_descriptor_set(bytes).expect_err("no set");
            error.to_string()
        };
        let empty = "not a FileDescriptorSet: it holds no file";
        assert_eq!(text(b""), empty);
        assert!(text(b"\xff\xff").starts_with("not a FileDescriptorSet: failed to decode"));
        let nameless = set("a", "", vec![]);
        assert_eq!(
            text(&nameless),
            "not a FileDescriptorSet: a service of file \"a.proto\" has no name"
        );
        let nameless = set("a", "S", vec![method("", false, false)]);
        assert_eq!(
            text(&nameless),
            "not a FileDescriptorSet: a method of file \"a.proto\" has no name"
        );
        // A single file, and a set cut short.
        let whole = set("a", "S", vec![method("M", false, false)]);
        let one = FileDescriptorSet::decode(&*whole).expect("a set").file;
        text(&one[0].encode_to_vec());
        for end in 1..whole.len() {
            text(&whole[..end]);
        }
    }
}

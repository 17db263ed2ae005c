//! The server that a case is run on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use steadfast_tokio::{Classifier, MethodTable, Settings, TokioClient, connect};

use crate::DESCRIPTORS;
use crate::proto::test_service_client::TestServiceClient;

/// A gRPC library that has a server here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    CCore,
    GrpcJs,
    Tonic,
}

/// Which of its messages a server can compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compresses {
    EachMessage,
    WholeCalls,
    Nothing,
}

impl Library {
    pub(crate) const ALL: [Self; 3] = [Self::CCore, Self::GrpcJs, Self::Tonic];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|library| library.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CCore => "ccore",
            Self::GrpcJs => "grpc-js",
            Self::Tonic => "tonic",
        }
    }

    pub(crate) fn compresses(self) -> Compresses {
        match self {
            Self::CCore => Compresses::EachMessage,
            Self::GrpcJs => Compresses::Nothing,
            Self::Tonic => Compresses::WholeCalls,
        }
    }

    /// Whether its handlers are told if a message came compressed.
    pub(crate) fn tells_compressed(self) -> bool {
        self == Self::Tonic
    }
}

/// A running server of a library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) library: Library,
    pub(crate) port: u16,
}

impl Peer {
    pub(crate) fn new(library: Library, port: u16) -> Self {
        Self { library, port }
    }

    pub(crate) fn client(self) -> TokioClient {
        connect(settings(self.port)).expect("valid settings")
    }

    pub(crate) fn stub(self) -> TestServiceClient<TokioClient> {
        TestServiceClient::new(self.client())
    }

    /// A client, and how many attempts it made.
    pub(crate) fn counting(self) -> (TokioClient, Arc<AtomicUsize>) {
        let attempts = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&attempts);
        let client = connect(Settings {
            classify: Classifier::new(move |outcome| {
                counts.fetch_add(1, Ordering::Relaxed);
                outcome.default_classification()
            }),
            ..settings(self.port)
        });
        (client.expect("valid settings"), attempts)
    }
}

/// A user's settings, with the time that a loaded machine may need.
pub(crate) fn settings(port: u16) -> Settings {
    Settings {
        addr: format!("127.0.0.1:{port}"),
        timeout: Duration::from_secs(60),
        methods: MethodTable::from_descriptor_set(DESCRIPTORS).expect("protox wrote it"),
        ..Settings::default()
    }
}

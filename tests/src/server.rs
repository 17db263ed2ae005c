//! A real tonic server on loopback, in a runtime of its own, that can be killed.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::server::TcpIncoming;

use crate::script::Script;

/// A server with its own threads and clock. Dropped, it is killed: its sockets close without
/// a word.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Server {
    /// Serves the script on a free port of loopback.
    #[must_use]
    pub fn start(script: &Script) -> Self {
        Self::start_at("127.0.0.1:0".parse().expect("an address"), script)
    }

    /// Serves the script on this address again.
    ///
    /// # Panics
    ///
    /// If the address is taken.
    #[must_use]
    pub fn start_at(address: SocketAddr, script: &Script) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = {
            let _inside = runtime.enter();
            let listener = std::net::TcpListener::bind(address).expect("the address is free");
            listener.set_nonblocking(true).expect("non-blocking");
            TcpListener::from_std(listener).expect("a listener")
        };
        let address = listener.local_addr().expect("bound");
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let serve = tonic::transport::Server::builder()
            .add_service(script.service())
            .serve_with_incoming(incoming);
        runtime.spawn(serve);
        Self {
            address,
            runtime: Some(runtime),
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping it waits until its sockets are closed, which only a thread that runs no
            // tasks may do.
            let _ = std::thread::spawn(move || drop(runtime)).join();
        }
    }
}

/// An address on loopback that nothing listens on.
#[must_use]
pub fn nobody() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

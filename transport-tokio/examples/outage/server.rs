//! A real tonic server on loopback that fails as its phase tells it to.
//!
//! It lives in a runtime of its own. Dropping that takes the listener and every connection
//! with it in one blow, which is what a killed process looks like from outside.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steadfast_tests::carts::cart_service_server::{CartService, CartServiceServer};
use steadfast_tests::carts::{AddItemRequest, AddItemResponse, Item, ListItemsRequest};
use steadfast_tokio::{Random as _, SeededRandom};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::metadata::MetadataValue;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::plan::{Behaviour, Phase};

/// Both runs draw the same failures.
const SEED: u64 = 1;

/// The server, through all of its lives.
pub(crate) struct Server {
    address: SocketAddr,
    carts: Carts,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts healthy, on a free port.
    pub(crate) fn start(phases: &[Phase]) -> io::Result<Self> {
        let carts = Carts(Arc::new(Shared {
            behaviour: Mutex::new(Behaviour::Healthy),
            random: Mutex::new(SeededRandom::new(SEED)),
            phase: AtomicUsize::new(0),
            seen: phases.iter().map(|_| AtomicU64::new(0)).collect(),
        }));
        let (address, runtime) = serve(SocketAddr::from(([127, 0, 0, 1], 0)), &carts)?;
        Ok(Self {
            address,
            carts,
            runtime: Some(runtime),
        })
    }

    /// Where it listens, when it does.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counts.
    pub(crate) fn seen(&self) -> Seen {
        Seen(Arc::clone(&self.carts.0))
    }

    /// Goes through the phases, and stays as the last one left it.
    pub(crate) async fn follow(&mut self, phases: &[Phase], start: Instant) -> io::Result<()> {
        let mut begins = start;
        for (n, phase) in phases.iter().enumerate() {
            sleep_until(begins).await;
            self.enter(n, phase.behaviour).await?;
            begins += phase.lasts;
        }
        sleep_until(begins).await;
        Ok(())
    }

    async fn enter(&mut self, n: usize, behaviour: Behaviour) -> io::Result<()> {
        self.carts.0.phase.store(n, Ordering::Relaxed);
        *lock(&self.carts.0.behaviour) = behaviour;
        if behaviour == Behaviour::Refusing {
            self.kill();
        } else if self.runtime.is_none() {
            self.restart().await?;
        }
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// The old listener closes on a thread of its own, so the address may be taken for a
    /// moment longer.
    async fn restart(&mut self) -> io::Result<()> {
        let mut tries = 0;
        loop {
            match serve(self.address, &self.carts) {
                Ok((_, runtime)) => {
                    self.runtime = Some(runtime);
                    return Ok(());
                }
                Err(error) if tries == 50 => return Err(error),
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
            tries += 1;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(address: SocketAddr, carts: &Carts) -> io::Result<(SocketAddr, Runtime)> {
    let listener = StdListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let incoming = {
        let _inside = runtime.enter();
        TcpIncoming::from(TcpListener::from_std(listener)?).with_nodelay(Some(true))
    };
    let serving = tonic::transport::Server::builder()
        .add_service(CartServiceServer::new(carts.clone()))
        .serve_with_incoming(incoming);
    runtime.spawn(serving);
    Ok((address, runtime))
}

/// The service: one, however often the server dies.
#[derive(Clone)]
struct Carts(Arc<Shared>);

struct Shared {
    behaviour: Mutex<Behaviour>,
    random: Mutex<SeededRandom>,
    phase: AtomicUsize,
    seen: Vec<AtomicU64>,
}

/// The attempts that the server saw.
#[derive(Clone)]
pub(crate) struct Seen(Arc<Shared>);

impl Seen {
    /// By the phase in which they came.
    pub(crate) fn by_phase(&self) -> Vec<u64> {
        let seen = &self.0.seen;
        seen.iter().map(|n| n.load(Ordering::Relaxed)).collect()
    }

    /// In all.
    pub(crate) fn total(&self) -> u64 {
        self.by_phase().iter().sum()
    }
}

impl Carts {
    async fn answer(&self) -> Result<(), Status> {
        let shared = &self.0;
        shared.seen[shared.phase.load(Ordering::Relaxed)].fetch_add(1, Ordering::Relaxed);
        let behaviour = *lock(&shared.behaviour);
        match behaviour {
            // Refusing: an attempt that slipped in before the socket closed.
            Behaviour::Healthy | Behaviour::Refusing => Ok(()),
            Behaviour::Unavailable {
                percent,
                pushback_ms,
            } => {
                if lock(&shared.random).next_u64() % 100 < percent {
                    return Err(unavailable(pushback_ms));
                }
                Ok(())
            }
            Behaviour::Hanging => std::future::pending().await,
        }
    }
}

fn unavailable(pushback_ms: Option<u32>) -> Status {
    let mut status = Status::unavailable("this replica is restarting");
    if let Some(ms) = pushback_ms {
        let metadata = status.metadata_mut();
        metadata.insert("grpc-retry-pushback-ms", MetadataValue::from(ms));
    }
    status
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[tonic::async_trait]
impl CartService for Carts {
    async fn add_item(
        &self,
        request: Request<AddItemRequest>,
    ) -> Result<Response<AddItemResponse>, Status> {
        self.answer().await?;
        let item = request.into_inner().item;
        Ok(Response::new(AddItemResponse { items: 1, item }))
    }

    type ListItemsStream = Streaming<Item>;

    async fn list_items(
        &self,
        _: Request<ListItemsRequest>,
    ) -> Result<Response<Streaming<Item>>, Status> {
        Err(unary_only())
    }

    async fn add_items(
        &self,
        _: Request<Streaming<AddItemRequest>>,
    ) -> Result<Response<AddItemResponse>, Status> {
        Err(unary_only())
    }

    type ChatStream = Streaming<Item>;

    async fn chat(&self, _: Request<Streaming<Item>>) -> Result<Response<Streaming<Item>>, Status> {
        Err(unary_only())
    }
}

fn unary_only() -> Status {
    Status::unimplemented("this server takes unary calls alone")
}

//! The one server that every client calls: a trivial tonic service in a process of its own.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::carts::cart_service_server::{CartService, CartServiceServer};
use crate::carts::{AddItemRequest, AddItemResponse, Item, ListItemsRequest};
use tokio::net::TcpListener;
use tonic::codegen::BoxStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::Failure;

/// Answers each item with itself.
struct Echo;

#[tonic::async_trait]
impl CartService for Echo {
    async fn add_item(
        &self,
        request: Request<AddItemRequest>,
    ) -> Result<Response<AddItemResponse>, Status> {
        let item = request.into_inner().item;
        Ok(Response::new(AddItemResponse { items: 1, item }))
    }

    type ListItemsStream = BoxStream<Item>;

    async fn list_items(
        &self,
        _: Request<ListItemsRequest>,
    ) -> Result<Response<Self::ListItemsStream>, Status> {
        Err(Status::unimplemented("only unary calls are measured"))
    }

    async fn add_items(
        &self,
        _: Request<Streaming<AddItemRequest>>,
    ) -> Result<Response<AddItemResponse>, Status> {
        Err(Status::unimplemented("only unary calls are measured"))
    }

    type ChatStream = BoxStream<Item>;

    async fn chat(
        &self,
        _: Request<Streaming<Item>>,
    ) -> Result<Response<Self::ChatStream>, Status> {
        Err(Status::unimplemented("only unary calls are measured"))
    }
}

/// Serves on a free port of loopback, which it prints, until standard input ends: a server
/// whose parent is gone ends too.
pub(crate) fn serve() -> Result<(), Failure> {
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        io::stdout().flush()?;
        tonic::transport::Server::builder()
            .add_service(CartServiceServer::new(Echo))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
            .await?;
        Ok(())
    })
}

/// The server's process, killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl ServerProcess {
    /// Starts this program once more, as the server.
    pub(crate) fn start() -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse();
        let server = Self {
            child,
            address: address.unwrap_or_else(|_| SocketAddr::from(([0; 4], 0))),
        };
        if server.address.port() == 0 {
            return Err(format!("the server did not start: {line:?}").into());
        }
        Ok(server)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! An HTTP/2 connection by the h2 crate alone, for the clients without a channel.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::TcpStream;

use crate::Failure;

/// Connects, and spawns what drives the connection.
pub(super) async fn connect(address: SocketAddr) -> Result<SendRequest<Bytes>, Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(256 * 1024)
        .initial_connection_window_size(16 * 1024 * 1024)
        .handshake(stream)
        .await?;
    tokio::spawn(connection);
    Ok(sender.ready().await?)
}

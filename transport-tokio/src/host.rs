//! Dialing by tokio's TcpStream.

use std::io;

use steadfast_client::Address;
use steadfast_h2::{DialError, Host};
use tokio::net::{TcpStream, lookup_host};

/// A [`Host`] over tokio's TCP: resolves the name, and tries each of its addresses in turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioHost;

impl Host for TokioHost {
    type Stream = TcpStream;

    fn dial(
        &self,
        address: &Address,
    ) -> impl Future<Output = Result<TcpStream, DialError>> + Send + 'static {
        let (host, port) = (address.host().to_owned(), address.port());
        async move {
            let resolved = lookup_host((host, port))
                .await
                .map_err(DialError::Resolve)?;
            let mut failed = Vec::new();
            for address in resolved {
                match connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => failed.push((address, error)),
                }
            }
            Err(none_worked(failed))
        }
    }
}

async fn connect(address: std::net::SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // A call's last packet must not wait for an acknowledgement of the one before.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One error that tells of every address tried.
fn none_worked(mut failed: Vec<(std::net::SocketAddr, io::Error)>) -> DialError {
    match failed.len() {
        0 => DialError::Resolve(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        )),
        1 => DialError::Connect(failed.remove(0).1),
        _ => {
            let texts: Vec<_> = failed
                .iter()
                .map(|(address, error)| format!("{address}: {error}"))
                .collect();
            DialError::Connect(io::Error::new(failed[0].1.kind(), texts.join("; ")))
        }
    }
}

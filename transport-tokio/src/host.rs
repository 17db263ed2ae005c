//! Dialing by tokio's TcpStream.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use steadfast_client::Address;
use steadfast_h2::{DialError, Host};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long an address has the field to itself before the next is tried beside it (RFC 8305,
/// "Connection Attempt Delay").
const HEAD_START: Duration = Duration::from_millis(250);

/// A [`Host`] over tokio's TCP.
///
/// Resolves the name and tries each of its addresses in turn: the next one when the last was
/// refused, or after 250 ms beside it, so that one address which answers nothing doesn't hide
/// the others. The first connection wins.
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
            first_connected(resolved, connect).await
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // A call's last packet must not wait for an acknowledgement of the one before.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The first of the addresses that connects. Dropped, it ends every attempt.
async fn first_connected<S, F>(
    addresses: impl IntoIterator<Item = SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<S, DialError>
where
    S: Send + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    let mut addresses = addresses.into_iter().peekable();
    let mut attempts = JoinSet::new();
    let mut failed = Vec::new();
    loop {
        if let Some(address) = addresses.next() {
            let attempt = connect(address);
            attempts.spawn(async move { (address, attempt.await) });
        }
        let ended = match addresses.peek() {
            Some(_) => timeout(HEAD_START, attempts.join_next()).await.ok(),
            None => Some(attempts.join_next().await),
        };
        match ended {
            None => {}
            Some(None) => return Err(none_worked(failed)),
            Some(Some(Ok((_, Ok(stream))))) => return Ok(stream),
            Some(Some(Ok((address, Err(error))))) => failed.push((address, error)),
            Some(Some(Err(lost))) => return Err(DialError::Connect(io::Error::other(lost))),
        }
    }
}

/// One error that tells of every address tried.
fn none_worked(mut failed: Vec<(SocketAddr, io::Error)>) -> DialError {
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

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn addresses(count: u16) -> Vec<SocketAddr> {
        (1..=count)
            .map(|port| SocketAddr::from(([10, 0, 0, 1], port)))
            .collect()
    }

    async fn refused() -> io::Result<u16> {
        Err(io::ErrorKind::ConnectionRefused.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_address_gives_way_to_the_next_at_once() {
        let start = Instant::now();
        let connected = first_connected(addresses(3), |address| async move {
            match address.port() {
                3 => Ok(3),
                _ => refused().await,
            }
        });
        assert_eq!(connected.await.expect("the third is up"), 3);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_says_nothing_does_not_hide_the_next() {
        let start = Instant::now();
        let connected = first_connected(addresses(3), |address| async move {
            match address.port() {
                3 => Ok(3),
                _ => std::future::pending().await,
            }
        });
        assert_eq!(connected.await.expect("the third is up"), 3);
        assert_eq!(start.elapsed(), 2 * HEAD_START);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_address_may_still_win() {
        let connected = first_connected(addresses(2), |address| async move {
            match address.port() {
                1 => {
                    tokio::time::sleep(2 * HEAD_START).await;
                    Ok(1)
                }
                _ => refused().await,
            }
        });
        assert_eq!(connected.await.expect("the first, late"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn every_failure_is_told() {
        let failed = first_connected(addresses(2), |_| refused()).await;
        let error = failed.expect_err("nobody is up");
        assert!(matches!(error, DialError::Connect(_)));
        assert_eq!(
            error.to_string(),
            "10.0.0.1:1: connection refused; 10.0.0.1:2: connection refused"
        );
        let error = first_connected(addresses(0), |_| refused())
            .await
            .expect_err("nobody");
        assert!(matches!(error, DialError::Resolve(_)));
    }

    #[tokio::test]
    async fn a_name_with_several_addresses_reaches_the_one_that_listens() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let up = listener.local_addr().expect("bound");
        let mut down = up;
        down.set_ip([127, 0, 0, 2].into());
        let stream = first_connected([down, up], connect)
            .await
            .expect("one is up");
        assert_eq!(stream.peer_addr().expect("connected"), up);
        assert!(stream.nodelay().expect("a socket option"));
    }
}

//! Connecting to a container within a deadline.

use std::net::SocketAddr;
use std::sync::Arc;

use blocking::{ResolveError, Resolver};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::close::{Closer, ProbeStream};
use super::text;

/// Opens the connections of probes.
#[derive(Debug, Default)]
pub(super) struct Dialer {
    names: Resolver,
    closer: Arc<Closer>,
}

impl Dialer {
    /// Connects to the first address of a host that accepts. The error is Go's text for the first address.
    pub(super) async fn dial(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> Result<ProbeStream, String> {
        let left = deadline.saturating_duration_since(Instant::now());
        let addresses = self.names.resolve(host, left).await;
        let addresses = addresses.map_err(|error| lookup_error(host, &error))?;
        let mut first_error = None;
        for (ip, remaining) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let address = SocketAddr::new(*ip, port);
            let left = deadline.saturating_duration_since(Instant::now());
            // The addresses share the time that is left.
            let share = left / u32::try_from(remaining).unwrap_or(u32::MAX);
            let cause = match timeout(share, TcpStream::connect(address)).await {
                // Linux may choose the target port itself as the local port, and connect the socket to itself.
                Ok(Ok(stream)) if stream.local_addr().ok() == Some(address) => {
                    "connect: connection refused".to_owned()
                }
                Ok(Ok(stream)) => return Ok(ProbeStream::new(stream, Arc::clone(&self.closer))),
                Ok(Err(error)) => format!("connect: {}", text::system_error(&error)),
                Err(_) => "i/o timeout".to_owned(),
            };
            first_error.get_or_insert_with(|| format!("dial tcp {address}: {cause}"));
        }
        Err(first_error.unwrap_or_else(|| no_such_host(host)))
    }
}

fn lookup_error(host: &str, error: &ResolveError) -> String {
    match error {
        ResolveError::TooSlow { .. } => format!("dial tcp: lookup {host}: i/o timeout"),
        ResolveError::Busy { .. } => {
            format!("dial tcp: lookup {host}: server misbehaving: too many lookups")
        }
        ResolveError::Failed { .. } => no_such_host(host),
    }
}

fn no_such_host(host: &str) -> String {
    format!("dial tcp: lookup {host}: no such host")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn unknown_host_is_an_error_with_its_name() {
        let names = Resolver::new(|_| Err(io::Error::from(io::ErrorKind::NotFound)));
        let dialer = Dialer { names, ..Dialer::default() };
        let deadline = Instant::now() + Duration::from_mins(1);
        let error = dialer.dial("name.example", 80, deadline).await.unwrap_err();
        assert_eq!(error, "dial tcp: lookup name.example: no such host");
    }

    #[tokio::test]
    async fn addresses_are_tried_in_order_and_the_first_error_is_reported() {
        let listener = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let names =
            Resolver::new(|_| Ok(vec!["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()]));
        let dialer = Dialer { names, ..Dialer::default() };
        let deadline = Instant::now() + Duration::from_mins(1);
        let stream = dialer.dial("name.example", port, deadline).await.unwrap();
        assert!(stream.ends().ends_with(&format!("->127.0.0.2:{port}")), "{}", stream.ends());
        drop(listener);
        let error = dialer.dial("name.example", port, deadline).await.unwrap_err();
        assert_eq!(error, format!("dial tcp 127.0.0.1:{port}: connect: connection refused"));
    }
}

//! Readiness checks of the components of a control plane.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The timeout of a response.
const ANSWER: Duration = Duration::from_secs(5);
/// The largest part of a response that is read.
const MOST: u64 = 64 << 10;

/// Gets `path` over HTTPS, or HTTP without a configuration; a status other than 200 is an error.
pub(crate) fn check_health(
    address: SocketAddr,
    path: &str,
    tls: Option<&Arc<ClientConfig>>,
) -> io::Result<()> {
    let tcp = TcpStream::connect_timeout(&address, ANSWER)?;
    tcp.set_read_timeout(Some(ANSWER))?;
    tcp.set_write_timeout(Some(ANSWER))?;
    match tls {
        None => converse(tcp, path),
        Some(config) => {
            let name = ServerName::IpAddress(address.ip().into());
            let connection =
                ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
            converse(StreamOwned::new(connection, tcp), path)
        }
    }
}

fn converse(mut stream: impl Read + Write, path: &str) -> io::Result<()> {
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    let read = stream.take(MOST).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    match answer.lines().next() {
        Some(status) if status.contains(" 200 ") => Ok(()),
        Some(_) => Err(io::Error::other(answer.trim().to_owned())),
        None => Err(read.err().unwrap_or_else(|| io::Error::other("an empty answer"))),
    }
}

//! Connections to the streaming server of the runtime.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use hyper::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::respond::BrokenOff;

/// The TLS settings for a runtime whose streaming server is an HTTPS server.
#[async_trait]
pub trait StreamTls: Debug + Send + Sync {
    /// The settings; an error if the trusted certificates cannot be read.
    async fn client_config(&self) -> Result<Arc<ClientConfig>, BrokenOff>;
}

/// A connection to a streaming server.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("the runtime returned {0:?}, which is not an HTTP URL")]
    BadUrl(String),
    #[error("connect to the streaming server {server}: {source}")]
    Connect { server: String, source: io::Error },
    #[error("TLS to the streaming server {server}: {source}")]
    Tls { server: String, source: BrokenOff },
}

/// The URL of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamUrl {
    uri: Uri,
    secure: bool,
}

impl StreamUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, DialError> {
        let bad = || DialError::BadUrl(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad()),
        };
        if uri.host().is_none_or(str::is_empty) {
            return Err(bad());
        }
        Ok(Self { uri, secure })
    }

    /// `HOST:PORT` for the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        // Without credentials.
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        authority.rsplit_once('@').map_or(authority, |(_, host)| host)
    }

    /// The path and the query of the URL.
    pub(crate) fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", |path| path.as_str())
    }

    fn host(&self) -> &str {
        let host = self.uri.host().unwrap_or_default();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.secure { 443 } else { 80 })
    }
}

/// Connects to the server of a URL.
pub(crate) async fn dial(
    url: &StreamUrl,
    tls: &dyn StreamTls,
) -> Result<Box<dyn Connection>, DialError> {
    let server = || url.authority().to_owned();
    let connect = |source| DialError::Connect { server: server(), source };
    let stream = TcpStream::connect((url.host(), url.port())).await.map_err(connect)?;
    // Terminal input must be sent without delay.
    stream.set_nodelay(true).map_err(connect)?;
    if !url.secure {
        return Ok(Box::new(stream));
    }
    let failed = |source| DialError::Tls { server: server(), source };
    let config = tls.client_config().await.map_err(failed)?;
    let name = ServerName::try_from(url.host().to_owned());
    let name = name.map_err(|error| failed(error.into()))?;
    let stream = TlsConnector::from(config).connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| failed(error.into()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_server_and_a_path() {
        let rows = [
            ("http://127.0.0.1:4000/exec/abc", ("127.0.0.1", 4000, "127.0.0.1:4000", "/exec/abc")),
            ("http://[::1]:4000/exec/abc?x=1", ("::1", 4000, "[::1]:4000", "/exec/abc?x=1")),
            ("https://node/attach/x", ("node", 443, "node", "/attach/x")),
            ("http://localhost", ("localhost", 80, "localhost", "/")),
            ("http://user@host:1/x", ("host", 1, "host:1", "/x")),
        ];
        for (text, expected) in rows {
            let url = StreamUrl::parse(text).unwrap();
            assert_eq!((url.host(), url.port(), url.authority(), url.path()), expected, "{text}");
        }
    }

    #[test]
    fn other_urls_are_refused() {
        for text in ["", "/exec/abc", "ftp://host/x", "unix:///run/x.sock", "http://", "http:///x"]
        {
            assert!(StreamUrl::parse(text).is_err(), "{text}");
        }
    }
}

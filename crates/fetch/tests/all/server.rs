//! A small server with scripted answers, byte by byte.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use testkit::http::Page;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What a server sends for a page; `None` sends nothing and keeps the connection.
pub(crate) type Response = Option<Vec<u8>>;

#[derive(Debug, Default)]
struct Pages {
    responses: BTreeMap<String, Response>,
    requested: Vec<(String, Vec<(String, String)>)>,
}

#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    scheme: &'static str,
    pages: Arc<Mutex<Pages>>,
    _tasks: JoinSet<()>,
}

/// A certificate for a host, and its authority.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) authority: Vec<u8>,
    pub(crate) config: Arc<ServerConfig>,
}

impl Identity {
    pub(crate) fn new(host: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        Self { authority: issuer.der().to_vec(), config: Arc::new(config) }
    }
}

/// The response for a page.
pub(crate) fn response(page: Page) -> Response {
    match page {
        Page::Silence => None,
        Page::CutOff => Some(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nbye".to_vec()),
        Page::NotSecure => Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        Page::Redirect(to) => {
            Some(format!("HTTP/1.1 302 x\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into())
        }
        Page::Answer(status, body) => {
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", body.len());
            Some([head.into_bytes(), body].concat())
        }
    }
}

impl Server {
    pub(crate) async fn start(identity: Option<Identity>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pages = Arc::new(Mutex::new(Pages::default()));
        let scheme = if identity.is_some() { "https" } else { "http" };
        let tls = identity.map(|identity| TlsAcceptor::from(identity.config));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&pages), tls));
        Self { address, scheme, pages, _tasks: tasks }
    }

    pub(crate) fn url(&self, page: &str) -> String {
        format!("{}://{}/{page}", self.scheme, self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn put(&self, page: &str, response: Response) {
        self.pages.lock().unwrap().responses.insert(format!("/{page}"), response);
    }

    /// The values of a header in all requests for a page.
    pub(crate) fn requested(&self, page: &str, header: &str) -> Vec<Vec<String>> {
        let pages = self.pages.lock().unwrap();
        let requests = pages.requested.iter().filter(|(path, _)| *path == format!("/{page}"));
        let values = |headers: &Vec<(String, String)>| {
            let named = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(header));
            named.map(|(_, value)| value.clone()).collect()
        };
        requests.map(|(_, headers)| values(headers)).collect()
    }
}

async fn accept(listener: TcpListener, pages: Arc<Mutex<Pages>>, tls: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (pages, tls) = (Arc::clone(&pages), tls.clone());
        connections.spawn(async move {
            match tls {
                None => serve(stream, &pages).await,
                // Fails if the client does not trust the certificate.
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, &pages).await;
                    }
                }
            }
        });
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, pages: &Mutex<Pages>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let response = {
        let mut pages = pages.lock().unwrap();
        pages.requested.push((path.clone(), headers));
        pages.responses.get(&path).cloned().unwrap_or_else(|| response(Page::Answer(404, vec![])))
    };
    match response {
        Some(bytes) => {
            // The client may have disconnected.
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
        }
        None => std::future::pending().await,
    }
}

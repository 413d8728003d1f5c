//! HTTPS ports: TLS, access control, and the pages behind it.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use model::cluster::User;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::access::{Access, Credentials, Verdict};
use crate::serve::{answer_one, serve_connections};
use crate::slots::{MOST_CONNECTIONS, Slot};
use crate::tls::{self, Certificates};

/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time limit of a connection.
const LONGEST: Duration = Duration::from_mins(1);

/// The length of the accept queue.
const BACKLOG: u32 = 128;

/// How many unauthenticated callers may be reviewed concurrently. The other slots are free for open paths, such
/// as health by default.
const MOST_REVIEWED: usize = MOST_CONNECTIONS - 16;

/// A response with a whole body.
pub type Page = Response<Full<Bytes>>;

/// The pages of a port.
pub trait Pages: Debug + Send + Sync {
    /// The page for an authorised request.
    fn answer(&self, path: &str, query: Option<&str>) -> Page;
}

/// A port with access control.
#[derive(Debug)]
pub struct HttpsPort {
    access: Access,
    /// A permit for each unauthenticated caller that is being reviewed.
    reviewed: Semaphore,
    pages: Arc<dyn Pages>,
}

impl HttpsPort {
    /// A port that serves these pages to authorised callers.
    pub fn new(access: Access, pages: Arc<dyn Pages>) -> Self {
        Self { access, reviewed: Semaphore::new(MOST_REVIEWED), pages }
    }

    /// Whether a caller may get a path. Authenticated callers no longer count as connections.
    async fn verdict(&self, path: &str, credentials: Credentials, slot: &Slot) -> Verdict {
        let permit = match credentials.certificate {
            Some(_) => None,
            None => match self.reviewed.try_acquire() {
                Ok(permit) => Some(permit),
                Err(_) => return Verdict::Busy,
            },
        };
        let caller = match self.access.authenticate(credentials).await {
            Ok(caller) => caller,
            Err(verdict) => return verdict,
        };
        // An anonymous caller keeps its permit until the API server has decided.
        let _permit = if caller.is_known {
            slot.release();
            None
        } else {
            permit
        };
        self.access.authorize(path, caller).await
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        certificate: Option<User>,
        slot: Slot,
    ) -> Page {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return text_page(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
        }
        let path = request.uri().path();
        if !self.access.is_open(path) {
            let credentials = Credentials { certificate, token: token(&request) };
            if let Some(refusal) = refusal(self.verdict(path, credentials, &slot).await) {
                return refusal;
            }
        }
        self.pages.answer(path, request.uri().query())
    }
}

/// Listens. As in upstream, an unspecified address means all addresses of both IP versions: a pod's only
/// address may be IPv6, and its probes connect to that.
pub async fn listen(address: &str, port: u16) -> io::Result<TcpListener> {
    let all = address.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    match all.then(|| listen_on_all(port)) {
        // A kernel without IPv6 cannot listen on it.
        Some(Err(error)) if error.kind() != io::ErrorKind::AddrInUse => {}
        Some(listener) => return listener,
        None => {}
    }
    TcpListener::bind((address, port)).await
}

fn listen_on_all(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    // Some machines default to IPv6 only.
    rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv6Addr::UNSPECIFIED, port).into())?;
    socket.listen(BACKLOG)
}

/// Serves a port until it is stopped.
pub async fn serve_https(
    port: Arc<HttpsPort>,
    listener: TcpListener,
    certificates: Arc<Certificates>,
    stop: CancellationToken,
) {
    let answered =
        |stream, slot| connection(stream, slot, Arc::clone(&certificates), Arc::clone(&port));
    serve_connections(&listener, answered, stop).await;
}

async fn connection(
    stream: TcpStream,
    slot: Slot,
    certificates: Arc<Certificates>,
    port: Arc<HttpsPort>,
) {
    let acceptor = TlsAcceptor::from(certificates.current().await);
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake timed out"),
    };
    let owner = stream.get_ref().1.peer_certificates().and_then(|chain| tls::owner(chain.first()?));
    if owner.is_some() {
        slot.release();
    }
    let answer = |request| {
        slot.keep();
        let (port, owner, slot) = (Arc::clone(&port), owner.clone(), slot.clone());
        async move { port.answer(request, owner, slot).await }
    };
    if timeout(LONGEST, answer_one(stream, answer)).await.is_err() {
        debug!("Connection reached its time limit, closing it");
    }
}

/// The response to an unauthorised caller.
fn refusal(verdict: Verdict) -> Option<Page> {
    Some(match verdict {
        Verdict::Allowed => return None,
        Verdict::Unauthenticated => {
            let mut page = text_page(StatusCode::UNAUTHORIZED, "Unauthorized\n");
            page.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            page
        }
        Verdict::Forbidden => text_page(StatusCode::FORBIDDEN, "Forbidden\n"),
        Verdict::Busy => {
            let mut page = text_page(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests\n");
            page.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            page
        }
        Verdict::Unknown => {
            text_page(StatusCode::INTERNAL_SERVER_ERROR, "the API server cannot be asked\n")
        }
    })
}

fn token(request: &Request<Incoming>) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// A page of plain text.
pub fn text_page(status: StatusCode, text: impl Into<Bytes>) -> Page {
    page(status, text, HeaderValue::from_static("text/plain; charset=utf-8"))
}

/// A page of any content type.
pub fn page(status: StatusCode, body: impl Into<Bytes>, content_type: HeaderValue) -> Page {
    let mut page = Response::new(Full::new(body.into()));
    *page.status_mut() = status;
    page.headers_mut().insert(CONTENT_TYPE, content_type);
    page
}

#[cfg(test)]
#[path = "https_tests.rs"]
mod tests;

//! Health, metrics and settings over HTTPS.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use model::cluster::User;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::access::{Access, Credentials, Verdict};
use super::health::Health;
use super::tls::{self, Keys};

/// How long a connection may take to become secure.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection lasts at most.
const LONGEST: Duration = Duration::from_mins(1);

/// How many connections may wait to be taken.
const WAITING: u32 = 128;

/// What is told.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) health: Health,
    pub(super) access: Access,
    pub(super) registry: Registry,
    /// The settings, as JSON.
    pub(super) configz: String,
}

/// Listens. An address that stands for all of them stands for those of both versions of IP, as upstream's does: the only
/// one that a pod has may be of version 6, and its probes ask there.
pub(super) async fn listen(address: &str, port: u16) -> io::Result<TcpListener> {
    let all = address.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    match all.then(|| listen_on_all(port)) {
        // A kernel without version 6 has none of it to listen on.
        Some(Err(error)) if error.kind() != io::ErrorKind::AddrInUse => {}
        Some(listener) => return listener,
        None => {}
    }
    TcpListener::bind((address, port)).await
}

fn listen_on_all(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    // Some machines say otherwise unless asked.
    rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv6Addr::UNSPECIFIED, port).into())?;
    socket.listen(WAITING)
}

/// Answers until told to stop.
pub(super) async fn serve(
    page: Arc<Page>,
    listener: TcpListener,
    keys: Arc<Keys>,
    stop: CancellationToken,
) {
    let answered = |stream| connection(stream, Arc::clone(&keys), Arc::clone(&page));
    server::take_turns(&listener, answered, stop).await;
}

async fn connection(stream: TcpStream, keys: Arc<Keys>, page: Arc<Page>) {
    let acceptor = TlsAcceptor::from(keys.current().await);
    let stream = match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "a connection did not become secure"),
        Err(_) => return debug!("a connection took too long to become secure"),
    };
    let owner = stream.get_ref().1.peer_certificates().and_then(|chain| tls::owner(chain.first()?));
    let answer = |request| answer(Arc::clone(&page), request, owner.clone());
    if timeout(LONGEST, server::answer_one(stream, answer)).await.is_err() {
        debug!("a connection lasted too long");
    }
}

async fn answer(
    page: Arc<Page>,
    request: Request<Incoming>,
    certificate: Option<User>,
) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
    }
    let path = request.uri().path();
    if !page.access.is_open(path) {
        let who = Credentials { certificate, token: token(&request) };
        if let Some(refusal) = refusal(page.access.to(path, who).await) {
            return refusal;
        }
    }
    let verbose = request.uri().query().is_some_and(|query| query.contains("verbose"));
    if let Some((well, text)) = page.health.answer(path, verbose) {
        let status = if well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        return plain(status, text);
    }
    match path {
        "/metrics" => metrics(&page.registry),
        "/configz" => {
            told(StatusCode::OK, page.configz.clone(), HeaderValue::from_static("application/json"))
        }
        _ => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// What who may not see something is told.
fn refusal(verdict: Verdict) -> Option<Response<Full<Bytes>>> {
    Some(match verdict {
        Verdict::Allowed => return None,
        Verdict::Unauthenticated => {
            let mut answer = plain(StatusCode::UNAUTHORIZED, "Unauthorized\n");
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            answer
        }
        Verdict::Forbidden => plain(StatusCode::FORBIDDEN, "Forbidden\n"),
        Verdict::Unknown => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "the API server cannot be asked\n")
        }
    })
}

fn token(request: &Request<Incoming>) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

fn metrics(registry: &Registry) -> Response<Full<Bytes>> {
    let mut text = Vec::new();
    let encoder = TextEncoder::new();
    if let Err(error) = encoder.encode(&registry.gather(), &mut text) {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"));
    }
    told(StatusCode::OK, text, encoder.format_type().parse().expect("plain text"))
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    told(status, text, HeaderValue::from_static("text/plain; charset=utf-8"))
}

fn told(status: StatusCode, body: impl Into<Bytes>, kind: HeaderValue) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;

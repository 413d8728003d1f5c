//! Health, metrics and settings over HTTPS.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use model::cluster::User;
use prometheus::{Encoder as _, Registry, TextEncoder};
use server::access::{Access, Credentials, Verdict};
use server::tls::{self, Keys};
use server::{MOST_CONNECTIONS, Slot};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::health::Health;

/// How long a connection may take to become secure.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection lasts at most.
const LONGEST: Duration = Duration::from_mins(1);

/// How many connections may wait to be taken.
const WAITING: u32 = 128;

/// How many callers that are not authenticated may be looked into at a time. The other slots are free for paths that are
/// open to everybody, which health is by default.
const MOST_REVIEWED: usize = MOST_CONNECTIONS - 16;

/// Callers that are not authenticated and being looked into.
#[derive(Debug)]
pub(super) struct Reviewed(Semaphore);

impl Default for Reviewed {
    fn default() -> Self {
        Self(Semaphore::new(MOST_REVIEWED))
    }
}

/// What is told.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) health: Health,
    pub(super) access: Access,
    pub(super) reviewed: Reviewed,
    pub(super) registry: Registry,
    /// The settings, as JSON.
    pub(super) configz: String,
}

impl Page {
    /// Whether a caller may get a path. Authenticated callers no longer count among the connections.
    async fn verdict(&self, path: &str, who: Credentials, slot: &Slot) -> Verdict {
        let turn = match who.certificate {
            Some(_) => None,
            None => match self.reviewed.0.try_acquire() {
                Ok(turn) => Some(turn),
                Err(_) => return Verdict::Busy,
            },
        };
        let caller = match self.access.authenticate(who).await {
            Ok(caller) => caller,
            Err(verdict) => return verdict,
        };
        // One that stays anonymous has its turn until the API server says what it may do.
        let _turn = if caller.is_known {
            slot.release();
            None
        } else {
            turn
        };
        self.access.authorize(path, caller).await
    }
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
    let answered = |stream, slot| connection((stream, slot), Arc::clone(&keys), Arc::clone(&page));
    server::take_turns(&listener, answered, stop).await;
}

async fn connection((stream, slot): (TcpStream, Slot), keys: Arc<Keys>, page: Arc<Page>) {
    let acceptor = TlsAcceptor::from(keys.current().await);
    let stream = match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "a connection did not become secure"),
        Err(_) => return debug!("a connection took too long to become secure"),
    };
    let owner = stream.get_ref().1.peer_certificates().and_then(|chain| tls::owner(chain.first()?));
    if owner.is_some() {
        slot.release();
    }
    let answer = |request| {
        slot.keep();
        answer(Arc::clone(&page), request, owner.clone(), slot.clone())
    };
    if timeout(LONGEST, server::answer_one(stream, answer)).await.is_err() {
        debug!("a connection lasted too long");
    }
}

async fn answer(
    page: Arc<Page>,
    request: Request<Incoming>,
    certificate: Option<User>,
    slot: Slot,
) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
    }
    let path = request.uri().path();
    if !page.access.is_open(path) {
        let who = Credentials { certificate, token: token(&request) };
        if let Some(refusal) = refusal(page.verdict(path, who, &slot).await) {
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
        Verdict::Busy => {
            let mut answer = plain(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests\n");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            answer
        }
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

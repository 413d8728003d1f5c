//! Health and metrics over HTTPS.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use model::cluster::User;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::access::{Access, Credentials, Verdict};
use super::health::Health;
use super::tls::{self, Keys};

/// How many connections are answered at a time; further ones wait to be taken.
const MOST_CONNECTIONS: usize = 64;
/// The longest request, its body aside.
const LONGEST_REQUEST: usize = 8 * 1024;
/// How long a connection may take to become secure, and a request to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection lasts at most.
const LONGEST: Duration = Duration::from_mins(1);
/// How long to wait when the system has no room for another connection.
const RETRY: Duration = Duration::from_millis(100);

/// What is told.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) health: Health,
    pub(super) access: Access,
    pub(super) registry: Registry,
}

/// Answers until told to stop.
pub(super) async fn serve(
    page: Arc<Page>,
    listener: TcpListener,
    mut keys: Keys,
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        // Biased: stopping first; then ended connections, of which there are few; then new ones.
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let acceptor = TlsAcceptor::from(keys.current().await);
                    connections.spawn(connection(stream, acceptor, Arc::clone(&page)));
                }
                Err(error) => {
                    warn!(%error, "cannot take a connection; trying again");
                    sleep(RETRY).await;
                }
            },
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, page: Arc<Page>) {
    let stream = match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "a connection did not become secure"),
        Err(_) => return debug!("a connection took too long to become secure"),
    };
    let owner = stream.get_ref().1.peer_certificates().and_then(|chain| tls::owner(chain.first()?));
    let service = service_fn(|request| {
        let answer = answer(Arc::clone(&page), request, owner.clone());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        // One request for each connection: who holds one idle holds nobody up.
        .keep_alive(false)
        .max_buf_size(LONGEST_REQUEST)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(LONGEST, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection broke off"),
        Err(_) => debug!("a connection lasted too long"),
    }
}

async fn answer(
    page: Arc<Page>,
    request: Request<Incoming>,
    certificate: Option<User>,
) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n".to_owned());
    }
    let path = request.uri().path();
    let verbose = request.uri().query().is_some_and(|query| query.contains("verbose"));
    if let Some((well, text)) = page.health.answer(path, verbose) {
        let status = if well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        return plain(status, text);
    }
    let who = Credentials { certificate, token: token(&request) };
    match page.access.to(path, who).await {
        Verdict::Allowed => {}
        Verdict::Unauthenticated => {
            let mut answer = plain(StatusCode::UNAUTHORIZED, "Unauthorized\n".to_owned());
            answer.headers_mut().insert(WWW_AUTHENTICATE, "Bearer".parse().expect("plain text"));
            return answer;
        }
        Verdict::Forbidden => return plain(StatusCode::FORBIDDEN, "Forbidden\n".to_owned()),
        Verdict::Unknown => {
            let text = "the API server cannot be asked\n".to_owned();
            return plain(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
    }
    if path == "/metrics" {
        metrics(&page.registry)
    } else {
        plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
    }
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
    let mut answer = Response::new(Full::new(text.into()));
    let kind = encoder.format_type().parse().expect("plain text");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let kind = "text/plain; charset=utf-8".parse().expect("plain text");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

//! Connections of the node API, and their limits.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use model::cluster::User;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::NodeApi;
use crate::respond::Answer;
use crate::serve::serve_connections;
use crate::slots::Slot;
use crate::tls::Certificates;

/// The time limit of a TLS handshake, and of the first request after it.
const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(90);
/// The idle limit of an unauthenticated client, which holds a slot.
const IDLE_UNKNOWN: Duration = Duration::from_secs(2);
/// The time limit for closing a connection.
const END: Duration = Duration::from_secs(5);
/// The largest headers.
const LARGEST_HEADERS: usize = 1 << 20;

/// The peer of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    address: Option<IpAddr>,
    /// Its certificate chain; empty without one.
    chain: Vec<CertificateDer<'static>>,
    certificates: Option<Arc<Certificates>>,
    slot: Slot,
}

impl Peer {
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The user of its certificate, verified at each call.
    pub(super) async fn certificate(&self) -> Option<Result<User, String>> {
        let certificates = self.certificates.as_ref().filter(|_| !self.chain.is_empty())?;
        Some(certificates.client(&self.chain).await)
    }

    /// The client was authenticated: its connection no longer counts.
    pub(super) fn authenticated(&self) {
        self.slot.release();
    }
}

/// Serves the API over TLS until it is stopped.
pub async fn serve_node_api(
    api: Arc<NodeApi>,
    listener: TcpListener,
    certificates: Arc<Certificates>,
    stop: CancellationToken,
) {
    let answered = |stream, slot| secure(stream, slot, Arc::clone(&certificates), Arc::clone(&api));
    serve_connections(&listener, answered, stop).await;
}

/// Serves the read-only API without TLS until it is stopped.
pub async fn serve_read_only(api: Arc<NodeApi>, listener: TcpListener, stop: CancellationToken) {
    let answered = |stream: TcpStream, slot| {
        let peer = Peer { address: address(&stream), chain: Vec::new(), certificates: None, slot };
        serve_connection(stream, Arc::clone(&api), peer)
    };
    serve_connections(&listener, answered, stop).await;
}

fn address(stream: &TcpStream) -> Option<IpAddr> {
    stream.peer_addr().ok().map(|address| address.ip().to_canonical())
}

async fn secure(stream: TcpStream, slot: Slot, certificates: Arc<Certificates>, api: Arc<NodeApi>) {
    let address = address(&stream);
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "Cannot disable Nagle's algorithm");
    }
    let acceptor = TlsAcceptor::from(certificates.current().await);
    let stream = match timeout(FIRST_REQUEST, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake timed out"),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
    let peer = Peer { address, chain, certificates: Some(certificates), slot };
    serve_connection(stream, api, peer).await;
}

/// Serves the requests of a connection, concurrently with HTTP/2.
async fn serve_connection<S>(stream: S, api: Arc<NodeApi>, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(LARGEST_HEADERS)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(LARGEST_HEADERS).unwrap_or(u32::MAX));
    let peer = Arc::new(peer);
    let requests = Arc::new(watch::Sender::new(0_usize));
    let service = service_fn(|request: Request<Incoming>| {
        peer.slot.keep();
        let busy = InProgress::begin(&requests);
        let (api, peer) = (Arc::clone(&api), Arc::clone(&peer));
        async move {
            let answer = api.answer(request, &peer).await;
            Ok::<Answer, Infallible>(super::http_metrics::with_guard(answer, busy))
        }
    });
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(served);
    // Biased: a connection that has ended is not idle.
    let ended = tokio::select! {
        biased;
        ended = served.as_mut() => ended,
        () = idle(requests.subscribe(), &peer.slot) => {
            served.as_mut().graceful_shutdown();
            match timeout(END, served).await {
                Ok(ended) => ended,
                Err(_) => return debug!("Closing idle connection"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "Connection ended");
    }
}

/// Waits until a connection has been without requests for too long.
async fn idle(mut requests: watch::Receiver<usize>, slot: &Slot) {
    let mut limit = FIRST_REQUEST;
    loop {
        let is_busy = *requests.borrow_and_update() > 0;
        let change = requests.changed();
        if is_busy {
            drop(change.await);
        } else if timeout(limit, change).await.is_err() {
            return;
        }
        limit = if slot.is_released() { IDLE } else { IDLE_UNKNOWN };
    }
}

/// A request in progress, until its answer was sent.
#[derive(Debug)]
pub(super) struct InProgress(Arc<watch::Sender<usize>>);

impl InProgress {
    fn begin(requests: &Arc<watch::Sender<usize>>) -> Self {
        requests.send_modify(|count| *count += 1);
        Self(Arc::clone(requests))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

//! Connections.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::parts::Parts;
use crate::routes::{answer, answer_health};
use crate::slots::{Slot, Slots};

/// The time limit of a request.
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
/// The longest request without its body: hyper's minimum.
const LONGEST_REQUEST: usize = 8 * 1024;
/// The delay when the address is in use.
const BIND_RETRY: Duration = Duration::from_secs(5);
/// The delay when the system cannot accept another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Answers requests until stopped. Answers in progress are then cut off: streams would never
/// end.
pub async fn serve(parts: Arc<Parts>, listener: UnixListener, stop: CancellationToken) {
    let answered = |stream: UnixStream, slot: Slot| {
        let parts = Arc::clone(&parts);
        let uid = stream.peer_cred().ok().map(|owner| owner.uid());
        answer_one(stream, move |request| {
            slot.keep();
            answer(Arc::clone(&parts), request, uid)
        })
    };
    serve_connections(&listener, answered, stop).await;
}

/// Serves the health port (`/healthz` and `/healthz/ping`, nothing else). If the address is in use, retries.
pub async fn serve_health(address: SocketAddr, stop: CancellationToken) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => warn!(%address, %error, "Cannot serve healthz, retrying"),
        }
        // Biased: the stop comes first.
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(BIND_RETRY) => {}
        }
    };
    serve_health_on(listener, stop).await;
}

/// Like `serve_health`, on an existing listener.
pub async fn serve_health_on(listener: TcpListener, stop: CancellationToken) {
    let answered = |stream, slot: Slot| {
        answer_one(stream, move |request| {
            slot.keep();
            answer_health(request)
        })
    };
    serve_connections(&listener, answered, stop).await;
}

/// Accepts connections.
pub trait Acceptor: Sync {
    /// A connection.
    type Stream: Send + 'static;
    /// Waits for the next one.
    fn accept_one(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Acceptor for UnixListener {
    type Stream = UnixStream;
    async fn accept_one(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Acceptor for TcpListener {
    type Stream = TcpStream;
    async fn accept_one(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// Accepts connections until the stop and answers each in its own task, up to a limit: see [`Slot`].
pub async fn serve_connections<D, F>(
    door: &D,
    answered: impl Fn(D::Stream, Slot) -> F,
    stop: CancellationToken,
) where
    D: Acceptor,
    F: Future<Output = ()> + Send + 'static,
{
    let (mut connections, mut slots) = (JoinSet::new(), Slots::new());
    loop {
        let next = async {
            slots.room().await;
            door.accept_one().await
        };
        // Biased: the stop first; then ended connections, which are few; then new ones.
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => continue,
            accepted = next => accepted,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                warn!(%error, "Cannot accept a connection, retrying");
                sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let slot = stop.run_until_cancelled(slots.take()).await;
        let Some(slot) = slot.flatten() else { return };
        let task = connections.spawn(answered(stream, slot.clone()));
        slots.started(&slot, task);
    }
}

/// Answers the request of a connection. Each connection has one task, so an idle one delays no other.
pub async fn answer_one<S, B, F>(stream: S, answer: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
    F: Future<Output = Response<B>>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE)
        .keep_alive(false)
        .max_buf_size(LONGEST_REQUEST)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        debug!(%error, "Connection failed");
    }
}

//! Connections.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::parts::Parts;
use crate::routes::answer;

/// How many connections are answered at a time; further ones wait to be taken.
const MOST_CONNECTIONS: usize = 64;
/// How long a request may take to come.
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
/// The longest request, its body aside. The least that hyper takes.
const LONGEST_REQUEST: usize = 8 * 1024;
/// How long to wait when the system has no room for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Answers requests until told to stop. Answers that are under way then break off: those that stream
/// would never end.
pub async fn serve(parts: Arc<Parts>, listener: UnixListener, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        // Biased: stopping first; then ended connections, of which there are few; then new ones.
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(Arc::clone(&parts), stream));
                }
                Err(error) => {
                    warn!(%error, "cannot take a connection; trying again");
                    sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
}

async fn connection(parts: Arc<Parts>, stream: UnixStream) {
    let service = service_fn(|request| {
        let parts = Arc::clone(&parts);
        async move { Ok::<_, Infallible>(answer(parts, request).await) }
    });
    // One request for each connection: who holds one idle holds nobody up.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE)
        .keep_alive(false)
        .max_buf_size(LONGEST_REQUEST)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "a connection broke off");
    }
}

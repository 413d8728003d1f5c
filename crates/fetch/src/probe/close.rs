//! Closing the connections of probes (kubernetes#89898).
//!
//! Probes open many short connections, so two things matter:
//!
//! - Data is never discarded. `close(2)` on a socket with unread data sends RST instead of FIN, and so does any data
//!   that arrives later; an RST makes the peer lose what it has not read. `SO_LINGER` with 0 s does the same always.
//!   Upstream sets `SO_LINGER` to 1 s, which makes `close(2)` block, so an async agent cannot use it. Instead a task
//!   shuts down the write side, reads to the end of the peer's stream for at most [`LINGER`], and then closes.
//! - The side that sends the first FIN keeps the port in `TIME_WAIT` for a minute. An HTTP server that has answered a
//!   request with `Connection: close` closes by itself, so its end of the stream is awaited for [`PATIENCE`] before
//!   our FIN is sent. A TCP probe sends nothing and its server waits for data, so waiting would only occupy a
//!   connection of the server: its FIN is sent at once, and costs one `TIME_WAIT`, as upstream's does.
//!
//! The tasks are detached: a verdict never waits for them. Their number is bounded; beyond it a socket is closed at once.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The longest time from the end of a probe to the close of its socket.
const LINGER: Duration = Duration::from_secs(1);

/// How long the peer may take to close first.
const PATIENCE: Duration = Duration::from_millis(250);

/// Sockets that are being closed at a time.
const MOST_CLOSING: usize = 1024;

/// Bytes that are read and dropped; a stream without an end is not read for longer.
const MOST_DRAINED: usize = 1 << 20;

/// Closes sockets in the background.
#[derive(Debug, Default)]
pub(super) struct Closer {
    closing: Mutex<JoinSet<()>>,
}

impl Closer {
    fn close(&self, stream: TcpStream, peer_closes_first: bool) {
        // Without a runtime the process ends.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        while closing.try_join_next().is_some() {}
        if closing.len() < MOST_CLOSING {
            closing.spawn_on(linger(stream, peer_closes_first), &runtime);
        }
    }
}

async fn linger(mut stream: TcpStream, peer_closes_first: bool) {
    let close = async {
        if peer_closes_first && timeout(PATIENCE, drain(&stream)).await.is_ok() {
            return;
        }
        if std::future::poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await.is_ok() {
            drain(&stream).await;
        }
    };
    // A peer that keeps its side open is left to the kernel.
    timeout(LINGER, close).await.ok();
}

/// Reads to the end of the peer's stream.
async fn drain(stream: &TcpStream) {
    let mut buffer = [0; 2048];
    let mut drained = 0;
    while drained < MOST_DRAINED && stream.readable().await.is_ok() {
        match stream.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => drained += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Set when a request was sent that asks the server to close the connection.
#[derive(Debug, Clone, Default)]
pub(super) struct PeerClosesFirst(Arc<AtomicBool>);

impl PeerClosesFirst {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The connection of one probe. When any protocol drops it, its socket is closed without a reset.
#[derive(Debug)]
pub(super) struct ProbeStream {
    /// `None` only during the drop.
    stream: Option<TcpStream>,
    closer: Arc<Closer>,
    peer_closes_first: PeerClosesFirst,
}

impl ProbeStream {
    pub(super) fn new(stream: TcpStream, closer: Arc<Closer>) -> Self {
        Self { stream: Some(stream), closer, peer_closes_first: PeerClosesFirst::default() }
    }

    pub(super) fn peer_closes_first(&self) -> PeerClosesFirst {
        self.peer_closes_first.clone()
    }

    /// `<local>-><peer>`, for errors.
    pub(super) fn ends(&self) -> String {
        let stream = self.stream.as_ref();
        let local = stream.and_then(|stream| stream.local_addr().ok());
        let peer = stream.and_then(|stream| stream.peer_addr().ok());
        local.zip(peer).map_or_else(String::new, |(local, peer)| format!("{local}->{peer}"))
    }

    fn inner(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let stream = self.stream.as_mut().map(Pin::new);
        stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for ProbeStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.closer.close(stream, self.peer_closes_first.0.load(Ordering::Relaxed));
        }
    }
}

impl AsyncRead for ProbeStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner()?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for ProbeStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner()?.poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner()?.poll_flush(cx)
    }

    /// Does nothing: the closer decides when the FIN is sent.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

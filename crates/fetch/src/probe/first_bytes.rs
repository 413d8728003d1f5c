//! The first bytes that a server sends: they show which protocol it speaks when it is not the expected one.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many are kept.
const MOST: usize = 256;

/// The first bytes of a stream so far.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstBytes(Arc<Mutex<Vec<u8>>>);

impl FirstBytes {
    pub(super) fn get(&self) -> Vec<u8> {
        self.bytes().clone()
    }

    /// Forgets them, for another connection.
    pub(super) fn clear(&self) {
        self.bytes().clear();
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, read: &[u8]) {
        let mut bytes = self.bytes();
        let free = MOST.saturating_sub(bytes.len()).min(read.len());
        bytes.extend_from_slice(&read[..free]);
    }
}

/// A stream whose first bytes are kept.
#[derive(Debug)]
pub(super) struct Recorded<S> {
    stream: S,
    first: FirstBytes,
}

impl<S> Recorded<S> {
    pub(super) fn new(stream: S, first: FirstBytes) -> Self {
        Self { stream, first }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Recorded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.first.push(&buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Recorded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

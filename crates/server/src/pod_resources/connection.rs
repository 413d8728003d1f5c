//! One HTTP/2 connection and its services.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use proto::podresources_v1::pod_resources_lister_server as v1;
use proto::podresources_v1alpha1::pod_resources_lister_server as v1alpha1;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tracing::debug;

use super::calls::Calls;
use super::lister::Lister;
use crate::decide::Anonymous;

/// The limit of concurrent calls: the burst of the rate limit is lower.
const MOST_CALLS: u32 = 16;

/// The idle limit, as in upstream's HTTP servers.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// How long to wait for the end of an idle connection.
const GOODBYE: Duration = Duration::from_secs(1);

/// The size of one read: more than a call needs.
const PIECE: usize = 1024;

impl Lister {
    /// Answers the calls of a connection until it ends, or is idle for too long.
    pub async fn answer<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let calls = Calls::default();
        let mut idle = pin!(calls.idle(IDLE_LIMIT));
        let begun = calls.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (lister, running) = (Arc::clone(&self), begun.begin());
            async move {
                let answer = lister.call(request).await;
                drop(running);
                Ok::<_, Infallible>(answer)
            }
        });
        let served = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(MOST_CALLS)
            .serve_connection(TokioIo::new(NeutralAuthority::new(stream)), service);
        let mut served = pin!(served);
        // Biased: a connection that has ended is not idle.
        let ended = tokio::select! {
            biased;
            ended = &mut served => ended,
            () = &mut idle => {
                debug!("Closing idle connection");
                // Clients are asked to reconnect; the connection is dropped if they do not close it.
                served.as_mut().graceful_shutdown();
                timeout(GOODBYE, served).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            debug!(%error, "Connection failed");
        }
    }

    async fn call(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let service = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let answered = match service {
            v1::SERVICE_NAME => v1::PodResourcesListerServer::from_arc(self).call(request).await,
            v1alpha1::SERVICE_NAME => {
                v1alpha1::PodResourcesListerServer::from_arc(self).call(request).await
            }
            _ => return Status::unimplemented(format!("unknown service {service}")).into_http(),
        };
        match answered {
            Ok(answer) => answer,
            Err(impossible) => match impossible {},
        }
    }
}

/// A stream whose requests have a neutral authority.
struct NeutralAuthority<S> {
    stream: S,
    requests: Anonymous,
    /// Readable bytes, and how many of them were read.
    ready: Vec<u8>,
    read: usize,
}

impl<S> NeutralAuthority<S> {
    fn new(stream: S) -> Self {
        Self { stream, requests: Anonymous::new(), ready: Vec::new(), read: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for NeutralAuthority<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let there = &this.ready[this.read..];
            if !there.is_empty() {
                let length = there.len().min(buffer.remaining());
                buffer.put_slice(&there[..length]);
                this.read += length;
                return Poll::Ready(Ok(()));
            }
            this.ready.clear();
            this.read = 0;
            let mut space = [0; PIECE];
            let mut piece = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut piece))?;
            if piece.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.requests.take(piece.filled(), &mut this.ready);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NeutralAuthority<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

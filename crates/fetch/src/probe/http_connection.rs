//! One HTTP request of a probe, on a connection of its own.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::LOCATION;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::chain::Chain;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::close::PeerClosesFirst;
use super::dial::Dialer;
use super::first_bytes::{FirstBytes, Recorded};
use super::http_request::{Get, escaped};
use super::text;
use crate::tls::{Tls, is_http2};

/// Response headers beyond this many are an error.
const MOST_HEADERS: usize = 512;

/// The tasks of a connection, which end with it.
#[derive(Debug, Default)]
pub(super) struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }

    pub(super) fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.0))
    }
}

/// Spawns the tasks of an HTTP/2 connection. The reference is weak, because the tasks hold the set
/// of tasks.
#[derive(Debug, Clone)]
pub(super) struct Spawner(Weak<Mutex<JoinSet<()>>>);

impl<F> hyper::rt::Executor<F> for Spawner
where
    F: Future + Send + 'static,
{
    fn execute(&self, task: F) {
        if let Some(tasks) = self.0.upgrade() {
            Tasks(tasks).spawn(async move {
                task.await;
            });
        }
    }
}

/// A response whose body is not read yet.
#[derive(Debug)]
pub(super) struct Reply {
    response: Response<Incoming>,
    _tasks: Tasks,
}

impl Reply {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The location of a redirect that clients follow.
    pub(super) fn location(&self) -> Option<String> {
        let is_redirect = matches!(
            self.response.status(),
            StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT
        );
        let location = self.response.headers().get(LOCATION).filter(|_| is_redirect)?;
        Some(escaped(location.as_bytes())).filter(|location| !location.is_empty())
    }

    /// At most the first `limit` bytes of the body.
    pub(super) async fn body(&mut self, limit: usize) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        while body.len() < limit
            && let Some(frame) = self.response.body_mut().frame().await
        {
            let frame = frame.map_err(|error| text::body_error(&error))?;
            if let Some(data) = frame.data_ref() {
                body.extend_from_slice(&data[..data.len().min(limit - body.len())]);
            }
        }
        Ok(body)
    }
}

/// Connects and sends a request, and waits for the headers of the response.
pub(super) async fn exchange(
    dialer: &Dialer,
    tls: &Tls,
    request: &Get,
    deadline: Instant,
) -> Result<Reply, String> {
    let target = &request.target;
    let stream = dialer.dial(&target.host, target.port, deadline).await?;
    let (ends, peer_closes_first) = (stream.ends(), stream.peer_closes_first());
    let first = FirstBytes::default();
    let stream = Recorded::new(stream, first.clone());
    if !target.is_secure {
        let connection = Http1 { request: request.http1()?, first, ends, peer_closes_first };
        return connection.send(stream).await;
    }
    let stream = tls.secure(stream, &target.host).await;
    let stream = stream.map_err(|failure| text::tls_error(&failure, &first.get()))?;
    if is_http2(&stream) {
        return send_http2(stream, request.http2()?).await;
    }
    let first = FirstBytes::default();
    let stream = Recorded::new(stream, first.clone());
    let connection = Http1 { request: request.http1()?, first, ends, peer_closes_first };
    connection.send(stream).await
}

#[derive(Debug)]
struct Http1 {
    request: Request<Empty<Bytes>>,
    first: FirstBytes,
    ends: String,
    peer_closes_first: PeerClosesFirst,
}

impl Http1 {
    async fn send(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Reply, String> {
        let mut builder = http1::Builder::new();
        // Servers that distinguish upper and lower case in headers expect Go's form.
        builder.title_case_headers(true).max_headers(MOST_HEADERS);
        builder.allow_obsolete_multiline_headers_in_responses(true);
        let failed = |error: hyper::Error| text::http_error(&error, &self.first.get(), &self.ends);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(failed)?;
        let tasks = Tasks::default();
        tasks.spawn(async move {
            // The request sees its errors.
            connection.await.ok();
        });
        // Before the request is sent: the connection may be over when its response is there.
        self.peer_closes_first.set();
        let response = sender.send_request(self.request).await.map_err(failed)?;
        Ok(Reply { response, _tasks: tasks })
    }
}

async fn send_http2(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Empty<Bytes>>,
) -> Result<Reply, String> {
    let failed = |error: hyper::Error| format!("http2: {}", Chain(&error));
    let tasks = Tasks::default();
    let handshake = http2::handshake(tasks.spawner(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(failed)?;
    tasks.spawn(async move {
        connection.await.ok();
    });
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok(Reply { response, _tasks: tasks })
}

//! Connections of agents, each with one of its own to the runtime.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use http_body_util::combinators::BoxBody;
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::{Proxy, Script};

/// What calls and answers carry.
pub(super) type Body = BoxBody<Bytes, hyper::Error>;

/// The way of one agent to the runtime.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) script: Arc<Script>,
    pub(super) runtime: SendRequest<Body>,
    /// Late calls, which go on when the agent has gone. Never held across an await.
    late: Arc<Mutex<JoinSet<()>>>,
}

impl Way {
    /// Finishes a call whatever the agent does.
    pub(super) fn finish(&self, call: impl Future<Output = ()> + Send + 'static) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are done.
        while late.try_join_next().is_some() {}
        late.spawn(call);
    }
}

/// Takes connections for ever. Dropped, it takes no more, and those that are open break off.
pub async fn serve(proxy: Proxy, listener: UnixListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Connections that are over wait while there are new ones; nothing depends on them.
            biased;
            accepted = listener.accept() => {
                let (agent, _) = accepted.context("take a connection of an agent")?;
                connections.spawn(relay(proxy.clone(), agent));
            }
            Some(ended) = connections.join_next() => {
                if let Ok(Err(error)) = ended {
                    eprintln!("cri-proxy: {error:#}");
                }
            }
        }
    }
}

/// Serves one agent for as long as it and the runtime are there.
async fn relay(proxy: Proxy, agent: UnixStream) -> Result<()> {
    let path = proxy.runtime.display();
    // As without a proxy: where no runtime is, nobody is connected.
    let stream = UnixStream::connect(&*proxy.runtime).await;
    let stream = TokioIo::new(stream.with_context(|| format!("connect to {path}"))?);
    let (runtime, connection) = handshake(TokioExecutor::new(), stream)
        .await
        .with_context(|| format!("speak HTTP/2 with {path}"))?;
    let mut connection = pin!(connection);
    let late = Arc::default();
    let way = Way { script: Arc::clone(&proxy.script), runtime, late: Arc::clone(&late) };
    {
        let service = service_fn(move |request: Request<Incoming>| {
            let way = way.clone();
            async move { way.answer(request).await }
        });
        let server = http2::Builder::new(TokioExecutor::new());
        let serving = server.serve_connection(TokioIo::new(agent), service);
        tokio::select! {
            // A runtime that is gone takes the agent's connection with it.
            biased;
            ended = &mut connection => return ended.with_context(|| format!("speak with {path}")),
            // An agent may break off at any time.
            _ = serving => {}
        }
    }
    // Ends when the last late call is done.
    connection.await.with_context(|| format!("speak with {path}"))
}

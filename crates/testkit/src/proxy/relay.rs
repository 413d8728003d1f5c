//! Connections of agents, each with its own connection to the runtime.

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

/// The body of requests and responses.
pub(super) type Body = BoxBody<Bytes, hyper::Error>;

/// The connection of one agent to the runtime.
#[derive(Debug, Clone)]
pub(super) struct AgentConnection {
    pub(super) script: Arc<Script>,
    pub(super) runtime: SendRequest<Body>,
    /// Late calls, which continue when the agent has disconnected. Never held across an await.
    late: Arc<Mutex<JoinSet<()>>>,
}

impl AgentConnection {
    /// Spawns a call that continues without the agent.
    pub(super) fn finish(&self, call: impl Future<Output = ()> + Send + 'static) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        // Reap finished calls.
        while late.try_join_next().is_some() {}
        late.spawn(call);
    }
}

/// Accepts connections. Never ends. When it is dropped, it accepts no more, and open ones break.
pub async fn serve(proxy: Proxy, listener: UnixListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Finished connections are reaped when there are no new ones; nothing depends on them.
            biased;
            accepted = listener.accept() => {
                let (agent, _) = accepted.context("accept a connection of an agent")?;
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

/// Serves one agent while both connections are open.
async fn relay(proxy: Proxy, agent: UnixStream) -> Result<()> {
    let path = proxy.runtime.display();
    // As without a proxy: an agent cannot connect without a runtime.
    let stream = UnixStream::connect(&*proxy.runtime).await;
    let stream = TokioIo::new(stream.with_context(|| format!("connect to {path}"))?);
    let (runtime, connection) = handshake(TokioExecutor::new(), stream)
        .await
        .with_context(|| format!("speak HTTP/2 with {path}"))?;
    let mut connection = pin!(connection);
    let late = Arc::default();
    let way =
        AgentConnection { script: Arc::clone(&proxy.script), runtime, late: Arc::clone(&late) };
    {
        let service = service_fn(move |request: Request<Incoming>| {
            let way = way.clone();
            async move { way.answer(request).await }
        });
        let server = http2::Builder::new(TokioExecutor::new());
        let serving = server.serve_connection(TokioIo::new(agent), service);
        tokio::select! {
            // When the runtime disconnects, the agent's connection is closed too.
            biased;
            ended = &mut connection => return ended.with_context(|| format!("speak with {path}")),
            // An agent may disconnect at any time.
            _ = serving => {}
        }
    }
    // Ends after the last late call.
    connection.await.with_context(|| format!("speak with {path}"))
}

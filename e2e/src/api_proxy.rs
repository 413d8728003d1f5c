//! A proxy between a program and the API server. It records requests, and a test can act just before a request is
//! forwarded.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::api::client;

/// A recorded request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub method: Method,
    /// With its query.
    pub path: String,
    /// The request body; `null` if there is none.
    pub body: Value,
    /// The status of the response; `None` until it arrives.
    pub status: Option<StatusCode>,
}

/// An action that runs once, before the first request of its kind is forwarded.
struct OnceBefore {
    method: Method,
    path_end: String,
    then: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
struct Traffic {
    requested: Vec<RecordedRequest>,
    before: Vec<OnceBefore>,
}

/// A proxy that speaks plain HTTP to the program and calls the API server with one user's credentials.
pub struct ApiProxy {
    address: SocketAddr,
    traffic: Arc<Mutex<Traffic>>,
    /// Dropped with the proxy: this closes all connections.
    _runtime: Runtime,
}

impl std::fmt::Debug for ApiProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiProxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ApiProxy {
    /// Listens on an address of this machine and calls the API server with the credentials of a kubeconfig.
    pub fn start(on: Ipv4Addr, kubeconfig: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start a runtime for the proxy")?;
        let client = runtime.block_on(client(kubeconfig, None))?;
        let listener = runtime.block_on(TcpListener::bind((on, 0))).context("listen")?;
        let address = listener.local_addr()?;
        let traffic = Arc::new(Mutex::new(Traffic::default()));
        runtime.spawn(serve(listener, client, Arc::clone(&traffic)));
        Ok(Self { address, traffic, _runtime: runtime })
    }

    /// Writes a kubeconfig with the proxy as its server.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<()> {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "proxy", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "proxy", "user": {} }],
            "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "proxy" } }],
            "current-context": "proxy",
        });
        std::fs::write(path, config.to_string()).context("write a kubeconfig")
    }

    /// Runs an action once, before the next request is forwarded whose path, without its query, has this end.
    pub fn before(&self, method: Method, path_end: &str, then: impl FnOnce() + Send + 'static) {
        let path_end = path_end.to_owned();
        lock(&self.traffic).before.push(OnceBefore { method, path_end, then: Box::new(then) });
    }

    /// All requests so far.
    pub fn requested(&self) -> Vec<RecordedRequest> {
        lock(&self.traffic).requested.clone()
    }
}

fn lock(traffic: &Mutex<Traffic>) -> std::sync::MutexGuard<'_, Traffic> {
    // A poisoned lock is usable: its value is never half changed.
    traffic.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, client: Client, traffic: Arc<Mutex<Traffic>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (client, traffic) = (client.clone(), Arc::clone(&traffic));
        tokio::spawn(async move {
            let answer = service_fn(|request| pass(request, &client, &traffic));
            let connection = hyper::server::conn::http1::Builder::new();
            // The program closing its connection is not a failure of the proxy.
            connection.serve_connection(TokioIo::new(stream), answer).await.ok();
        });
    }
}

type Answer = Response<Either<Body, Full<Bytes>>>;

async fn pass(
    request: Request<Incoming>,
    client: &Client,
    traffic: &Mutex<Traffic>,
) -> Result<Answer, Infallible> {
    let answer = forward(request, client, traffic).await;
    Ok(answer.unwrap_or_else(|error| {
        let mut answer = Response::new(Either::Right(Full::from(format!("{error:#}"))));
        *answer.status_mut() = StatusCode::BAD_GATEWAY;
        answer
    }))
}

async fn forward(
    request: Request<Incoming>,
    client: &Client,
    traffic: &Mutex<Traffic>,
) -> Result<Answer> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let number = {
        let mut traffic = lock(traffic);
        traffic.requested.push(RecordedRequest {
            method: parts.method.clone(),
            path: path.clone(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            status: None,
        });
        traffic.requested.len() - 1
    };
    let then = take_before(traffic, &parts.method, parts.uri.path());
    if let Some(then) = then {
        tokio::task::spawn_blocking(then).await.context("an earlier step failed")?;
    }
    // Headers about this connection or the proxy's address are not forwarded.
    for name in ["host", "connection", "content-length", "transfer-encoding"] {
        parts.headers.remove(name);
    }
    parts.uri = path.parse().context("the path")?;
    parts.version = hyper::Version::HTTP_11;
    let answer = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await?;
    lock(traffic).requested[number].status = Some(answer.status());
    Ok(answer.map(Either::Left))
}

fn take_before(
    traffic: &Mutex<Traffic>,
    method: &Method,
    path: &str,
) -> Option<Box<dyn FnOnce() + Send>> {
    let mut traffic = lock(traffic);
    let fits = |before: &OnceBefore| before.method == *method && path.ends_with(&before.path_end);
    let index = traffic.before.iter().position(fits)?;
    Some(traffic.before.remove(index).then)
}

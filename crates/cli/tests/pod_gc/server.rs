//! A minimal API server: one terminating pod without a node, and a lease.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How the server behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Whether its health check passes.
    pub(crate) is_well: bool,
    /// Whether another holder takes the lease right after its creation.
    pub(crate) lease_is_robbed: bool,
    /// Whether requests for events get no response.
    pub(crate) events_hang: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { is_well: true, lease_is_robbed: false, events_hang: false }
    }
}

/// The requests so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceivedRequests {
    /// Names of pods that were marked as failed, and of those that were deleted.
    marked: BTreeSet<String>,
    pub(crate) deleted: BTreeSet<String>,
    /// The holder of the lease.
    pub(crate) holder: Option<String>,
    lease: Option<Value>,
    version: u64,
}

#[derive(Debug)]
pub(crate) struct Server {
    seen: Arc<watch::Sender<ReceivedRequests>>,
    address: String,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(rules: Rules) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(watch::Sender::new(ReceivedRequests::default()));
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&seen);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&shared);
                connections.spawn(async move {
                    let service =
                        service_fn(move |request| answer(rules, Arc::clone(&seen), request));
                    let served =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    drop(served.await);
                });
            }
        });
        Self { seen, address, _tasks: tasks }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn seen(&self) -> ReceivedRequests {
        self.seen.borrow().clone()
    }

    /// Waits until the requests meet a condition.
    pub(crate) async fn until(&self, wanted: impl FnMut(&ReceivedRequests) -> bool) {
        let mut seen = self.seen.subscribe();
        let found = timeout(Duration::from_mins(1), seen.wait_for(wanted)).await;
        drop(found.unwrap().unwrap());
    }
}

async fn answer(
    rules: Rules,
    seen: Arc<watch::Sender<ReceivedRequests>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    if parts.uri.query().is_some_and(|query| query.contains("watch=true")) {
        if !parts.uri.query().is_some_and(|query| query.contains("sendInitialEvents")) {
            // The watch has no events.
            return std::future::pending().await;
        }
        return Ok(Response::new(Full::new(stream(&path).into())));
    }
    if rules.events_hang && path.ends_with("/events") {
        return std::future::pending().await;
    }
    let mut reported = (StatusCode::OK, json!({}));
    seen.send_modify(|seen| reported = one(rules, seen, &parts.method, &path, &body));
    let (status, text) = (reported.0, reported.1.to_string());
    Ok(Response::builder().status(status).body(Full::new(text.into())).unwrap())
}

/// A streaming list: the pod, or no node.
fn stream(path: &str) -> String {
    let end = json!({ "type": "BOOKMARK", "object": { "metadata": {
        "resourceVersion": "9",
        "annotations": { "k8s.io/initial-events-end": "true" },
    }}});
    if path.ends_with("/nodes") {
        return format!("{end}\n");
    }
    let pod = json!({ "type": "ADDED", "object": {
        "metadata": {
            "name": "a", "namespace": "default", "uid": "u1", "resourceVersion": "5",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30,
        },
        "spec": {},
        "status": { "phase": "Pending" },
    }});
    format!("{pod}\n{end}\n")
}

fn one(
    rules: Rules,
    seen: &mut ReceivedRequests,
    method: &Method,
    path: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let name = path.trim_end_matches("/status").rsplit('/').next().unwrap_or_default().to_owned();
    if path == "/healthz" {
        let status = if rules.is_well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        return (status, json!("ok"));
    }
    if path.contains("/leases") {
        return lease(rules, seen, method, body);
    }
    let list = json!({ "metadata": { "resourceVersion": "9" }, "items": [] });
    match *method {
        // The current resource version.
        Method::GET if ["pods", "nodes"].contains(&&*name) => return (StatusCode::OK, list),
        Method::PATCH => drop(seen.marked.insert(name)),
        // Not before it was marked as failed.
        Method::DELETE if seen.marked.contains(&name) => drop(seen.deleted.insert(name)),
        Method::POST => {}
        _ => {
            return (StatusCode::NOT_FOUND, json!({ "kind": "Status", "message": "not found" }));
        }
    }
    (StatusCode::OK, json!({ "metadata": { "name": "a", "resourceVersion": "6" } }))
}

fn lease(
    rules: Rules,
    seen: &mut ReceivedRequests,
    method: &Method,
    body: &Value,
) -> (StatusCode, Value) {
    let is_write = *method != Method::GET;
    if is_write && *method == Method::PUT && rules.lease_is_robbed {
        if let Some(lease) = &mut seen.lease {
            lease["spec"]["holderIdentity"] = json!("another holder");
        }
        return (StatusCode::CONFLICT, json!({ "message": "conflict" }));
    }
    if is_write {
        seen.version += 1;
        let mut lease = body.clone();
        lease["metadata"]["resourceVersion"] = json!(seen.version.to_string());
        lease["metadata"]["uid"] = json!("u-lease");
        seen.holder = lease["spec"]["holderIdentity"].as_str().map(str::to_owned);
        seen.lease = Some(lease);
    }
    match &seen.lease {
        Some(lease) => (StatusCode::OK, lease.clone()),
        None => (StatusCode::NOT_FOUND, json!({ "kind": "Status", "message": "no such lease" })),
    }
}

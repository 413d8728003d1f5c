//! Routes requests to responses.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use model::ids::PodName;
use model::program::{Check, Verbosity};
use tokio::time::timeout;

use crate::garbage;
use crate::logs::{LogOf, logs};
use crate::parts::Parts;
use crate::pods;
use crate::query::Query;
use crate::respond::{Answer, METRICS, TEXT, json, problem, text};
use crate::streaming::{StreamCaller, StreamPath};
use crate::wire::EventItems;

/// The longest body that a request may have: a number.
const LONGEST_BODY: usize = 64;
/// The time limit of a request body.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// Answers a request of the user with this uid.
pub(crate) async fn answer(
    parts: Arc<Parts>,
    request: Request<Incoming>,
    uid: Option<u32>,
) -> Answer {
    let query = Query::parse(request.uri().query());
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let wanted = match segments[..] {
        ["debug", "flags", "v"] => Method::PUT,
        ["gc", "run"] => Method::POST,
        ["pods" | "events" | "why" | "healthz" | "metrics" | "version"]
        | ["gc", "plan" | "why"]
        | ["evict", "plan"]
        | ["exec", _, _, _]
        | ["portForward", _, _] => Method::GET,
        // With too few names, the response says which is missing.
        ["logs", ref names @ ..] if names.len() <= 3 => Method::GET,
        _ => return problem(StatusCode::NOT_FOUND, format!("there is no {path}")),
    };
    if request.method() != wanted {
        return problem(StatusCode::METHOD_NOT_ALLOWED, format!("{path} only supports {wanted}"));
    }
    match segments[..] {
        ["pods"] if query.is_on("watch") => pods::watch(parts),
        ["pods"] => pods::list(&parts),
        ["events"] => events(&parts, query.get("pod")),
        ["why"] => garbage::history(&parts, &query).await,
        ["logs", ref names @ ..] => {
            let name = |index: usize| names.get(index).copied().unwrap_or_default();
            let of = LogOf { namespace: name(0), pod: name(1), container: name(2) };
            logs(&parts, of, &query).await
        }
        ["exec", namespace, pod, container] => {
            let path = stream_path(namespace, pod, container);
            stream(&parts, &path, request, uid).await
        }
        ["portForward", namespace, pod] => {
            stream(&parts, &stream_path(namespace, pod, ""), request, uid).await
        }
        ["evict", "plan"] => json(StatusCode::OK, &parts.eviction.plan().await),
        ["gc", "plan"] => garbage::plan(&parts).await,
        ["gc", "run"] => garbage::run(&parts).await,
        ["gc", "why"] => garbage::why(&parts, &query).await,
        ["healthz"] => health(parts.health.checks(), query.get("verbose").is_some()),
        ["metrics"] => text(StatusCode::OK, METRICS, parts.metrics.text()),
        ["version"] => json(StatusCode::OK, &parts.version),
        _ => set_verbosity(&*parts.verbosity, request.into_body()).await,
    }
}

fn stream_path(namespace: &str, pod: &str, container: &str) -> StreamPath {
    StreamPath { pod: PodName::new(namespace, pod), uid: None, container: container.to_owned() }
}

/// Opens a stream: into a container if the path has one, else to ports of the pod.
async fn stream(
    parts: &Parts,
    path: &StreamPath,
    request: Request<Incoming>,
    uid: Option<u32>,
) -> Answer {
    let Some(streams) = &parts.streams else {
        return problem(StatusCode::NOT_IMPLEMENTED, "the runtime has no streams");
    };
    let user = uid.map_or("unknown local user".to_owned(), |uid| format!("local user {uid}"));
    let caller = StreamCaller { user, address: None };
    if path.container.is_empty() {
        streams.port_forward(path, request, &caller).await
    } else {
        streams.exec(path, request, &caller).await
    }
}

fn events(parts: &Parts, pod: Option<&str>) -> Answer {
    let name = match pod.map(|pod| pod.split_once('/')) {
        None => None,
        Some(Some((namespace, name))) => Some(PodName::new(namespace, name)),
        Some(None) => {
            return problem(StatusCode::BAD_REQUEST, "pod is written as NAMESPACE/NAME");
        }
    };
    json(StatusCode::OK, &EventItems { items: parts.events.items(name.as_ref()) })
}

/// Answers a request on the health port. Like upstream's, the port only has the check `ping`: a hanging
/// container runtime or a late relist is not a reason to restart the agent.
pub(crate) async fn answer_health(request: Request<Incoming>) -> Answer {
    let path = request.uri().path();
    if !["/healthz", "/healthz/", "/healthz/ping"].contains(&path) {
        return problem(StatusCode::NOT_FOUND, format!("there is no {path}"));
    }
    if request.method() != Method::GET {
        return problem(StatusCode::METHOD_NOT_ALLOWED, format!("{path} only supports GET"));
    }
    let verbose = Query::parse(request.uri().query()).get("verbose").is_some();
    health(vec![Check { name: "ping", result: Ok(()) }], verbose)
}

fn health(checks: Vec<Check>, verbose: bool) -> Answer {
    let well = checks.iter().all(|check| check.result.is_ok());
    if well && !verbose {
        return text(StatusCode::OK, TEXT, "ok".to_owned());
    }
    let mut lines = String::new();
    for check in checks {
        match check.result {
            Ok(()) => writeln!(lines, "[+]{} ok", check.name),
            Err(why) => writeln!(lines, "[-]{} failed: {why}", check.name),
        }
        .expect("a string takes every text");
    }
    let (status, verdict) = if well {
        (StatusCode::OK, "passed")
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "failed")
    };
    text(status, TEXT, format!("{lines}healthz check {verdict}\n"))
}

async fn set_verbosity(verbosity: &dyn Verbosity, body: Incoming) -> Answer {
    let Ok(Ok(body)) = timeout(BODY_PATIENCE, Limited::new(body, LONGEST_BODY).collect()).await
    else {
        return problem(StatusCode::BAD_REQUEST, "the body must be a number");
    };
    let body = body.to_bytes();
    let level = std::str::from_utf8(&body).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let Some(level) = level else {
        return problem(StatusCode::BAD_REQUEST, "the body must be a number");
    };
    match verbosity.set(level) {
        Ok(()) => text(StatusCode::OK, TEXT, format!("verbosity is {level} now\n")),
        Err(why) => problem(StatusCode::INTERNAL_SERVER_ERROR, why),
    }
}

//! The plain endpoints: metrics, configuration, flags, version and verbosity.

use std::fmt::Write as _;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use jiff::Timestamp;
use model::program::Verbosity;
use serde_json::{Map, Value, json as value};
use tokio::time::timeout;

use super::NodeApiParts;
use crate::respond::{Answer, JSON, TEXT, answer, text, whole};

const NO_SNIFFING: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));

/// The content type of metrics: names have no characters that would have to be escaped.
const METRICS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");

/// The start of the agent in Unix time, with metrics.
const START_TIME: HeaderName = HeaderName::from_static("process-start-time-unix");

/// The content type of responses without a declared character set, like upstream's.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain");

/// The largest body of a request: a number.
const LARGEST_BODY: usize = 64;
/// The time limit of a request body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The beginning of text pages, after the name of the page.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting \
                       compatibility guarantees and is for debugging purposes only.";

/// Forbids content type guessing.
pub(super) fn no_sniffing(answer: &mut Answer) {
    let (name, value) = NO_SNIFFING;
    answer.headers_mut().insert(name, value);
}

/// A page of metrics, with the start time of the agent.
pub(super) fn metrics(content: String, started: Timestamp) -> Answer {
    let mut answer = text(StatusCode::OK, METRICS, content);
    answer.headers_mut().insert(START_TIME, HeaderValue::from(started.as_second()));
    answer
}

/// A page of JSON.
pub(super) fn json(content: String) -> Answer {
    let mut answer = answer(StatusCode::OK, JSON, whole(content));
    no_sniffing(&mut answer);
    answer
}

/// Whether a client requests JSON.
fn wants_json(headers: &HeaderMap, kind: &str) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = accepted.flat_map(|value| value.split(','));
    ranges.any(|range| {
        let parts: Vec<&str> = range.split(';').map(str::trim).collect();
        let has = |part: &str| parts.contains(&part);
        has("application/json")
            && has("g=config.k8s.io")
            && has("v=v1beta1")
            && has(&format!("as={kind}"))
    })
}

fn document(kind: &str, fields: Map<String, Value>) -> Answer {
    let mut document = Map::new();
    document.insert("kind".to_owned(), kind.into());
    document.insert("apiVersion".to_owned(), "config.k8s.io/v1beta1".into());
    document.insert("metadata".to_owned(), value!({ "name": "kubelet" }));
    document.extend(fields);
    json(format!("{}\n", Value::Object(document)))
}

/// The paths that `/statusz` lists.
const PATHS: [&str; 16] = [
    "/attach",
    "/checkpoint",
    "/configz",
    "/containerLogs",
    "/debug/flags/v",
    "/debug/pprof",
    "/exec",
    "/flagz",
    "/healthz",
    "/logs",
    "/metrics",
    "/pods",
    "/portForward",
    "/run",
    "/runningpods",
    "/stats",
];

/// Version, start time and paths.
pub(super) fn statusz(parts: &NodeApiParts, headers: &HeaderMap) -> Answer {
    let up = parts.clock.now().duration_since(parts.started).as_secs().max(0);
    let version = parts.version.kubernetes.trim_start_matches('v');
    let short: Vec<&str> = version.split('.').take(2).collect();
    let short = short.join(".");
    if wants_json(headers, "Statusz") {
        let fields = value!({
            "startTime": parts.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "uptimeSeconds": up,
            "goVersion": "",
            "binaryVersion": version,
            "emulationVersion": short,
            "paths": PATHS,
        });
        let Value::Object(fields) = fields else { unreachable!("it is an object") };
        return document("Statusz", fields);
    }
    let content = format!(
        "\nkubelet statusz\n{WARNING}\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\n\
         Binary version: {version} (ferrolet {})\nEmulation version: {short}\nPaths: {}\n",
        date(parts.started),
        up / 3600,
        up / 60 % 60,
        up % 60,
        parts.version.ferrolet,
        PATHS.join(" "),
    );
    text(StatusCode::OK, TEXT, content)
}

/// A time in the format of `date`.
fn date(time: Timestamp) -> String {
    time.strftime("%a %b %e %H:%M:%S UTC %Y").to_string()
}

/// The flags of the command line.
pub(super) fn flagz(flags: &[(String, String)], headers: &HeaderMap) -> Answer {
    if wants_json(headers, "Flagz") {
        let flags: Map<String, Value> =
            flags.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        return document("Flagz", Map::from_iter([("flags".to_owned(), flags.into())]));
    }
    let mut content = format!("\nkubelet flagz\n{WARNING}\n");
    for (name, value) in flags {
        writeln!(content, "{name}={value}").expect("a string takes every text");
    }
    text(StatusCode::OK, TEXT, content)
}

/// Sets the log verbosity.
pub(super) async fn set_verbosity(verbosity: &dyn Verbosity, request: Request<Incoming>) -> Answer {
    let plain = |status, content: String| {
        let mut answer = text(status, PLAIN, format!("{content}\n"));
        no_sniffing(&mut answer);
        answer
    };
    if request.method() != Method::PUT {
        return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method".to_owned());
    }
    let body = Limited::new(request.into_body(), LARGEST_BODY).collect();
    let Ok(Ok(body)) = timeout(BODY_TIME, body).await else {
        return plain(StatusCode::BAD_REQUEST, "error reading request body".to_owned());
    };
    let body = body.to_bytes();
    let written = String::from_utf8_lossy(&body);
    let failed = |why: String| {
        let content = format!("failed set klog.logging.verbosity {written}: {why}");
        plain(StatusCode::BAD_REQUEST, content)
    };
    match written.trim().parse() {
        Err(_) => failed(format!("strconv.ParseInt: parsing {written:?}: invalid syntax")),
        Ok(level) => verbosity.set(level).map_or_else(failed, |()| {
            let content = format!("successfully set klog.logging.verbosity to {written}");
            plain(StatusCode::OK, content)
        }),
    }
}

//! A call to the API server, and the meaning of its response.

use std::sync::OnceLock;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Collected, Limited};
use kube::client::Body;
use model::ports::cluster::ApiError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use crate::Rate;
use crate::bucket::Bucket;
use crate::connect::Connection;
use crate::connections::CallKind;
use crate::counted::Counted;
use crate::reachability::Reachability;

/// The timeout of a response.
const ANSWER: Duration = Duration::from_secs(30);
/// The largest response: one object or one page of a list.
const LONGEST_ANSWER: usize = 256 << 20;
/// How much of a refusal is read.
const LONGEST_REFUSAL: usize = 64 << 10;
/// The longest accepted `Retry-After`.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// The longest reported message of a refusal, in bytes.
const LONGEST_MESSAGE: usize = 512;

/// The rate of reviews. Any client that reaches a port can cause reviews, with tokens that were not reviewed
/// before.
const REVIEWS: Rate = Rate { per_second: 10.0, burst: 20 };

/// The rate limit of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The ordinary rate.
    Ordinary,
    /// No limit: the call cannot wait, or has a separate rate limit.
    Own,
    /// The rate of events.
    Events,
    /// The rate of reviews.
    Reviews,
    /// The ordinary rate, for a call that stays open.
    Watch,
}

impl Lane {
    fn way(self) -> CallKind {
        match self {
            Self::Ordinary | Self::Events => CallKind::Shared,
            Self::Own | Self::Reviews => CallKind::Urgent,
            Self::Watch => CallKind::Watch,
        }
    }
}

/// Calls the API server.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) connection: Connection,
    pub(crate) bucket: Bucket,
    /// The rate limit of events.
    pub(crate) events: Bucket,
    /// The rate limit of reviews.
    reviews: Bucket,
    pub(crate) counted: OnceLock<Counted>,
    /// Whether the server answers calls.
    pub(crate) reach: Reachability,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
    pub(crate) lane: Lane,
    /// The kind and name of the requested object, if its absence has consequences: only a 404 that names the
    /// object counts as its absence.
    about: Option<(&'static str, String)>,
}

const JSON: &str = "application/json";
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

impl Call {
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            content_type: JSON,
            body: Vec::new(),
            lane: Lane::Ordinary,
            about: None,
        }
    }

    /// Only a 404 that names this object counts as its absence.
    pub(crate) fn about(self, kind: &'static str, name: &str) -> Self {
        Self { about: Some((kind, name.to_owned())), ..self }
    }

    pub(crate) fn json(method: Method, path: String, body: &serde_json::Value) -> Self {
        let body = body.to_string().into_bytes();
        Self { method, path, content_type: JSON, body, lane: Lane::Ordinary, about: None }
    }

    /// Writes a whole object.
    pub(crate) fn object(
        method: Method,
        path: String,
        object: &impl Serialize,
    ) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(object);
        let body = body.map_err(|error| ApiError::Unreadable(Box::new(error)))?;
        let (content_type, lane) = (JSON, Lane::Ordinary);
        Ok(Self { method, path, content_type, body, lane, about: None })
    }

    /// Changes parts of an object with a strategic merge patch.
    pub(crate) fn patch(path: String, changes: String) -> Self {
        let (method, body) = (Method::PATCH, changes.into_bytes());
        let (content_type, lane) = (STRATEGIC_MERGE, Lane::Ordinary);
        Self { method, path, content_type, body, lane, about: None }
    }

    pub(crate) fn in_lane(self, lane: Lane) -> Self {
        Self { lane, ..self }
    }

    pub(crate) fn in_own_lane(self) -> Self {
        self.in_lane(Lane::Own)
    }

    pub(crate) fn watch(path: String) -> Self {
        Self { lane: Lane::Watch, ..Self::get(path) }
    }
}

/// Decodes a response, or a part of one.
pub(crate) fn decoded<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| ApiError::Unreadable(Box::new(error)))
}

/// The response, or `None` if the object is not found.
pub(crate) fn found<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Err(ApiError::NotFound) => Ok(None),
        answer => answer.map(Some),
    }
}

/// The parts of `metav1.Status` that are reported.
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

/// The object of a refusal.
#[derive(Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

impl Refusal {
    /// Whether the API server itself responded about the requested object. A proxy in front of it
    /// may respond with 404 too.
    fn is_about(&self, requested: Option<&(&'static str, String)>) -> bool {
        let details = self.details.as_ref();
        let named = |(kind, name): &(&str, String)| {
            details.is_some_and(|details| details.kind == *kind && details.name == *name)
        };
        self.kind == "Status" && requested.is_none_or(named)
    }
}

impl Caller {
    pub(crate) fn new(connection: Connection, bucket: Bucket, events: Bucket) -> Self {
        let (reviews, counted) = (Bucket::new(REVIEWS), OnceLock::new());
        Self { connection, bucket, events, reviews, counted, reach: Reachability::default() }
    }

    /// Sends a call. Returns a successful response, whose body is not yet read.
    pub(crate) async fn send(&self, call: Call) -> Result<Response<Body>, ApiError> {
        match call.lane {
            Lane::Ordinary | Lane::Watch => self.bucket.take().await,
            Lane::Events => self.events.take().await,
            Lane::Reviews => self.reviews.take().await,
            Lane::Own => {}
        }
        let (method, way, about) = (call.method.clone(), call.lane.way(), call.about);
        let request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(header::CONTENT_TYPE, call.content_type)
            .header(header::ACCEPT, JSON)
            .body(call.body)
            .map_err(|error| ApiError::Unreachable(Box::new(error)))?;
        let begun = Instant::now();
        let answer = timeout(ANSWER, self.connection.send(request, way)).await;
        if let Some(counted) = self.counted.get() {
            let status = answer.as_ref().ok().and_then(|answer| answer.as_ref().ok());
            counted.call(&method, status.map(Response::status), begun.elapsed());
        }
        self.reach.note(matches!(answer, Ok(Ok(_))));
        let answer = answer.map_err(|_| ApiError::TooSlow(ANSWER))?;
        let answer = answer.map_err(|error| ApiError::Unreachable(Box::new(error)))?;
        if answer.status().is_success() { Ok(answer) } else { Err(refused(answer, about).await) }
    }

    /// Sends a call and decodes the response.
    pub(crate) async fn send_decoded<T: DeserializeOwned>(
        &self,
        call: Call,
    ) -> Result<T, ApiError> {
        decoded(&self.read(call).await?)
    }

    /// Sends a call and reads the whole response.
    pub(crate) async fn read(&self, call: Call) -> Result<Vec<u8>, ApiError> {
        let answer = self.send(call).await?;
        let body =
            timeout(ANSWER, Limited::new(answer.into_body(), LONGEST_ANSWER).collect()).await;
        let body = body.map_err(|_| ApiError::TooSlow(ANSWER))?;
        Ok(body.map_err(ApiError::Unreachable)?.to_bytes().into())
    }
}

/// The error of an unsuccessful response.
async fn refused(answer: Response<Body>, about: Option<(&'static str, String)>) -> ApiError {
    let status = answer.status();
    let retry_after = answer.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| retry_after_of(value.to_str().ok()?));
    let body = Limited::new(answer.into_body(), LONGEST_REFUSAL).collect();
    let body = timeout(ANSWER, body).await.ok().and_then(Result::ok);
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
    let is_proof = refusal.is_about(about.as_ref());
    meaning(status, is_proof, retry_after, refusal.message)
}

/// The delay in a `Retry-After` header.
fn retry_after_of(text: &str) -> Option<Duration> {
    let seconds = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY))
}

fn meaning(
    status: StatusCode,
    is_proof: bool,
    retry_after: Option<Duration>,
    mut message: String,
) -> ApiError {
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
    }
    match status {
        StatusCode::NOT_FOUND if is_proof => ApiError::NotFound,
        StatusCode::CONFLICT => ApiError::Conflict(message),
        // For some objects, this means that the uid differs: a uid cannot be changed.
        StatusCode::UNPROCESSABLE_ENTITY if message.contains("metadata.uid") => {
            ApiError::Conflict(message)
        }
        StatusCode::TOO_MANY_REQUESTS => ApiError::Throttled { retry_after },
        // The server is overloaded or shutting down.
        status if status.is_server_error() && retry_after.is_some() => {
            ApiError::Throttled { retry_after }
        }
        status => ApiError::Refused { code: status.as_u16(), message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: NODE-36, STW-34
    #[test]
    fn retry_after_is_capped_below_the_node_grace_period() {
        let rows = [
            ("0", Some(0)),
            (" 7 ", Some(7)),
            ("30", Some(30)),
            ("31", Some(30)),
            ("86400", Some(30)),
            ("-1", None),
            ("Tue, 17 Nov 2026 06:00:00 GMT", None),
        ];
        for (text, seconds) in rows {
            assert_eq!(retry_after_of(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn responses_are_classified_by_status_code() {
        let second = Some(Duration::from_secs(1));
        let rows = [
            (404, None, "not-found"),
            (409, None, "conflict"),
            (429, None, "throttled"),
            (429, second, "throttled"),
            (503, second, "throttled"),
            (500, None, "refused"),
            (403, None, "refused"),
            (422, second, "refused"),
        ];
        for (code, retry_after, label) in rows {
            let status = StatusCode::from_u16(code).unwrap();
            let meant = meaning(status, true, retry_after, String::new());
            assert_eq!(meant.label(), label, "{code}");
        }
        let unproven = meaning(StatusCode::NOT_FOUND, false, None, String::new());
        assert_eq!(unproven.label(), "refused");
        let another = "metadata.uid: Invalid value: \"x\": field is immutable".to_owned();
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        assert_eq!(meaning(status, true, None, another).label(), "conflict");
    }
}

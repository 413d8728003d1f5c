//! The wire format of lists and events.

use std::borrow::Cow;

use model::ports::cluster::ApiError;
use serde::Deserialize;

use crate::decode::Identity;

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de>"))]
pub(super) struct List<'a, O> {
    #[serde(borrow, default)]
    pub(super) metadata: ListMetadata<'a>,
    #[serde(default = "Vec::new")]
    pub(super) items: Vec<O>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMetadata<'a> {
    #[serde(borrow)]
    pub(super) resource_version: Cow<'a, str>,
    #[serde(borrow, rename = "continue")]
    pub(super) next: Cow<'a, str>,
}

/// A line of a watch response.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de>"))]
pub(super) struct Event<'a, O> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    pub(super) object: O,
}

/// An object reduced to its identity.
#[derive(Debug, Deserialize)]
pub(super) struct Bare<'a> {
    #[serde(borrow)]
    pub(super) metadata: Identity<'a>,
}

/// An error event.
#[derive(Debug, Deserialize)]
struct Failure {
    object: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
}

/// The outcome of an event.
#[derive(Debug)]
pub(super) enum EventOutcome {
    /// A change.
    Change,
    /// The end of a streaming list.
    InitialEnd,
    /// The server no longer has the version to watch from.
    Forgotten,
    /// It is older than the events before.
    Older,
}

/// The meaning of an error event; `None` for other events.
pub(super) fn failure(line: &[u8]) -> Option<Result<EventOutcome, ApiError>> {
    let Failure { object: Status { code, message } } = serde_json::from_slice(line).ok()?;
    match code {
        0 => None,
        // Expired or gone.
        410 => Some(Ok(EventOutcome::Forgotten)),
        429 => Some(Err(ApiError::Throttled { retry_after: None })),
        code => Some(Err(ApiError::Refused { code, message })),
    }
}

//! The log of a container.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use hyper::StatusCode;
use model::chain::Chain;
use model::ids::{ContainerId, PodUid};
use model::ports::logs::{Ended, LogStream, LogText};
use podspec::view;
use tracing::warn;

use crate::decide::{Instance, NoInstance, has_container, is_running, log_instance};
use crate::parts::{LogParts, Parts, PodView};
use crate::pod_lookup::{find_pod, status_of};
use crate::query::{BadQuery, LogQuery, Query, log_query};
use crate::respond::{Answer, problem, text_stream};

/// The container of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogOf<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) container: &'a str,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The path lacks a name.
    #[error("{0}")]
    Missing(&'static str),
    #[error("Unable to decode query.")]
    Undecodable,
    #[error("Invalid request.")]
    Invalid,
    #[error("pod {0:?} does not exist")]
    NoPod(String),
    #[error("container {container:?} not found in pod {pod:?}")]
    NoContainer { container: String, pod: String },
    #[error(
        "unable to return the given log stream: \"{0:?}\". \
         Please enable PodLogsQuerySplitStreams feature gate in kubelet"
    )]
    NoSplitStreams(LogStream),
    #[error(transparent)]
    NoInstance(#[from] NoInstance),
}

impl LogError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Missing(_)
            | Self::Undecodable
            | Self::NoSplitStreams(_)
            | Self::NoInstance(_) => StatusCode::BAD_REQUEST,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NoPod(_) | Self::NoContainer { .. } => StatusCode::NOT_FOUND,
        }
    }
}

/// The instance whose log was found, and the options of the request.
#[derive(Debug)]
pub(crate) struct FoundLog {
    uid: PodUid,
    instance: Instance,
    query: LogQuery,
}

/// Answers a request on the agent's socket.
pub(crate) async fn logs(parts: &Parts, of: LogOf<'_>, query: &Query) -> Answer {
    let parts = parts.log_parts();
    let found = match find(&parts, of, query, true) {
        Ok(found) => found,
        Err(error) => return problem(error.status(), error.to_string()),
    };
    match found.open(&parts).await {
        Ok(text) => text_stream(text.map_err(Into::into)),
        Err(message) => problem(StatusCode::BAD_REQUEST, message),
    }
}

/// Finds the requested log. `split_streams`: whether a single stream can be requested.
pub(crate) fn find(
    parts: &LogParts,
    of: LogOf<'_>,
    query: &Query,
    split_streams: bool,
) -> Result<FoundLog, LogError> {
    let named = [
        (of.namespace, "Missing podNamespace."),
        (of.pod, "Missing podID."),
        (of.container, "Missing container name."),
    ];
    if let Some((_, missing)) = named.iter().find(|(name, _)| name.is_empty()) {
        return Err(LogError::Missing(missing));
    }
    let query = log_query(query, parts.clock.now()).map_err(|bad| match bad {
        BadQuery::Undecodable => LogError::Undecodable,
        BadQuery::Invalid => LogError::Invalid,
    })?;
    let Some(found) = find_pod(&*parts.pods, of.namespace, of.pod) else {
        return Err(LogError::NoPod(of.pod.to_owned()));
    };
    if !has_container(&found.pod, of.container) {
        let (container, pod) = (of.container.to_owned(), of.pod.to_owned());
        return Err(LogError::NoContainer { container, pod });
    }
    if query.request.stream != LogStream::All && !split_streams {
        return Err(LogError::NoSplitStreams(query.request.stream));
    }
    let instance = log_instance(of.pod, &status_of(&found), of.container, query.previous)?;
    Ok(FoundLog { uid: view::uid(&found.pod), instance, query })
}

impl FoundLog {
    /// Opens the log; the error is a text for the client.
    pub(crate) async fn open(self, parts: &LogParts) -> Result<LogText, String> {
        let Self { uid, instance, query } = self;
        let unable = || format!("unable to retrieve container logs for {}", instance.written_id);
        let path = parts.log_paths.log_path(&uid, &instance.id).ok_or_else(unable)?;
        let follow = query.follow.then(|| -> Ended {
            Box::pin(ended(Arc::clone(&parts.pods), uid.clone(), instance.id.clone()))
        });
        parts.logs.open(&path, &query.request, follow).await.map_err(|error| {
            warn!(%uid, container = %instance.id, error = %Chain(&error), "Cannot read a container log");
            unable()
        })
    }
}

/// Waits until an instance no longer runs, or has no status.
async fn ended(pods: Arc<dyn PodView>, uid: PodUid, id: ContainerId) {
    let mut changes = pods.changes();
    loop {
        changes.borrow_and_update();
        let all = pods.pods();
        let pod = all.iter().find(|found| view::uid(&found.pod) == uid);
        if !pod.is_some_and(|found| is_running(&status_of(found), &id)) {
            return;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

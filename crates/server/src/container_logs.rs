//! `/containerLogs` of the node API, with upstream's responses.
//!
//! Errors are plain text. Once the container is found, the answer is 200, and a later error is text at its end.

use futures_util::{Stream, StreamExt as _};
use hyper::StatusCode;
use model::ports::files::FileError;
use model::ports::logs::LogText;

use crate::logs::{LogError, LogOf, find};
use crate::parts::LogParts;
use crate::query::Query;
use crate::respond::{Answer, BrokenOff, error_text, text_stream};

/// The container in the path of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerLogPath {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
}

/// Answers a request for the log of a container. `split_streams` is the feature gate `PodLogsQuerySplitStreams`.
pub async fn container_logs(
    parts: &LogParts,
    path: &ContainerLogPath,
    query: Option<&str>,
    split_streams: bool,
) -> Answer {
    let ContainerLogPath { namespace, pod, container } = path;
    let of = LogOf { namespace, pod, container };
    let found = match find(parts, of, &Query::parse(query), split_streams) {
        Ok(found) => found,
        Err(error) => return error_text(error.status(), error_body(&error)),
    };
    match found.open(parts).await {
        Ok(text) => text_stream(with_error_at_end(text)),
        Err(message) => error_text(StatusCode::OK, message),
    }
}

/// The text of an error. Some are JSON in plain text, as upstream's.
fn error_body(error: &LogError) -> String {
    match error {
        LogError::Missing(_) | LogError::Undecodable | LogError::Invalid => {
            format!("{{\"message\": \"{error}\"}}")
        }
        _ => error.to_string(),
    }
}

/// The text of a log; an error becomes its last piece.
fn with_error_at_end(text: LogText) -> impl Stream<Item = Result<Vec<u8>, BrokenOff>> + Send {
    text.map(|piece| Ok(piece.unwrap_or_else(|error| read_error(&error).into_bytes())))
}

fn read_error(error: &FileError) -> String {
    format!("failed to read log file \"{}\": {}", error.path.display(), error.source)
}

#[cfg(test)]
#[path = "container_logs_tests.rs"]
mod tests;

//! Logs of containers in memory, without termination messages.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream;
use model::observed::ContainerStatus;
use model::ports::files::FileError;
use model::ports::logs::{ContainerLogs, Ended, LogRequest, LogText};
use model::ports::termination_message::TerminationMessageReader;

/// The texts of logs by path. Only the tail length of a request is honoured, and a followed log never grows.
#[derive(Debug, Default)]
pub struct MemoryLogs {
    texts: Mutex<BTreeMap<PathBuf, String>>,
}

impl MemoryLogs {
    /// Sets the text of a log at a path.
    pub fn put(&self, path: impl Into<PathBuf>, text: impl Into<String>) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.insert(path.into(), text.into());
    }
}

#[async_trait]
impl ContainerLogs for MemoryLogs {
    async fn open(
        &self,
        path: &Path,
        request: &LogRequest,
        _: Option<Ended>,
    ) -> Result<LogText, FileError> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = texts.get(path).ok_or_else(|| FileError {
            operation: "open",
            path: path.to_owned(),
            source: ErrorKind::NotFound.into(),
        })?;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let wanted = request.tail_lines.and_then(|lines| usize::try_from(lines).ok());
        let from = lines.len().saturating_sub(wanted.unwrap_or(usize::MAX));
        let pieces: Vec<_> =
            lines[from..].iter().map(|line| Ok(line.as_bytes().to_vec())).collect();
        Ok(stream::iter(pieces).boxed())
    }
}

/// Containers without termination messages.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silence;

#[async_trait]
impl TerminationMessageReader for Silence {
    async fn add(&self, _: &mut ContainerStatus) {}
}

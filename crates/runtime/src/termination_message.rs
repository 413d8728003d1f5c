//! Termination messages of containers: the files they are written to, and reading them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Container;
use model::chain::Chain;
use model::ids::PodUid;
use model::observed::ContainerStatus;
use model::ports::files::{FileError, HostFiles};
use model::ports::logs::{ContainerLogs, LogRequest};
use model::ports::termination_message::TerminationMessageReader;
use model::wanted::Mount;
use tracing::warn;

use crate::container_files::ContainerFiles;
use crate::decide::{
    MOST_LINES, MOST_OF_FILE, MOST_OF_LOG, go_path, message_source, with_termination_message,
};

/// The mode of pod directories: only for the agent.
const DIRECTORY_MODE: u32 = 0o750;
/// The mode of message files: every user of the container may write.
const FILE_MODE: u32 = 0o666;

impl ContainerFiles {
    /// A directory for the termination messages of a container that has any, below those of all pods.
    pub(crate) async fn message_directory(
        &self,
        uid: &PodUid,
        container: &Container,
    ) -> Option<PathBuf> {
        container.termination_message_path.as_deref().filter(|path| !path.is_empty())?;
        match self.make_message_directory(uid, &container.name).await {
            Ok(directory) => Some(directory),
            Err(error) => {
                report_missing_file(container, &error);
                None
            }
        }
    }

    /// A file for the termination message of an instance, mounted where the container expects it.
    /// On failure the container runs without one.
    pub(crate) async fn message_mount(
        &self,
        directory: &Path,
        container: &Container,
    ) -> Option<Mount> {
        let path = go_path::cleaned(container.termination_message_path.as_deref()?);
        match self.message_file(directory).await {
            Ok(file) => Some(Mount {
                host_path: file.to_string_lossy().into_owned(),
                container_path: path,
                relabel: self.node.machine.selinux,
                ..Mount::default()
            }),
            Err(error) => {
                report_missing_file(container, &error);
                None
            }
        }
    }

    async fn make_message_directory(&self, uid: &PodUid, name: &str) -> Result<PathBuf, FileError> {
        let pods = &self.pods_dir;
        let directory = Path::new(uid.as_str()).join("containers").join(name);
        let mut names = directory.components();
        if names.clone().count() != 3 || !names.all(|name| matches!(name, Component::Normal(_))) {
            let (operation, path) = ("create file", pods.join(&directory));
            return Err(FileError {
                operation,
                path,
                source: std::io::ErrorKind::InvalidInput.into(),
            });
        }
        self.files.create_directory(pods, &directory, DIRECTORY_MODE).await?;
        Ok(directory)
    }

    async fn message_file(&self, directory: &Path) -> Result<PathBuf, FileError> {
        let Self { pods_dir: pods, files, clock, .. } = self;
        // Eight hexadecimal digits that no earlier instance has, and that are the same in every run
        // of a test.
        let mut hasher = DefaultHasher::new();
        (directory, clock.now().as_nanosecond()).hash(&mut hasher);
        let mut number = u32::try_from(hasher.finish() >> 32).unwrap_or(0);
        loop {
            let file = directory.join(format!("{number:08x}"));
            match files.create_file(pods, &file, FILE_MODE).await {
                Ok(()) => return Ok(pods.join(file)),
                Err(error) if error.source.kind() == std::io::ErrorKind::AlreadyExists => {
                    number = number.wrapping_add(1);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn report_missing_file(container: &Container, error: &FileError) {
    let container = &container.name;
    warn!(container, error = %Chain(error), "Cannot create termination message file");
}

/// Reads the termination messages of containers that have ended.
#[derive(Debug)]
pub struct TerminationMessages {
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// The logs of containers.
    pub logs: Arc<dyn ContainerLogs>,
    /// The root of the pods' directories: nothing else is read.
    pub pods: PathBuf,
}

#[async_trait]
impl TerminationMessageReader for TerminationMessages {
    async fn add(&self, status: &mut ContainerStatus) {
        let Some(source) = message_source(status) else { return };
        let written = match source.file.as_deref() {
            Some(file) => self.written(file).await,
            None => None,
        };
        let words = match written.filter(|words| !words.is_empty()) {
            Some(words) => words,
            None if source.or_log => self.end_of_log(Path::new(&*status.log_path)).await,
            None => return,
        };
        status.message = with_termination_message(&status.message, &words).into();
    }
}

impl TerminationMessages {
    /// The content of a container's file; `None` if there is none, or the agent did not create it.
    async fn written(&self, file: &str) -> Option<String> {
        let below = Path::new(file).strip_prefix(&self.pods).ok()?;
        match self.files.read_end(&self.pods, below, MOST_OF_FILE).await {
            Ok(words) => Some(String::from_utf8_lossy(&words).into_owned()),
            Err(error) if error.is_not_found() => None,
            Err(error) => {
                Some(format!("Error on reading termination log {file}: {}", Chain(&error)))
            }
        }
    }

    async fn end_of_log(&self, path: &Path) -> String {
        let request = LogRequest { tail_lines: Some(MOST_LINES), ..LogRequest::default() };
        match self.read_log(path, &request).await {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => {
                format!("Error on reading termination message from logs: {}", Chain(&error))
            }
        }
    }

    async fn read_log(&self, path: &Path, request: &LogRequest) -> Result<Vec<u8>, FileError> {
        let mut text = self.logs.open(path, request, None).await?;
        let mut end = Vec::new();
        while let Some(piece) = text.next().await {
            end.extend(piece?);
            let beyond = end.len().saturating_sub(MOST_OF_LOG);
            end.drain(..beyond);
        }
        Ok(end)
    }
}

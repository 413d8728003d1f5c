//! The runtime note: which container runtime and directories an agent uses. `node clean` reads it.

use std::path::{Path, PathBuf};

use model::ports::files::{FileError, HostFiles};
use serde::{Deserialize, Serialize};

/// The note's path below the root directory.
const NOTE: &str = "ferrolet/state/runtime.json";
/// The version of the note that this program writes and reads.
const VERSION: u32 = 1;
/// The maximum size of a note.
const LONGEST_NOTE: u64 = 64 * 1024;

/// Where the agent's pods are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeNote {
    /// The version of the note.
    version: u32,
    /// The runtime's socket, as in `containerRuntimeEndpoint`.
    pub runtime_endpoint: String,
    /// `podLogsDir`.
    pub pod_logs_dir: PathBuf,
    /// The directory of symlinks to container logs.
    pub container_links_dir: PathBuf,
    /// The cgroups of pods, if pods have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_cgroups: Option<CgroupsNote>,
}

/// The cgroups of the agent's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CgroupsNote {
    /// The cgroup of all pods, from the root.
    pub root: String,
    /// Whether the driver is systemd.
    pub systemd: bool,
}

/// Only the version, which is read first.
#[derive(Debug, Deserialize)]
struct Form {
    version: u32,
}

/// Why a note cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(FileError),
    /// The file is not a note.
    #[error("{} is not a note of the runtime", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
    /// A newer program wrote the note.
    #[error("{} has version {version}, this program supports {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

impl RuntimeNote {
    /// A note.
    pub fn new(
        runtime_endpoint: String,
        pod_logs_dir: PathBuf,
        container_links_dir: PathBuf,
    ) -> Self {
        let (version, pod_cgroups) = (VERSION, None);
        Self { version, runtime_endpoint, pod_logs_dir, container_links_dir, pod_cgroups }
    }

    /// Adds the cgroups of pods.
    #[must_use]
    pub fn with_cgroups(mut self, cgroups: Option<CgroupsNote>) -> Self {
        self.pod_cgroups = cgroups;
        self
    }

    /// Writes the note and syncs it to disk.
    pub async fn write(&self, files: &dyn HostFiles, root_dir: &Path) -> Result<(), NoteError> {
        let content = serde_json::to_vec_pretty(self).expect("a note is always JSON");
        files.write_durably(&root_dir.join(NOTE), &content).await.map_err(NoteError::File)
    }

    /// Reads the note of a root directory, if there is one.
    pub async fn read(files: &dyn HostFiles, root_dir: &Path) -> Result<Option<Self>, NoteError> {
        let path = root_dir.join(NOTE);
        let content = match files.read(&path, LONGEST_NOTE).await {
            Ok(content) => content,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(NoteError::File(error)),
        };
        let wrong = |source| NoteError::Content { path: path.clone(), source };
        let Form { version } = serde_json::from_slice(&content).map_err(wrong)?;
        if version != VERSION {
            return Err(NoteError::Version { path, version });
        }
        serde_json::from_slice(&content).map(Some).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use testkit::files::MemoryFiles;

    use super::*;

    #[tokio::test]
    async fn runtime_note_round_trips() {
        let (files, root) = (MemoryFiles::new(), Path::new("/var/lib/kubelet"));
        assert_eq!(RuntimeNote::read(&files, root).await.unwrap(), None);
        let note = RuntimeNote::new("unix:///a.sock".to_owned(), "/logs".into(), "/links".into());
        let cgroups = CgroupsNote { root: "/kubepods".to_owned(), systemd: false };
        let note = note.with_cgroups(Some(cgroups));
        note.write(&files, root).await.unwrap();
        assert_eq!(RuntimeNote::read(&files, root).await.unwrap(), Some(note));
    }

    #[tokio::test]
    async fn malformed_runtime_note_is_an_error() {
        let (files, root) = (MemoryFiles::new(), Path::new("/var/lib/kubelet"));
        let path = root.join(NOTE);
        for (content, expected) in [
            ("{\"version\": 2, \"x\": 1}", "has version 2"),
            ("{\"version\": 1}", "is not a note"),
            ("half a no", "is not a note"),
        ] {
            files.write(&path, content);
            let error = RuntimeNote::read(&files, root).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

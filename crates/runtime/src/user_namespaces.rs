//! ID ranges of user namespaces, stored on disk.
//!
//! A pod keeps its range until it is removed: files that its processes wrote
//! belong to those IDs. So the range is stored before the pod starts, and read at the next start
//! of the agent. The file has upstream's format, so that either agent can read it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use model::ids::PodUid;
use model::ports::files::{FileError, HostFiles};
use model::wanted::IdMapping;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use crate::decide::{IdRanges, IdSpan, NodeSettings, RangeError};

/// The file in a pod's directory that holds its range.
const FILE: &str = "userns";
/// The maximum number of bytes of such a file.
const LONGEST_FILE: u64 = 64 * 1024;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mappings {
    uid_mappings: Vec<Mapping>,
    gid_mappings: Vec<Mapping>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mapping {
    host_id: u32,
    container_id: u32,
    length: u32,
}

/// Why a pod has no user namespace.
#[derive(Debug, thiserror::Error)]
pub enum UserNamespaceError {
    /// The runtime does not support user namespaces.
    #[error("can't set `spec.hostUsers: false`, runtime does not support user namespaces")]
    NotSupported,
    /// The handler of the runtime class does not support user namespaces.
    #[error(
        "can't set `spec.hostUsers: false`, RuntimeClass handler {0:?} does not support user namespaces"
    )]
    HandlerNotSupported(String),
    /// The runtime does not have the handler.
    #[error("{base}: the handler {handler:?} is not known", base = not_supported(.handler))]
    HandlerNotKnown {
        /// Its name.
        handler: String,
    },
    /// A file cannot be read or written.
    #[error("user namespace")]
    File(#[source] FileError),
    /// A file does not hold a range.
    #[error("invalid user namespace mappings file {}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: serde_json::Error,
    },
    /// A file holds more than a range, or not the same for users and groups.
    #[error("{} is not a single range for both users and groups", .0.display())]
    NotOneRange(PathBuf),
    /// There is no free range.
    #[error("create user namespace")]
    Range(#[source] RangeError),
    /// The file of a range cannot be written.
    #[error("create user namespace")]
    Write(#[source] FileError),
}

fn not_supported(handler: &str) -> String {
    match handler {
        "" => UserNamespaceError::NotSupported,
        handler => UserNamespaceError::HandlerNotSupported(handler.to_owned()),
    }
    .to_string()
}

/// The ranges of a node's pods.
#[derive(Debug)]
pub(crate) struct UserNamespaces {
    /// The root of the pods' directories.
    pods: PathBuf,
    ids_per_pod: u32,
    span: Option<IdSpan>,
    /// Read from disk at the first use. The lock is never held across an await.
    ranges: OnceCell<Mutex<IdRanges>>,
}

impl UserNamespaces {
    pub(crate) fn new(pods: PathBuf, node: &NodeSettings) -> Self {
        let (ids_per_pod, span) = (node.ids_per_pod, node.ids_of_pods);
        Self { pods, ids_per_pod, span, ranges: OnceCell::new() }
    }

    /// The range of a pod, if it has one.
    pub(crate) async fn get(
        &self,
        pod: &PodUid,
        files: &dyn HostFiles,
    ) -> Result<Option<IdMapping>, UserNamespaceError> {
        let ranges = self.ranges(files).await?;
        let ranges = ranges.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(ranges.get(pod))
    }

    /// Allocates a range for a pod. It is on disk when this returns.
    pub(crate) async fn take(
        &self,
        pod: &PodUid,
        files: &dyn HostFiles,
    ) -> Result<IdMapping, UserNamespaceError> {
        let ranges = self.ranges(files).await?;
        let taken = ranges.lock().unwrap_or_else(PoisonError::into_inner).take(pod);
        let mapping = taken.map_err(UserNamespaceError::Range)?;
        let IdMapping { host_id, container_id, length } = mapping;
        let one = vec![Mapping { host_id, container_id, length }];
        let content = Mappings { uid_mappings: one.clone(), gid_mappings: one };
        let content = serde_json::to_vec(&content).expect("numbers are always JSON");
        if let Err(error) = files.write_durably(&self.file(pod), &content).await {
            ranges.lock().unwrap_or_else(PoisonError::into_inner).release(pod);
            return Err(UserNamespaceError::Write(error));
        }
        Ok(mapping)
    }

    /// Releases the range of a removed pod.
    pub(crate) async fn release(
        &self,
        pod: &PodUid,
        files: &dyn HostFiles,
    ) -> Result<(), UserNamespaceError> {
        let ranges = self.ranges(files).await?;
        if !ranges.lock().unwrap_or_else(PoisonError::into_inner).release(pod) {
            return Ok(());
        }
        files.remove_written(&self.file(pod)).await.map_err(UserNamespaceError::File)
    }

    fn file(&self, pod: &PodUid) -> PathBuf {
        self.pods.join(pod.as_str()).join(FILE)
    }

    async fn ranges(&self, files: &dyn HostFiles) -> Result<&Mutex<IdRanges>, UserNamespaceError> {
        self.ranges.get_or_try_init(|| self.load(files)).await
    }

    /// One unreadable file is an error for all pods: its IDs are unknown.
    async fn load(&self, files: &dyn HostFiles) -> Result<Mutex<IdRanges>, UserNamespaceError> {
        let mut ranges = IdRanges::new(self.ids_per_pod, self.span);
        let pods = match files.list(&self.pods).await {
            Ok(pods) => pods,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(UserNamespaceError::File(error)),
        };
        for pod in pods.into_iter().map(PodUid::from) {
            let path = self.file(&pod);
            let content = match files.read(&path, LONGEST_FILE).await {
                Ok(content) if content.is_empty() => continue,
                Ok(content) => content,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(UserNamespaceError::File(error)),
            };
            let mapping = mapping(&path, &content)?;
            ranges.record(&pod, mapping).map_err(UserNamespaceError::Range)?;
        }
        Ok(Mutex::new(ranges))
    }
}

fn mapping(path: &Path, content: &[u8]) -> Result<IdMapping, UserNamespaceError> {
    let read = serde_json::from_slice(content);
    let Mappings { uid_mappings, gid_mappings } =
        read.map_err(|source| UserNamespaceError::Content { path: path.to_owned(), source })?;
    match (uid_mappings.as_slice(), gid_mappings.as_slice()) {
        ([users], [groups]) if users == groups => {
            let Mapping { host_id, container_id, length } = *users;
            Ok(IdMapping { host_id, container_id, length })
        }
        _ => Err(UserNamespaceError::NotOneRange(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use testkit::files::MemoryFiles;

    use super::*;

    fn node() -> UserNamespaces {
        let node = NodeSettings { ids_per_pod: 65_536, ..NodeSettings::default() };
        UserNamespaces::new("/var/lib/kubelet/pods".into(), &node)
    }

    // behaviour: CON-82
    #[tokio::test]
    async fn id_range_is_stored_in_the_format_of_upstream_and_restored() {
        let (files, a, b) = (MemoryFiles::new(), PodUid::from("a"), PodUid::from("b"));
        let first = node();
        assert_eq!(first.get(&a, &files).await.unwrap(), None);
        let of_a = first.take(&a, &files).await.unwrap();
        let written = files.content("/var/lib/kubelet/pods/a/userns").unwrap();
        let expected = r#"{"uidMappings":[{"hostId":65536,"containerId":0,"length":65536}],"gidMappings":[{"hostId":65536,"containerId":0,"length":65536}]}"#;
        assert_eq!(String::from_utf8(written).unwrap(), expected);

        let second = node();
        assert_eq!(second.get(&a, &files).await.unwrap(), Some(of_a));
        assert_eq!(second.take(&b, &files).await.unwrap().host_id, 131_072);
        second.release(&a, &files).await.unwrap();
        assert_eq!(files.content("/var/lib/kubelet/pods/a/userns"), None);
        assert_eq!(node().take(&PodUid::from("c"), &files).await.unwrap().host_id, 65_536);
    }

    // behaviour: CON-83
    #[tokio::test]
    async fn id_range_is_not_used_when_it_cannot_be_stored() {
        let (files, a) = (MemoryFiles::new(), PodUid::from("a"));
        let node = node();
        files.fail("/var/lib/kubelet/pods/a/userns", std::io::ErrorKind::StorageFull);
        node.take(&a, &files).await.unwrap_err();
        assert_eq!(node.get(&a, &files).await.unwrap(), None);
        files.repair("/var/lib/kubelet/pods/a/userns");
        node.take(&a, &files).await.unwrap();
    }

    // behaviour: CON-84
    #[tokio::test]
    async fn invalid_range_file_prevents_new_ranges() {
        let one = r#"{"hostId":65536,"containerId":0,"length":65536}"#;
        let rows = [
            ("half of somethi".to_owned(), "invalid user namespace mappings file"),
            (r#"{"uidMappings":[],"gidMappings":[]}"#.to_owned(), "is not a single range"),
            (
                format!(r#"{{"uidMappings":[{one},{one}],"gidMappings":[{one}]}}"#),
                "is not a single range",
            ),
        ];
        for (content, expected) in rows {
            let files = MemoryFiles::new();
            files.write("/var/lib/kubelet/pods/x/userns", content);
            let error = node().take(&PodUid::from("a"), &files).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

//! The resources that were applied to containers since their creation. They survive restarts of the
//! agent.
//!
//! The resources at creation are in an annotation of the container. This record has the later changes, and only
//! containers that were changed. A change is on disk before it is applied: an agent that finds it pending
//! cannot know the actual resources, and applies the desired ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::chain::Chain;
use model::checkpoint::{Checkpoint, Format, MovedAside, TakenOver};
use model::ids::{ContainerId, PodUid};
use model::ports::files::{FileError, HostFiles};
use podspec::Size;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tracing::{info, warn};

use crate::decide::{Actual, ContainerResize, Sizes};

const FILE: &str = "ferrolet/state/actuated-resources.json";
const FORMAT: Format = Format { version: 1, limit: 8 << 20 };

/// The pause before an unreadable record is tried again, for callers that need it.
const PAUSE: Duration = Duration::from_secs(1);

/// The record of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ActuatedResources {
    pod: String,
    size: Size,
    /// The resources of a pending change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Size>,
}

type Record = BTreeMap<String, ActuatedResources>;

/// The record; read at its first use.
#[derive(Debug)]
pub(crate) struct Actuated {
    file: Checkpoint<Record>,
    read: OnceCell<()>,
    /// Never held across an await.
    known: Mutex<RecordState>,
    /// Held while the file is written, so that the latest record is written last.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct RecordState {
    record: Record,
    sizes: Arc<Sizes>,
    /// Whether the file is outdated.
    unwritten: bool,
}

impl RecordState {
    /// Applies a change to the record. Returns whether anything has changed.
    fn change(&mut self, change: impl FnOnce(&mut Record)) -> bool {
        let before = self.record.clone();
        change(&mut self.record);
        if self.record == before {
            return false;
        }
        let sizes = self.record.iter().map(|(id, given)| {
            let actual = Actual { size: given.size, unsure: given.next };
            (ContainerId::from(id.as_str()), actual)
        });
        self.sizes = Arc::new(sizes.collect());
        self.unwritten = true;
        true
    }
}

impl Actuated {
    pub(crate) fn new(files: Arc<dyn HostFiles>, root_dir: &Path) -> Self {
        Self {
            file: Checkpoint::new(files, root_dir.join(FILE), FORMAT),
            read: OnceCell::new(),
            known: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, RecordState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the record, unless it was read. An unreadable file is an error: it may be intact, and
    /// would be overwritten.
    pub(crate) async fn load(&self) -> Result<(), FileError> {
        let read = self.read.get_or_try_init(|| async {
            let TakenOver { value, aside } = self.file.take_over().await?;
            // The resources at creation are on the containers; changes are applied again.
            if let Some(MovedAside { path, why }) = aside {
                warn!(path = %path.display(), error = %Chain(&why), "Record of resized containers is corrupt, moved aside");
            }
            let mut known = self.known();
            known.change(|known| *known = value.unwrap_or_default());
            known.unwritten = false;
            Ok(())
        });
        read.await.copied()
    }

    /// The resources of containers. Waits while the record cannot be read.
    pub(crate) async fn sizes(&self) -> Arc<Sizes> {
        while let Err(error) = self.load().await {
            warn!(error = %Chain(&error), "Cannot read the record of resized containers, retrying");
            tokio::time::sleep(PAUSE).await;
        }
        self.known_sizes()
    }

    /// The resources of containers, if the record was read.
    pub(crate) fn known_sizes(&self) -> Arc<Sizes> {
        Arc::clone(&self.known().sizes)
    }

    /// Records pending changes of the containers of a pod. The caller must wait until this is on disk.
    pub(crate) async fn begin(
        &self,
        pod: &PodUid,
        changes: &[ContainerResize],
    ) -> Result<(), FileError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.sizes().await;
        self.known().change(|record| {
            for change in changes {
                let given = record.entry(change.id.to_string()).or_insert_with(|| {
                    ActuatedResources { pod: pod.to_string(), size: change.from, next: None }
                });
                // The outcome of an earlier attempt is unknown, and so is that of this one.
                given.size = change.from;
                given.next = Some(change.to);
            }
        });
        self.write().await
    }

    /// Records that a pending change was applied. The file is updated with its next change: an agent that reads
    /// it before that only applies the change again.
    pub(crate) fn done(&self, pod: &PodUid, id: &ContainerId, size: Size) {
        info!(uid = %pod, %id, %size, "Container resources updated");
        let given = ActuatedResources { pod: pod.to_string(), size, next: None };
        self.known().change(|record| {
            record.insert(id.to_string(), given);
        });
    }

    /// Drops all other containers of a pod.
    pub(crate) async fn keep_only(&self, pod: &PodUid, left: &BTreeSet<ContainerId>) {
        let left: BTreeSet<&str> = left.iter().map(ContainerId::as_str).collect();
        self.change(|record| {
            record.retain(|id, given| given.pod != pod.as_str() || left.contains(id.as_str()));
        })
        .await;
    }

    /// Drops all other pods.
    pub(crate) async fn keep_only_of(&self, pods: &BTreeSet<PodUid>) {
        let is_left = |given: &ActuatedResources| pods.contains(&PodUid::from(given.pod.as_str()));
        self.change(|record| record.retain(|_, given| is_left(given))).await;
    }

    async fn change(&self, change: impl FnOnce(&mut Record) + Send) {
        self.sizes().await;
        self.known().change(change);
        self.catch_up().await;
    }

    /// Writes the record if the file is outdated.
    pub(crate) async fn catch_up(&self) {
        if let Err(error) = self.write().await {
            let path = self.file.path().display();
            warn!(%path, error = %Chain(&error), "Cannot write the record of resized containers, retrying later");
        }
    }

    async fn write(&self) -> Result<(), FileError> {
        if !self.known().unwritten {
            return Ok(());
        }
        let _writing = self.writing.lock().await;
        let record = {
            let mut known = self.known();
            if !std::mem::take(&mut known.unwritten) {
                // An earlier write included this change.
                return Ok(());
            }
            known.record.clone()
        };
        let written = self.file.write(&record).await;
        if written.is_err() {
            self.known().unwritten = true;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use testkit::files::MemoryFiles;

    use super::*;

    fn size(memory_limit: i64) -> Size {
        Size { memory_limit, ..Size::default() }
    }

    fn change(id: &str, from: i64, to: i64) -> ContainerResize {
        let (from, to) = (size(from), size(to));
        ContainerResize { id: id.into(), name: "main".to_owned(), from, to }
    }

    /// Changes the resources of a container.
    async fn set(actuated: &Actuated, pod: &PodUid, id: &str, to: i64) {
        actuated.begin(pod, &[change(id, 0, to)]).await.unwrap();
        actuated.done(pod, &id.into(), size(to));
        actuated.catch_up().await;
    }

    #[tokio::test]
    async fn actuated_resources_survive_a_restart_until_the_container_is_removed() {
        let files = Arc::new(MemoryFiles::new());
        let new = || Actuated::new(Arc::clone(&files) as _, Path::new("/kubelet"));
        let (pod, other) = (PodUid::from("pod"), PodUid::from("other"));
        let first = new();
        assert!(first.sizes().await.is_empty());
        for (pod, id, size) in [(&pod, "a", 1), (&pod, "b", 2), (&other, "c", 3), (&pod, "a", 4)] {
            set(&first, pod, id, size).await;
        }
        let next = new();
        let ids = async |actuated: &Actuated| {
            let sizes = actuated.sizes().await;
            sizes
                .iter()
                .map(|(id, has)| (id.to_string(), has.size.memory_limit))
                .collect::<Vec<_>>()
        };
        let sizes_of = |rows: &[(&str, i64)]| -> Vec<(String, i64)> {
            rows.iter().map(|(id, size)| ((*id).to_owned(), *size)).collect()
        };
        assert_eq!(ids(&next).await, sizes_of(&[("a", 4), ("b", 2), ("c", 3)]));
        next.keep_only(&pod, &["b".into()].into()).await;
        assert_eq!(ids(&new()).await, sizes_of(&[("b", 2), ("c", 3)]));
        next.keep_only_of(&[other].into()).await;
        assert_eq!(ids(&new()).await, sizes_of(&[("c", 3)]));
    }

    // behaviour: RSZ-15
    #[tokio::test]
    async fn pending_change_is_on_disk_and_its_outcome_is_unknown() {
        let files = Arc::new(MemoryFiles::new());
        let new = || Actuated::new(Arc::clone(&files) as _, Path::new("/kubelet"));
        let (first, pod) = (new(), PodUid::from("pod"));
        first.begin(&pod, &[change("a", 1, 2), change("b", 3, 4)]).await.unwrap();
        first.done(&pod, &"a".into(), size(2));
        // The agent dies here. The next one applies the desired resources to both again.
        let next = new().sizes().await;
        let unsure = |from, to| Actual { size: size(from), unsure: Some(size(to)) };
        assert_eq!(next.values().copied().collect::<Vec<_>>(), [unsure(1, 2), unsure(3, 4)]);
        assert_eq!(first.sizes().await[&ContainerId::from("a")], Actual::from(size(2)));
        first.catch_up().await;
        assert_eq!(new().sizes().await[&ContainerId::from("a")], Actual::from(size(2)));
    }

    // behaviour: RSZ-15
    #[tokio::test]
    async fn failed_write_of_the_record_is_retried() {
        let files = Arc::new(MemoryFiles::new());
        let actuated = Actuated::new(Arc::clone(&files) as _, Path::new("/kubelet"));
        let (pod, changes) = (PodUid::from("pod"), [change("a", 1, 2)]);
        let file = format!("/kubelet/{FILE}");
        assert!(actuated.sizes().await.is_empty());
        files.fail(&file, std::io::ErrorKind::StorageFull);
        assert!(actuated.begin(&pod, &changes).await.is_err(), "the change must not be applied");
        actuated.catch_up().await;
        files.repair(&file);
        actuated.catch_up().await;
        let next = Actuated::new(files as _, Path::new("/kubelet"));
        assert_eq!(next.sizes().await[&ContainerId::from("a")].unsure, Some(size(2)));
    }

    // behaviour: RSZ-29
    #[tokio::test(start_paused = true)]
    async fn unreadable_record_is_retried_and_never_overwritten() {
        let files = Arc::new(MemoryFiles::new());
        let path = format!("/kubelet/{FILE}");
        let first = Actuated::new(Arc::clone(&files) as _, Path::new("/kubelet"));
        set(&first, &"pod".into(), "a", 1).await;
        let good = files.content(&path).unwrap();
        files.fail(&path, std::io::ErrorKind::Other);
        let next = Actuated::new(Arc::clone(&files) as _, Path::new("/kubelet"));
        let error = next.load().await.unwrap_err();
        assert_eq!(error.path, Path::new(&path));
        let (sizes, ()) = tokio::join!(next.sizes(), async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            files.repair(&path);
        });
        assert_eq!((sizes.len(), files.content(&path).unwrap()), (1, good));
    }

    // behaviour: RSZ-29
    #[tokio::test]
    async fn damaged_record_is_moved_aside() {
        let files = Arc::new(MemoryFiles::new());
        let damaged = "{\"version\":1,\"checksum\":\"0\"}\n{}";
        files.write(format!("/kubelet/{FILE}"), damaged);
        let actuated = Actuated::new(Arc::clone(&files) as _, Path::new("/kubelet"));
        assert!(actuated.sizes().await.is_empty());
        let kept = files.content(format!("/kubelet/{FILE}.damaged")).unwrap();
        assert_eq!(kept, damaged.as_bytes());
        set(&actuated, &"pod".into(), "a", 1).await;
        let next = Actuated::new(files as _, Path::new("/kubelet"));
        assert_eq!(next.sizes().await.len(), 1);
    }
}

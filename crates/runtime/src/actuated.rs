//! What containers were given since they were made, through restarts of the agent.
//!
//! A container carries what it was made with itself; here is what changed since, and nothing of
//! containers that were never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use checkpoint::{Checkpoint, Format};
use model::chain::Chain;
use model::ids::{ContainerId, PodUid};
use model::ports::files::HostFiles;
use podspec::Size;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tracing::{info, warn};

use crate::decide::Sizes;

const FILE: &str = "ferrolet/state/actuated-resources.json";
const FORMAT: Format = Format { version: 1, limit: 8 << 20 };

/// What is kept of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Given {
    pod: String,
    size: Size,
}

type Record = BTreeMap<String, Given>;

/// The record; read when it is first asked for.
#[derive(Debug)]
pub(crate) struct Actuated {
    file: Checkpoint<Record>,
    read: OnceCell<()>,
    /// Never held across an await.
    known: Mutex<Known>,
    /// Held while the file is written, so that the last record is the last one written.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    record: Record,
    sizes: Arc<Sizes>,
}

impl Known {
    /// Whether anything has changed by this.
    fn change(&mut self, change: impl FnOnce(&mut Record)) -> bool {
        let before = self.record.clone();
        change(&mut self.record);
        if self.record == before {
            return false;
        }
        let sizes =
            self.record.iter().map(|(id, given)| (ContainerId::from(id.as_str()), given.size));
        self.sizes = Arc::new(sizes.collect());
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

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What containers were given.
    pub(crate) async fn sizes(&self) -> Arc<Sizes> {
        self.read
            .get_or_init(|| async {
                match self.file.read().await {
                    Ok(record) => {
                        self.known().change(|known| *known = record.unwrap_or_default());
                    }
                    // Each container tells what it was made with; what was changed is changed again.
                    Err(error) => {
                        let path = self.file.path().display();
                        warn!(%path, error = %Chain(&error), "the record of changed containers is lost");
                    }
                }
            })
            .await;
        Arc::clone(&self.known().sizes)
    }

    /// Remembers what a container was given.
    pub(crate) async fn set(&self, pod: &PodUid, id: &ContainerId, size: Size) {
        info!(uid = %pod, %id, %size, "container has other resources");
        let given = Given { pod: pod.to_string(), size };
        self.change(|record| {
            record.insert(id.to_string(), given);
        })
        .await;
    }

    /// Of a pod only these containers are left.
    pub(crate) async fn keep_only(&self, pod: &PodUid, left: &BTreeSet<ContainerId>) {
        let left: BTreeSet<&str> = left.iter().map(ContainerId::as_str).collect();
        self.change(|record| {
            record.retain(|id, given| given.pod != pod.as_str() || left.contains(id.as_str()));
        })
        .await;
    }

    /// Only these pods are left.
    pub(crate) async fn keep_only_of(&self, pods: &BTreeSet<PodUid>) {
        let is_left = |given: &Given| pods.contains(&PodUid::from(given.pod.as_str()));
        self.change(|record| record.retain(|_, given| is_left(given))).await;
    }

    async fn change(&self, change: impl FnOnce(&mut Record) + Send) {
        self.sizes().await;
        if !self.known().change(change) {
            return;
        }
        let _writing = self.writing.lock().await;
        let record = self.known().record.clone();
        if let Err(error) = self.file.write(&record).await {
            let path = self.file.path().display();
            warn!(%path, error = %Chain(&error), "cannot keep a record of changed containers");
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::files::MemoryFiles;

    use super::*;

    fn size(memory_limit: i64) -> Size {
        Size { memory_limit, ..Size::default() }
    }

    #[tokio::test]
    async fn what_containers_were_given_outlives_the_agent_and_goes_with_them() {
        let files = Arc::new(MemoryFiles::new());
        let new = || Actuated::new(Arc::clone(&files) as _, Path::new("/kubelet"));
        let (pod, other) = (PodUid::from("pod"), PodUid::from("other"));
        let first = new();
        assert!(first.sizes().await.is_empty());
        first.set(&pod, &"a".into(), size(1)).await;
        first.set(&pod, &"b".into(), size(2)).await;
        first.set(&other, &"c".into(), size(3)).await;
        first.set(&pod, &"a".into(), size(4)).await;
        let next = new();
        let ids = async |actuated: &Actuated| {
            let sizes = actuated.sizes().await;
            sizes.iter().map(|(id, size)| (id.to_string(), size.memory_limit)).collect::<Vec<_>>()
        };
        let told = |rows: &[(&str, i64)]| -> Vec<(String, i64)> {
            rows.iter().map(|(id, size)| ((*id).to_owned(), *size)).collect()
        };
        assert_eq!(ids(&next).await, told(&[("a", 4), ("b", 2), ("c", 3)]));
        next.keep_only(&pod, &["b".into()].into()).await;
        assert_eq!(ids(&new()).await, told(&[("b", 2), ("c", 3)]));
        next.keep_only_of(&[other].into()).await;
        assert_eq!(ids(&new()).await, told(&[("c", 3)]));
    }

    #[tokio::test]
    async fn a_damaged_record_is_none() {
        let files = Arc::new(MemoryFiles::new());
        files.write(format!("/kubelet/{FILE}"), "{\"version\":1,\"checksum\":\"0\"}\n{}");
        let actuated = Actuated::new(Arc::clone(&files) as _, Path::new("/kubelet"));
        assert!(actuated.sizes().await.is_empty());
        actuated.set(&"pod".into(), &"a".into(), size(1)).await;
        let next = Actuated::new(files as _, Path::new("/kubelet"));
        assert_eq!(next.sizes().await.len(), 1);
    }
}

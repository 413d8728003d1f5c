//! What pods were given of the node, through restarts of the agent.
//!
//! A pod that is let in is given what it asks for then, and its containers carry that with them. What
//! it was given later is kept in a file before anything is done about it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use checkpoint::{Checkpoint, Format};
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::PodUid;
use model::observed::PodStatus;
use model::ports::files::{FileError, HostFiles};
use podspec::{Allocation, view};
use runtime::decide::{Sizes, actual};
use tracing::warn;

const FILE: &str = "allocated-resources.json";
const FORMAT: Format = Format { version: 1, limit: 16 << 20 };

type Record = BTreeMap<String, Allocation>;

/// What each pod was given. The sync loop's alone.
#[derive(Debug)]
pub(crate) struct Allocations {
    file: Checkpoint<Record>,
    /// What pods were given after they were let in.
    record: Record,
    /// The pods that were let in, with what they were given.
    given: BTreeMap<PodUid, Arc<Pod>>,
}

impl Allocations {
    /// Nothing yet; kept in a file of this directory.
    pub(crate) fn new(files: Arc<dyn HostFiles>, state: &Path) -> Self {
        let file = Checkpoint::new(files, state.join(FILE), FORMAT);
        Self { file, record: Record::new(), given: BTreeMap::new() }
    }

    /// Reads what an earlier agent gave.
    pub(crate) async fn load(&mut self) {
        match self.file.read().await {
            Ok(record) => self.record = record.unwrap_or_default(),
            Err(error) => {
                let path = self.file.path().display();
                warn!(%path, error = %Chain(&error), "the record of what pods were given is lost; what their containers have counts");
            }
        }
    }

    /// A pod as it was given resources: the pod itself, as long as it asks for just that.
    pub(crate) fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match self.given.get(&view::uid(pod)) {
            Some(given) if Arc::ptr_eq(given, pod) => Arc::clone(pod),
            Some(given) => Allocation::of(given).applied(pod),
            None => Arc::clone(pod),
        }
    }

    /// A pod as it is to be let in: with what an earlier agent gave it, by the record or by what its
    /// containers have.
    pub(crate) fn remembered(&self, pod: &Arc<Pod>, status: Option<&PodStatus>) -> Arc<Pod> {
        if let Some(given) = self.record.get(view::uid(pod).as_str()) {
            return given.applied(pod);
        }
        let Some(status) = status.filter(|status| status.running().next().is_some()) else {
            return Arc::clone(pod);
        };
        let mut allocation = Allocation::of(pod);
        // What a pod has as a whole its containers do not tell.
        if allocation.whole.is_none() {
            for running in status.running() {
                let Some(size) = actual(running, &Sizes::new()) else { continue };
                if let Some(own) = allocation.containers.get_mut(&*running.name) {
                    *own = size;
                }
            }
        }
        allocation.applied(pod)
    }

    /// A pod that goes, with the last that is known of what it was given.
    pub(crate) fn last_known(&self, pod: &Arc<Pod>, status: Option<&PodStatus>) -> Arc<Pod> {
        if self.given.contains_key(&view::uid(pod)) {
            self.allocated(pod)
        } else {
            self.remembered(pod, status)
        }
    }

    /// A pod was let in.
    pub(crate) fn admitted(&mut self, uid: PodUid, pod: Arc<Pod>) {
        self.given.insert(uid, pod);
    }

    /// Gives a pod what it asks for. What cannot be kept is not given.
    pub(crate) async fn give(&mut self, uid: &PodUid, pod: &Arc<Pod>) -> Result<(), FileError> {
        let before = self.record.insert(uid.to_string(), Allocation::of(pod));
        if let Err(error) = self.file.write(&self.record).await {
            match before {
                Some(before) => self.record.insert(uid.to_string(), before),
                None => self.record.remove(uid.as_str()),
            };
            return Err(error);
        }
        self.given.insert(uid.clone(), Arc::clone(pod));
        Ok(())
    }

    /// A pod went.
    pub(crate) async fn forget(&mut self, uid: &PodUid) {
        self.given.remove(uid);
        if self.record.remove(uid.as_str()).is_some() {
            self.write().await;
        }
    }

    /// Only these pods are left.
    pub(crate) async fn keep_only(&mut self, pods: &BTreeSet<PodUid>) {
        let before = self.record.len();
        self.record.retain(|uid, _| pods.contains(&PodUid::from(uid.as_str())));
        if self.record.len() != before {
            self.write().await;
        }
    }

    async fn write(&self) {
        if let Err(error) = self.file.write(&self.record).await {
            let path = self.file.path().display();
            warn!(%path, error = %Chain(&error), "cannot keep a record of what pods were given");
        }
    }
}

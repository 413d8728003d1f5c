//! What pods were given of the node, through restarts of the agent.
//!
//! What a pod was given is kept in a file from the time when it is let in: what it asks for when the next
//! agent comes may be something else. The file is written beside the sync loop: one write for all that came
//! within a moment, or were granted something since the last. A pod starts without waiting for it; what it
//! is granted later it gets when that is on record. That a pod went is written with the next change, or
//! when somebody has the time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::checkpoint::{Aside, Checkpoint, Format, TakenOver};
use model::ids::PodUid;
use model::observed::PodStatus;
use model::ports::files::{FileError, HostFiles};
use podspec::{Allocation, view};
use runtime::decide::Sizes;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tracing::{error, warn};

use crate::decide::allocation::remembered;

const FILE: &str = "allocated-resources.json";
const FORMAT: Format = Format { version: 1, limit: 16 << 20 };

/// How long to wait for more pods before those that were let in are put on record. Should the agent be
/// killed meanwhile, their containers tell what they were made with.
const GATHER: Duration = Duration::from_secs(1);

type Record = BTreeMap<String, Kept>;

/// What is kept of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// What it was given.
    #[serde(flatten)]
    given: Allocation,
    /// What it may still have, if it was not seen with what it was given when this was written. Boxed: hardly
    /// any pod is resized, and all are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Box<Allocation>>,
}

/// What each pod was given. The sync loop's alone.
#[derive(Debug)]
pub(crate) struct Allocations {
    file: Arc<Checkpoint<Record>>,
    /// What pods were given. What a pod is granted is in it once it is on disk.
    record: Record,
    /// The pods that were let in.
    given: BTreeMap<PodUid, Given>,
    /// Pods that get what they ask for once that is on record.
    granted: BTreeMap<PodUid, Arc<Pod>>,
    /// Those of them of which the record is being written, with what that is.
    in_writing: BTreeMap<PodUid, (Arc<Pod>, Kept)>,
    /// Whether the record has something that the file has not.
    unwritten: bool,
    /// Whether the file has pods that went.
    stale: bool,
    /// Whether what is unwritten does not wait for more.
    urgent: bool,
    /// At most one wait for more. Dropped with the loop.
    gathering: JoinSet<()>,
    /// At most one write. Dropped with the loop.
    writing: JoinSet<Result<(), FileError>>,
}

/// A pod that was let in.
#[derive(Debug)]
struct Given {
    /// As it wants to be.
    desired: Arc<Pod>,
    /// As it was given resources; the same one if it has what it asks for.
    pod: Arc<Pod>,
}

/// That a write has ended, or that it is time for one.
#[derive(Debug)]
pub(crate) struct Written(Option<Result<(), FileError>>);

/// A pod was given other resources, which is on record.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    /// Which.
    pub(crate) uid: PodUid,
    /// As it is now.
    pub(crate) pod: Arc<Pod>,
    /// As it was.
    pub(crate) before: Arc<Pod>,
}

impl Allocations {
    /// Nothing yet; kept in a file of this directory.
    pub(crate) fn new(files: Arc<dyn HostFiles>, state: &Path) -> Self {
        Self {
            file: Arc::new(Checkpoint::new(files, state.join(FILE), FORMAT)),
            record: Record::new(),
            given: BTreeMap::new(),
            granted: BTreeMap::new(),
            in_writing: BTreeMap::new(),
            unwritten: false,
            stale: false,
            urgent: false,
            gathering: JoinSet::new(),
            writing: JoinSet::new(),
        }
    }

    /// Reads what an earlier agent gave. A file that cannot be read is an error: it may be as it should,
    /// and would be overwritten.
    pub(crate) async fn load(&mut self) -> Result<(), FileError> {
        let TakenOver { value, aside } = self.file.take_over().await?;
        self.record = value.unwrap_or_default();
        if let Some(Aside { path, why }) = aside {
            warn!(path = %path.display(), error = %Chain(&why), "the record of what pods were given is lost, and kept here; what their containers have counts");
        }
        Ok(())
    }

    /// A pod as it was given resources: the pod itself, as long as it asks for just that.
    pub(crate) fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match self.given.get(&view::uid(pod)) {
            Some(given) if Arc::ptr_eq(&given.desired, pod) => Arc::clone(&given.pod),
            Some(given) => Allocation::of(&given.pod).applied(pod),
            None => Arc::clone(pod),
        }
    }

    /// A pod as it wanted to be when it was last seen.
    pub(crate) fn desired(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        self.given.get(uid).map(|given| Arc::clone(&given.desired))
    }

    /// A pod as it is to be let in: with what an earlier agent gave it.
    pub(crate) fn remembered(
        &self,
        pod: &Arc<Pod>,
        observed: Option<&PodStatus>,
        sizes: &Sizes,
    ) -> Arc<Pod> {
        let record = self.record.get(view::uid(pod).as_str());
        remembered(pod, record.map(|kept| &kept.given), observed, sizes).applied(pod)
    }

    /// What a pod may still have beside what it was given.
    pub(crate) fn before(&self, uid: &PodUid) -> Option<&Allocation> {
        self.record.get(uid.as_str())?.before.as_deref()
    }

    /// A pod has what it was given. The file says so with its next change.
    pub(crate) fn settled(&mut self, uid: &PodUid) {
        if let Some(kept) = self.record.get_mut(uid.as_str()) {
            kept.before = None;
        }
    }

    /// What is kept of a pod that gets what it asks for.
    fn kept(&self, uid: &PodUid, pod: &Pod) -> Kept {
        let had = self.given.get(uid).map(|given| Allocation::of(&given.pod));
        let before = match (had, self.before(uid)) {
            (Some(had), Some(earlier)) => Some(had.max(earlier)),
            (had, earlier) => had.or_else(|| earlier.cloned()),
        };
        Kept { given: Allocation::of(pod), before: before.map(Box::new) }
    }

    /// A pod that goes, with the last that is known of what it was given.
    pub(crate) fn last_known(
        &self,
        pod: &Arc<Pod>,
        observed: Option<&PodStatus>,
        sizes: &Sizes,
    ) -> Arc<Pod> {
        if self.given.contains_key(&view::uid(pod)) {
            self.allocated(pod)
        } else {
            self.remembered(pod, observed, sizes)
        }
    }

    /// A pod was let in with these resources, which the next agent is to know.
    pub(crate) fn let_in(&mut self, desired: Arc<Pod>, pod: Arc<Pod>) {
        let (uid, given) = (view::uid(&desired), Allocation::of(&pod));
        let known = self.record.get_mut(uid.as_str());
        let is_known = known.as_ref().is_some_and(|kept| kept.given == given);
        match known {
            Some(kept) => kept.given = given,
            None => {
                self.record.insert(uid.to_string(), Kept { given, before: None });
            }
        }
        self.unwritten |= !is_known;
        self.given.insert(uid, Given { desired, pod });
    }

    /// A pod changed that has these resources.
    pub(crate) fn changed(&mut self, desired: Arc<Pod>, pod: Arc<Pod>) {
        self.given.insert(view::uid(&desired), Given { desired, pod });
    }

    /// A pod gets what it asks for, once that is on record.
    pub(crate) fn grant(&mut self, uid: &PodUid, pod: &Arc<Pod>) {
        self.granted.insert(uid.clone(), Arc::clone(pod));
    }

    /// Whether a pod is about to get what it asks for.
    pub(crate) fn is_granted(&self, uid: &PodUid) -> bool {
        self.granted.contains_key(uid) || self.in_writing.contains_key(uid)
    }

    /// A pod went.
    pub(crate) fn forget(&mut self, uid: &PodUid) {
        self.given.remove(uid);
        self.granted.remove(uid);
        let was_in_writing = self.in_writing.remove(uid).is_some();
        self.stale |= self.record.remove(uid.as_str()).is_some() || was_in_writing;
    }

    /// Only these pods are left.
    pub(crate) fn keep_only(&mut self, pods: &BTreeSet<PodUid>) {
        let before = self.record.len();
        self.record.retain(|uid, _| pods.contains(&PodUid::from(uid.as_str())));
        self.stale |= self.record.len() != before;
    }

    /// Somebody is told that a pod does not get what it asks for: by then it is to be known what it has.
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Begins to write everything that is not as on disk: there is time for it.
    pub(crate) fn tidy(&mut self) {
        self.unwritten |= self.stale;
        self.hurry();
        self.keep();
    }

    /// Sees to it that what is not on record yet is written: now, or in a moment.
    pub(crate) fn keep(&mut self) {
        if self.urgent || !self.granted.is_empty() {
            self.write();
        } else if self.unwritten && self.gathering.is_empty() {
            self.gathering.spawn(tokio::time::sleep(GATHER));
        }
    }

    /// Begins to write, unless a write is under way: the next one follows it.
    fn write(&mut self) {
        if !self.writing.is_empty() {
            return;
        }
        self.urgent = false;
        if !self.unwritten && self.granted.is_empty() {
            return;
        }
        (self.unwritten, self.stale) = (false, false);
        let mut record = self.record.clone();
        for (uid, pod) in std::mem::take(&mut self.granted) {
            let kept = self.kept(&uid, &pod);
            record.insert(uid.to_string(), kept.clone());
            self.in_writing.insert(uid, (pod, kept));
        }
        let file = Arc::clone(&self.file);
        self.writing.spawn(async move { file.write(&record).await });
    }

    /// Waits until a write has ended, or is due; for ever while there is none.
    pub(crate) async fn written(&mut self) -> Written {
        let Self { file, gathering, writing, .. } = self;
        let ended = async {
            match writing.join_next().await {
                Some(Ok(written)) => written,
                Some(Err(error)) => {
                    error!(%error, "who wrote what pods were given is gone");
                    let (path, source) = (file.path().to_owned(), std::io::Error::other(error));
                    Err(FileError { operation: "write", path, source })
                }
                None => std::future::pending().await,
            }
        };
        let due = async {
            if gathering.join_next().await.is_none() {
                std::future::pending::<()>().await;
            }
        };
        // Biased: both come at most once for a change.
        tokio::select! {
            biased;
            ended = ended => Written(Some(ended)),
            () = due => Written(None),
        }
    }

    /// A write has ended. What could not be kept is not given; whoever asked for it may ask again.
    pub(crate) fn finish(&mut self, Written(written): Written) -> Vec<Grant> {
        let Some(written) = written else {
            self.hurry();
            self.keep();
            return Vec::new();
        };
        let in_writing = std::mem::take(&mut self.in_writing);
        if let Err(error) = written {
            let path = self.file.path().display();
            warn!(%path, error = %Chain(&error), "cannot keep what pods are given; trying again later");
            self.unwritten = true;
            return Vec::new();
        }
        let mut grants = Vec::new();
        for (uid, (pod, kept)) in in_writing {
            self.record.insert(uid.to_string(), kept);
            let given = Given { desired: Arc::clone(&pod), pod: Arc::clone(&pod) };
            let before = self.given.insert(uid.clone(), given);
            let before = before.map_or_else(|| Arc::clone(&pod), |before| before.pod);
            grants.push(Grant { uid, pod, before });
        }
        self.keep();
        grants
    }

    /// Ends what is being written, and writes what is not yet: the agent stops.
    pub(crate) async fn flush(&mut self) {
        self.tidy();
        while !self.writing.is_empty() {
            let written = self.written().await;
            let failed = matches!(written, Written(Some(Err(_))));
            self.finish(written);
            if failed {
                return;
            }
            self.tidy();
        }
    }
}

#[cfg(test)]
#[path = "allocations_tests.rs"]
mod tests;

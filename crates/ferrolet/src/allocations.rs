//! What pods were given of the node, through restarts of the agent.
//!
//! A pod that is let in is given what it asks for then, and its containers carry that with them. What
//! it was given later is kept in a file before anything is done about it. The file is written beside the
//! sync loop: one write for all that were granted something since the last.

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
use runtime::decide::Sizes;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tracing::{error, warn};

use crate::decide::allocation::remembered;

const FILE: &str = "allocated-resources.json";
const FORMAT: Format = Format { version: 1, limit: 16 << 20 };

type Record = BTreeMap<String, Kept>;

/// What is kept of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// What it was given.
    #[serde(flatten)]
    given: Allocation,
    /// What it may still have, if it was not seen with what it was given when this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Allocation>,
}

/// What each pod was given. The sync loop's alone.
#[derive(Debug)]
pub(crate) struct Allocations {
    file: Arc<Checkpoint<Record>>,
    /// What pods were given after they were let in.
    record: Record,
    /// The pods that were let in.
    given: BTreeMap<PodUid, Given>,
    /// Pods that get what they ask for once that is on record.
    granted: BTreeMap<PodUid, Arc<Pod>>,
    /// Those of them of which the record is being written, with what that is.
    in_writing: BTreeMap<PodUid, (Arc<Pod>, Kept)>,
    /// Whether the file has something that the record has not.
    unwritten: bool,
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

/// That a write has ended.
#[derive(Debug)]
pub(crate) struct Written(Result<(), FileError>);

/// A pod was given other resources, which is on record.
#[derive(Debug)]
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
            writing: JoinSet::new(),
        }
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
        self.record.get(uid.as_str())?.before.as_ref()
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
        Kept { given: Allocation::of(pod), before }
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

    /// A pod was let in, or changed, and has these resources.
    pub(crate) fn admitted(&mut self, desired: Arc<Pod>, pod: Arc<Pod>) {
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
        if self.record.remove(uid.as_str()).is_some() || was_in_writing {
            self.unwritten = true;
            self.keep();
        }
    }

    /// Only these pods are left.
    pub(crate) fn keep_only(&mut self, pods: &BTreeSet<PodUid>) {
        let before = self.record.len();
        self.record.retain(|uid, _| pods.contains(&PodUid::from(uid.as_str())));
        if self.record.len() != before {
            self.unwritten = true;
            self.keep();
        }
    }

    /// Begins to write what is not on record yet, unless a write is under way: the next one follows it.
    pub(crate) fn keep(&mut self) {
        let is_news = self.unwritten || !self.granted.is_empty();
        if !is_news || !self.writing.is_empty() {
            return;
        }
        self.unwritten = false;
        let mut record = self.record.clone();
        for (uid, pod) in std::mem::take(&mut self.granted) {
            let kept = self.kept(&uid, &pod);
            record.insert(uid.to_string(), kept.clone());
            self.in_writing.insert(uid, (pod, kept));
        }
        let file = Arc::clone(&self.file);
        self.writing.spawn(async move { file.write(&record).await });
    }

    /// Waits until a write has ended; for ever while there is none.
    pub(crate) async fn written(&mut self) -> Written {
        match self.writing.join_next().await {
            Some(Ok(written)) => Written(written),
            Some(Err(error)) => {
                error!(%error, "who wrote what pods were given is gone");
                let (path, source) = (self.file.path().to_owned(), std::io::Error::other(error));
                Written(Err(FileError { operation: "write", path, source }))
            }
            None => std::future::pending().await,
        }
    }

    /// A write has ended. What could not be kept is not given; whoever asked for it may ask again.
    pub(crate) fn finish(&mut self, Written(written): Written) -> Vec<Grant> {
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

    /// Ends what is being written, and writes what was forgotten since: the agent stops.
    pub(crate) async fn flush(&mut self) {
        while !self.writing.is_empty() {
            let written = self.written().await;
            let failed = written.0.is_err();
            self.finish(written);
            if failed {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ResourceRequirements;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use testkit::files::MemoryFiles;
    use testkit::pods::pod;
    use tokio::time::timeout;

    use super::*;

    const PATH: &str = "/state/allocated-resources.json";

    fn asking(name: &str, cpu: &str) -> Arc<Pod> {
        let requests = Some([("cpu".to_owned(), Quantity(cpu.to_owned()))].into());
        let resources = ResourceRequirements { requests, ..ResourceRequirements::default() };
        let pod = pod(name).container("main", "image", ["sleep", "forever"]);
        Arc::new(pod.spec(|spec| spec.containers[0].resources = Some(resources)).build())
    }

    async fn on_disk(files: &Arc<MemoryFiles>) -> Vec<String> {
        let mut next = Allocations::new(Arc::clone(files) as _, Path::new("/state"));
        next.load().await;
        next.record.into_keys().collect()
    }

    async fn finished(allocations: &mut Allocations) -> Vec<String> {
        let written = allocations.written().await;
        let grants = allocations.finish(written);
        grants.into_iter().map(|grant| grant.uid.to_string()).collect()
    }

    // behaviour: RSZ-1
    #[tokio::test(start_paused = true)]
    async fn what_is_granted_is_given_when_it_is_on_record_and_several_in_one_write() {
        let files = Arc::new(MemoryFiles::new());
        let mut allocations = Allocations::new(Arc::clone(&files) as _, Path::new("/state"));
        let uid = |name: &str| view::uid(&asking(name, "1"));
        for name in ["a", "b", "c", "d"] {
            allocations.admitted(asking(name, "1"), asking(name, "1"));
        }
        files.hold_writes();
        let wanted = asking("a", "2");
        allocations.grant(&uid("a"), &wanted);
        allocations.keep();
        for name in ["b", "c", "d"] {
            allocations.grant(&uid(name), &asking(name, "2"));
            allocations.keep();
        }
        let waits = timeout(Duration::from_mins(1), allocations.written()).await;
        assert!(waits.is_err() && allocations.is_granted(&uid("a")));
        let given = Allocation::of(&allocations.allocated(&wanted));
        assert_eq!(given, Allocation::of(&asking("a", "1")), "not before it is on record");
        allocations.forget(&uid("d"));
        files.release_writes();
        assert_eq!(finished(&mut allocations).await, [uid("a").as_str()]);
        assert!(Arc::ptr_eq(&allocations.allocated(&wanted), &wanted));
        let mut next = Allocations::new(Arc::clone(&files) as _, Path::new("/state"));
        next.load().await;
        let before = next.before(&uid("a")).cloned();
        assert_eq!(before, Some(Allocation::of(&asking("a", "1"))), "which it may still have");
        allocations.settled(&uid("a"));
        assert_eq!(finished(&mut allocations).await, [uid("b").as_str(), uid("c").as_str()]);
        assert_eq!(on_disk(&files).await, ["a", "b", "c"].map(|name| uid(name).to_string()));
        // One that goes while it is written is not given anything, and not on record in the end.
        allocations.grant(&uid("a"), &asking("a", "3"));
        allocations.keep();
        allocations.forget(&uid("a"));
        assert_eq!(finished(&mut allocations).await, [""; 0]);
        allocations.flush().await;
        assert_eq!(on_disk(&files).await, ["b", "c"].map(|name| uid(name).to_string()));
    }

    // behaviour: RSZ-1
    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_kept_is_not_given() {
        let files = Arc::new(MemoryFiles::new());
        let mut allocations = Allocations::new(Arc::clone(&files) as _, Path::new("/state"));
        let (has, wanted) = (asking("a", "1"), asking("a", "2"));
        let uid = view::uid(&has);
        allocations.admitted(Arc::clone(&has), has);
        files.fail(PATH, ErrorKind::StorageFull);
        allocations.grant(&uid, &wanted);
        allocations.keep();
        assert_eq!(finished(&mut allocations).await, [""; 0]);
        assert!(!allocations.is_granted(&uid), "it may be asked for again");
        files.repair(PATH);
        allocations.grant(&uid, &wanted);
        allocations.keep();
        assert_eq!(finished(&mut allocations).await, [uid.as_str()]);
    }

    #[test]
    fn a_pod_is_copied_once_for_what_it_was_given() {
        let files = Arc::new(MemoryFiles::new());
        let mut allocations = Allocations::new(files as _, Path::new("/state"));
        let (has, wanted) = (asking("a", "1"), asking("a", "2"));
        allocations.admitted(Arc::clone(&has), Arc::clone(&has));
        assert!(Arc::ptr_eq(&allocations.allocated(&has), &has));
        let given = allocations.allocated(&wanted);
        allocations.admitted(Arc::clone(&wanted), Arc::clone(&given));
        assert!(Arc::ptr_eq(&allocations.allocated(&wanted), &given));
        assert_eq!(Allocation::of(&given), Allocation::of(&has));
    }
}

//! The cgroups of pods: created before their sandboxes, removed after them.
//!
//! The worker of a pod changes its cgroup; once the pod is gone, the sweep for leftovers removes it. They take
//! turns, pod by pod.

mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::cgroup::{CgroupName, CgroupNameError, CgroupValues};
use model::chain::Chain;
use model::ids::{ContainerId, PodName, PodUid};
use model::observed::{ContainerState, RuntimePodStatus};
use model::panics::{PanicGuard, PanicStep, PanicSubject};
use model::ports::cgroups::{CgroupError, Cgroups, Limits};
use model::ports::clock::WallClock;
use model::ports::files::Removed;
use model::verdict::{Detail, Owner, Subject, Verdict};
use podspec::{QosClass, view};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::decide::{
    CLASSES, CgroupFacts, PodCgroupSettings, cgroups_of_pod, class_cgroup, class_share,
    class_values, pod_cgroup, pod_cgroup_values, pod_of_cgroup, requested,
};
use turns::Turns;

/// Why a pod has no cgroup, or still has one.
#[derive(Debug, thiserror::Error)]
pub enum PodCgroupError {
    /// Its UID is not a valid cgroup name.
    #[error("name the pod's cgroup")]
    Name(#[source] CgroupNameError),
    /// It could not be read.
    #[error("read cgroup {name}")]
    Look {
        /// The cgroup.
        name: CgroupName,
        /// The cause.
        #[source]
        source: CgroupError,
    },
    /// It could not be created.
    #[error("create cgroup {name}")]
    Make {
        /// The cgroup.
        name: CgroupName,
        /// The cause.
        #[source]
        source: CgroupError,
    },
    /// It could not be limited.
    #[error("set limits of cgroup {name}")]
    Limit {
        /// The cgroup.
        name: CgroupName,
        /// The cause.
        #[source]
        source: CgroupError,
    },
    /// It could not be removed.
    #[error("remove cgroup {name}")]
    Remove {
        /// The cgroup.
        name: CgroupName,
        /// The cause.
        #[source]
        source: CgroupError,
    },
}

/// The cgroups of the pods of this node.
#[derive(Debug)]
pub struct PodCgroups {
    port: Arc<dyn Cgroups>,
    clock: Arc<dyn WallClock>,
    settings: PodCgroupSettings,
    turns: Turns,
    /// The pods whose cgroups exist for certain. Never held across an await.
    known: Mutex<BTreeMap<PodUid, CgroupState>>,
    /// The CPU shares of the burstable class; `None` if unknown. Held during
    /// writes, so that the latest sum is written last.
    written: tokio::sync::Mutex<Option<i64>>,
    /// Pods of that class that an earlier agent left, with their cgroups, and this one has not synced: their
    /// requests are not known yet. `None` before the first search. Never held across an await.
    unsynced: Mutex<Option<BTreeMap<PodUid, CgroupName>>>,
    /// When this agent started.
    began: Instant,
}

/// How long the class waits for this agent to sync the pods of an earlier one. After that, those that
/// it has not synced, such as terminating ones, count with the values of their cgroups.
const LONGEST_WAIT_FOR_UNSYNCED: Duration = Duration::from_mins(1);

/// The known state of a pod's cgroup.
#[derive(Debug, Clone, Default)]
struct CgroupState {
    /// The CPU request that the pod adds to its class.
    share: i64,
    /// The values of the cgroup; `None` if they differ from the expected ones.
    values: Option<CgroupValues>,
}

/// Returns the rule that says that no container of a pod runs or will run; `None` if one may.
pub type NothingRunsRule<'a> = &'a (dyn Fn(&PodUid) -> Option<&'static str> + Sync);

/// Creates the cgroups of the QoS classes, or updates the values of existing ones.
pub async fn make_class_cgroups(
    port: &dyn Cgroups,
    settings: &PodCgroupSettings,
) -> Result<(), CgroupError> {
    for class in CLASSES {
        let name = class_cgroup(&settings.root, class);
        let mut values = class_values(class, 0, settings);
        if port.check(&name).await.is_err() {
            port.create(&name, &values).await?;
            continue;
        }
        if class == QosClass::Burstable {
            // Its pods may run already; their requests are known after their first sync.
            values.cpu_shares = None;
        }
        port.update(&name, &values).await?;
    }
    Ok(())
}

impl PodCgroups {
    /// The cgroups below the root of the settings, which exists.
    pub fn new(
        port: Arc<dyn Cgroups>,
        clock: Arc<dyn WallClock>,
        settings: PodCgroupSettings,
    ) -> Self {
        let (turns, known) = (Turns::default(), Mutex::default());
        let (written, unsynced) = (tokio::sync::Mutex::new(None), Mutex::default());
        let began = Instant::now();
        Self { port, clock, settings, turns, known, written, unsynced, began }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<PodUid, CgroupState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cgroup parent of a pod for the runtime.
    pub(crate) fn parent(&self, pod: &Pod) -> Result<String, CgroupNameError> {
        Ok(pod_cgroup(&self.settings.root, pod)?.path(self.port.driver()))
    }

    /// The facts about the cgroup of a pod. Reads the kernel only for a running pod that this agent has not synced
    /// yet.
    pub(crate) async fn facts(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
    ) -> Result<CgroupFacts, PodCgroupError> {
        if let Some(facts) = self.known_facts(pod) {
            return Ok(facts);
        }
        let runs = status.containers.iter().any(|one| one.state == ContainerState::Running);
        Ok(CgroupFacts::NotEnsured { exists: runs && self.exists(pod).await? })
    }

    /// The cgroup of a pod, if this agent has ensured it.
    fn known_facts(&self, pod: &Pod) -> Option<CgroupFacts> {
        let (values, share) = (self.wanted(pod), class_share(pod));
        let known = self.known();
        let known = known.get(&view::uid(pod))?;
        Some(CgroupFacts::Ensured {
            values_match: known.values.as_ref() == Some(&values),
            share_matches: known.share == share,
        })
    }

    /// Whether the cgroup of a pod exists as a whole.
    async fn exists(&self, pod: &Pod) -> Result<bool, PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        match self.port.check(&name).await {
            Ok(()) => Ok(true),
            Err(CgroupError::Missing { .. }) => Ok(false),
            Err(source) => Err(PodCgroupError::Look { name, source }),
        }
    }

    /// Ensures that a pod has its cgroup.
    pub async fn ensure(&self, pod: &Pod) -> Result<(), PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let uid = view::uid(pod);
        let _turn = self.turns.take(&uid).await;
        let values = pod_cgroup_values(pod, &self.settings);
        let known = CgroupState { share: class_share(pod), values: Some(values.clone()) };
        self.known().insert(uid.clone(), known);
        self.limit_classes().await;
        if self.port.check(&name).await.is_ok() {
            // An earlier agent may not have completed a change.
            let has = self.port.has(&name, &values).await.unwrap_or_else(|error| {
                warn!(cgroup = %name, error = %Chain(&error), "Cannot read the values of pod cgroup");
                true
            });
            if !has {
                self.unsure(&uid);
            }
            return Ok(());
        }
        debug!(cgroup = %name, ?values, "Creating pod cgroup");
        match self.port.create(&name, &values).await {
            Ok(Limits::Written) => Ok(()),
            Ok(Limits::Lacking) => {
                self.unsure(&uid);
                Ok(())
            }
            Err(source) => {
                self.forget(&uid).await;
                Err(PodCgroupError::Make { name, source })
            }
        }
    }

    /// Marks the cgroup of a pod as outdated; it is written again.
    fn unsure(&self, uid: &PodUid) {
        if let Some(known) = self.known().get_mut(uid) {
            known.values = None;
        }
    }

    /// Whether the cgroup of a pod is known to have the allocated resources, and its QoS class
    /// includes them.
    pub(crate) fn is_sized(&self, pod: &Pod) -> bool {
        let sized = CgroupFacts::Ensured { values_match: true, share_matches: true };
        self.known_facts(pod).is_none_or(|facts| facts == sized)
    }

    /// The desired values of the cgroup of a pod.
    pub(crate) fn wanted(&self, pod: &Pod) -> CgroupValues {
        pod_cgroup_values(pod, &self.settings)
    }

    /// The values of the cgroup of a pod, if known.
    pub(crate) fn known_values(&self, uid: &PodUid) -> Option<CgroupValues> {
        self.known().get(uid)?.values.clone()
    }

    /// The values of the cgroup of a pod: as this agent wrote them, else as the kernel reports them.
    pub(crate) async fn has(&self, pod: &Pod) -> Result<CgroupValues, PodCgroupError> {
        if let Some(values) = self.known_values(&view::uid(pod)) {
            return Ok(values);
        }
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let read = self.port.values(&name).await;
        read.map_err(|source| PodCgroupError::Look { name, source })
    }

    /// Writes values to the cgroup of a pod, whose values are `has` afterwards.
    pub(crate) async fn write(
        &self,
        pod: &Pod,
        values: &CgroupValues,
        has: CgroupValues,
    ) -> Result<(), PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let uid = view::uid(pod);
        let _turn = self.turns.take(&uid).await;
        debug!(cgroup = %name, ?values, "Updating pod cgroup");
        let updated = self.port.update(&name, values).await;
        if let Some(known) = self.known().get_mut(&uid) {
            // A failed write may have been applied in part.
            known.values = updated.is_ok().then_some(has);
        }
        updated.map_err(|source| PodCgroupError::Limit { name, source })
    }

    /// Updates the class after the cgroup of a pod was resized.
    pub(crate) async fn settled(&self, pod: &Pod) {
        let known = CgroupState { share: class_share(pod), values: Some(self.wanted(pod)) };
        self.known().insert(view::uid(pod), known);
        self.limit_classes().await;
    }

    /// Updates the class for a pod without processes that was resized.
    pub(crate) async fn counted(&self, pod: &Pod) {
        let share = class_share(pod);
        let is_news = self.known().get_mut(&view::uid(pod)).is_some_and(|known| {
            let before = std::mem::replace(&mut known.share, share);
            before != share
        });
        if is_news {
            self.limit_classes().await;
        }
    }

    /// The bytes of memory that a pod uses, or one of its containers, if there is a memory controller.
    pub(crate) async fn memory_usage(
        &self,
        pod: &Pod,
        container: Option<&ContainerId>,
    ) -> Result<Option<u64>, PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let used = self.port.memory_usage(&name, container.map(ContainerId::as_str)).await;
        used.map_err(|source| PodCgroupError::Look { name, source })
    }

    /// The cgroups of pods that an earlier agent left in the burstable class, and this one has not
    /// synced; `None` if they cannot be listed.
    async fn unsynced(&self, class: &CgroupName) -> Option<Vec<CgroupName>> {
        let is_known = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_known {
            let children = match self.port.children(class).await {
                Ok(children) => children,
                Err(error) => {
                    warn!(cgroup = %class, error = %Chain(&error), "Cannot list pod cgroups of an earlier agent, keeping CPU shares of QoS cgroup");
                    return None;
                }
            };
            let left = children.into_iter().filter_map(|one| Some((pod_of_cgroup(&one)?, one)));
            let left = left.collect();
            *self.unsynced.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        }
        let known = self.known();
        let mut unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        let unsynced = unsynced.get_or_insert_default();
        unsynced.retain(|uid, _| !known.contains_key(uid));
        Some(unsynced.values().cloned().collect())
    }

    /// The sum of the CPU requests of a class; none while some pods were not synced: without those the
    /// sum would be too small.
    async fn class_sum(&self, class: &CgroupName) -> Option<i64> {
        let unsynced = self.unsynced(class).await?;
        if !unsynced.is_empty() && self.began.elapsed() < LONGEST_WAIT_FOR_UNSYNCED {
            return None;
        }
        let mut of_unmet = 0;
        for name in unsynced {
            match self.port.values(&name).await {
                Ok(values) => of_unmet += requested(&values),
                Err(CgroupError::Missing { .. }) => {}
                Err(error) => {
                    warn!(cgroup = %name, error = %Chain(&error), "Cannot read CPU shares of pod cgroup");
                }
            }
        }
        Some(of_unmet + self.known().values().map(|known| known.share).sum::<i64>())
    }

    /// Writes the sums of CPU requests to the classes. After a failure they keep their values until the next try.
    async fn limit_classes(&self) {
        let mut written = self.written.lock().await;
        let name = class_cgroup(&self.settings.root, QosClass::Burstable);
        let Some(milli) = self.class_sum(&name).await else { return };
        if *written == Some(milli) {
            return;
        }
        let values = class_values(QosClass::Burstable, milli, &self.settings);
        // A failed or cancelled write may have been applied: the previous value
        // is no longer certain.
        *written = None;
        match self.port.update(&name, &values).await {
            Ok(()) => *written = Some(milli),
            Err(error) => {
                warn!(cgroup = %name, error = %Chain(&error), "Cannot set CPU shares of QoS cgroup");
            }
        }
    }

    /// Removes the cgroup of a terminated pod.
    pub async fn release(&self, pod: &Pod) -> Result<(), PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let (uid, pod) = (view::uid(pod), view::pod_name(pod));
        let _turn = self.turns.take(&uid).await;
        self.remove(&name, &uid, Some(pod), "pod-has-ended").await?;
        self.forget(&uid).await;
        Ok(())
    }

    async fn forget(&self, uid: &PodUid) {
        let mut was_unsynced = false;
        if let Some(unsynced) = &mut *self.unsynced.lock().unwrap_or_else(PoisonError::into_inner) {
            was_unsynced = unsynced.remove(uid).is_some();
        }
        if self.known().remove(uid).is_some() || was_unsynced {
            self.limit_classes().await;
        }
    }

    async fn remove(
        &self,
        name: &CgroupName,
        uid: &PodUid,
        pod: Option<PodName>,
        rule: &'static str,
    ) -> Result<(), PodCgroupError> {
        let verdict = Verdict {
            subject: Subject::Cgroup(name.clone()),
            name: "".into(),
            owner: Some(Owner { uid: uid.clone(), pod }),
            rule,
            detail: Detail::default(),
            at: self.clock.now(),
        };
        match self.port.remove(&verdict).await {
            Ok(Removed::Now) => info!(cgroup = %name, %uid, rule, "Pod cgroup removed"),
            Ok(Removed::Before) => {}
            Err(source) => return Err(PodCgroupError::Remove { name: name.clone(), source }),
        }
        Ok(())
    }

    /// Removes leftover cgroups of pods of which nothing may run.
    pub async fn sweep(&self, why: NothingRunsRule<'_>, panics: &PanicGuard) {
        for name in self.of_pods().await {
            if let Some(uid) = pod_of_cgroup(&name) {
                let (step, of) = (PanicStep::CgroupSweep, PanicSubject::Pod(&uid, None));
                panics.catch_async(step, of, self.remove_left(&name, &uid, why)).await.ok();
            }
        }
        // Retries earlier failures of the classes.
        self.limit_classes().await;
    }

    /// Removes leftover cgroups of a pod of which nothing may run, in every class.
    pub async fn sweep_one(&self, uid: &PodUid, why: NothingRunsRule<'_>) {
        for name in cgroups_of_pod(&self.settings.root, uid) {
            self.remove_left(&name, uid, why).await;
        }
    }

    async fn remove_left(&self, name: &CgroupName, uid: &PodUid, why: NothingRunsRule<'_>) {
        let _turn = self.turns.take(uid).await;
        // Checked while this task has the cgroup of the pod: a recreated pod waits for it.
        let Some(rule) = why(uid) else { return };
        match self.remove(name, uid, None, rule).await {
            Ok(()) => self.forget(uid).await,
            Err(error) => {
                warn!(%uid, rule, error = %Chain(&error), "Cannot remove orphaned pod cgroup, retrying later");
            }
        }
    }

    fn parents(&self) -> impl Iterator<Item = CgroupName> {
        let classes = CLASSES.into_iter().chain([QosClass::Guaranteed]);
        classes.map(|class| class_cgroup(&self.settings.root, class))
    }

    /// The existing cgroups of pods.
    async fn of_pods(&self) -> Vec<CgroupName> {
        let mut found = Vec::new();
        for class in self.parents() {
            match self.port.children(&class).await {
                Ok(children) => found.extend(children),
                Err(error) => {
                    warn!(cgroup = %class, error = %Chain(&error), "Cannot list pod cgroups");
                }
            }
        }
        found.retain(|name| pod_of_cgroup(name).is_some());
        found
    }
}

//! The cgroups of pods: made before their sandboxes, removed after them.
//!
//! A pod's cgroup is changed by its worker and, once the pod is gone, by whoever looks for what is
//! left over. They take turns, pod by pod.

mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::cgroup::{CgroupName, CgroupNameError, CgroupValues};
use model::chain::Chain;
use model::ids::{ContainerId, PodName, PodUid};
use model::observed::{ContainerState, PodStatus};
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
    /// Its uid makes no name.
    #[error("name the pod's cgroup")]
    Name(#[source] CgroupNameError),
    /// It could not be looked at.
    #[error("look at cgroup {name}")]
    Look {
        /// Which.
        name: CgroupName,
        /// Why.
        #[source]
        source: CgroupError,
    },
    /// It could not be made.
    #[error("make cgroup {name}")]
    Make {
        /// Which.
        name: CgroupName,
        /// Why.
        #[source]
        source: CgroupError,
    },
    /// It could not be limited.
    #[error("limit cgroup {name}")]
    Limit {
        /// Which.
        name: CgroupName,
        /// Why.
        #[source]
        source: CgroupError,
    },
    /// It could not be removed.
    #[error("remove cgroup {name}")]
    Remove {
        /// Which.
        name: CgroupName,
        /// Why.
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
    /// The pods whose cgroups are known to be there. Never held across an await.
    known: Mutex<BTreeMap<PodUid, Known>>,
    /// What the class of pods that may use more than they ask for has; none when nobody knows. Held while it
    /// is written, so that the last sum is the last one written.
    written: tokio::sync::Mutex<Option<i64>>,
    /// Pods of that class that an earlier agent left, with their cgroups, and this one has not met: what they
    /// ask for is not known yet. None before anybody looked. Never held across an await.
    unmet: Mutex<Option<BTreeMap<PodUid, CgroupName>>>,
    /// When this agent began.
    began: Instant,
}

/// How long the class waits for this agent to meet the pods that an earlier one left. After that, those that
/// it never meets, as one that terminates, count with what the kernel has for them.
const LONGEST_WAIT_FOR_UNMET: Duration = Duration::from_mins(1);

/// What is known of a pod's cgroup.
#[derive(Debug, Clone, Default)]
struct Known {
    /// What the pod adds to its class.
    share: i64,
    /// What the cgroup has; none when it has not what was looked for.
    values: Option<CgroupValues>,
}

/// Says by which rule nothing of a pod runs, nor will; none if something may.
pub type WhyRunsNothing<'a> = &'a (dyn Fn(&PodUid) -> Option<&'static str> + Sync);

/// Makes the cgroups of the classes, or writes to those that are there what they should have.
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
            // Its pods may run already; what they ask for is known when they were looked at.
            values.cpu_shares = None;
        }
        port.update(&name, &values).await?;
    }
    Ok(())
}

impl PodCgroups {
    /// Those below the root that the settings name, which is there.
    pub fn new(
        port: Arc<dyn Cgroups>,
        clock: Arc<dyn WallClock>,
        settings: PodCgroupSettings,
    ) -> Self {
        let (turns, known) = (Turns::default(), Mutex::default());
        let (written, unmet) = (tokio::sync::Mutex::new(None), Mutex::default());
        let began = Instant::now();
        Self { port, clock, settings, turns, known, written, unmet, began }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<PodUid, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the runtime is to put what it makes for a pod.
    pub(crate) fn parent(&self, pod: &Pod) -> Result<String, CgroupNameError> {
        Ok(pod_cgroup(&self.settings.root, pod)?.path(self.port.driver()))
    }

    /// Looks at the cgroup of a pod. The kernel is asked only for a pod that this agent has not synced yet
    /// and of which something runs.
    pub(crate) async fn facts(
        &self,
        pod: &Pod,
        status: &PodStatus,
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

    /// Sees to it that a pod has its cgroup.
    pub async fn ensure(&self, pod: &Pod) -> Result<(), PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let uid = view::uid(pod);
        let _turn = self.turns.take(&uid).await;
        let values = pod_cgroup_values(pod, &self.settings);
        let known = Known { share: class_share(pod), values: Some(values.clone()) };
        self.known().insert(uid.clone(), known);
        self.limit_classes().await;
        if self.port.check(&name).await.is_ok() {
            // An earlier agent may have been about to change it.
            let has = self.port.has(&name, &values).await.unwrap_or_else(|error| {
                warn!(cgroup = %name, error = %Chain(&error), "cannot see what the cgroup of a pod has");
                true
            });
            if !has {
                self.unsure(&uid);
            }
            return Ok(());
        }
        debug!(cgroup = %name, ?values, "making the cgroup of a pod");
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

    /// The cgroup of a pod has not what it should; it is written again.
    fn unsure(&self, uid: &PodUid) {
        if let Some(known) = self.known().get_mut(uid) {
            known.values = None;
        }
    }

    /// Whether the cgroup of a pod has what the pod was given, as far as is known, and its class knows of it.
    pub(crate) fn is_sized(&self, pod: &Pod) -> bool {
        let sized = CgroupFacts::Ensured { values_match: true, share_matches: true };
        self.known_facts(pod).is_none_or(|facts| facts == sized)
    }

    /// What the cgroup of a pod is to have.
    pub(crate) fn wanted(&self, pod: &Pod) -> CgroupValues {
        pod_cgroup_values(pod, &self.settings)
    }

    /// What the cgroup of a pod has, if this agent knows.
    pub(crate) fn known_values(&self, uid: &PodUid) -> Option<CgroupValues> {
        self.known().get(uid)?.values.clone()
    }

    /// What the cgroup of a pod has: as this agent wrote it, else as the kernel tells.
    pub(crate) async fn has(&self, pod: &Pod) -> Result<CgroupValues, PodCgroupError> {
        if let Some(values) = self.known_values(&view::uid(pod)) {
            return Ok(values);
        }
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let read = self.port.values(&name).await;
        read.map_err(|source| PodCgroupError::Look { name, source })
    }

    /// Writes values to the cgroup of a pod, which `has` these then.
    pub(crate) async fn write(
        &self,
        pod: &Pod,
        values: &CgroupValues,
        has: CgroupValues,
    ) -> Result<(), PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let uid = view::uid(pod);
        let _turn = self.turns.take(&uid).await;
        debug!(cgroup = %name, ?values, "changing the cgroup of a pod");
        let updated = self.port.update(&name, values).await;
        if let Some(known) = self.known().get_mut(&uid) {
            // Of a write that failed a part may have been done.
            known.values = updated.is_ok().then_some(has);
        }
        updated.map_err(|source| PodCgroupError::Limit { name, source })
    }

    /// The cgroup of a pod has what the pod was given: so does its class.
    pub(crate) async fn settled(&self, pod: &Pod) {
        let known = Known { share: class_share(pod), values: Some(self.wanted(pod)) };
        self.known().insert(view::uid(pod), known);
        self.limit_classes().await;
    }

    /// A pod of which nothing runs was given something: its class counts with that, though there is nobody in its cgroup.
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

    /// Bytes of memory that a pod uses, or one of its containers, if anybody counts them.
    pub(crate) async fn memory_usage(
        &self,
        pod: &Pod,
        container: Option<&ContainerId>,
    ) -> Result<Option<u64>, PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let used = self.port.memory_usage(&name, container.map(ContainerId::as_str)).await;
        used.map_err(|source| PodCgroupError::Look { name, source })
    }

    /// The cgroups of pods that an earlier agent left in the class whose pods add up, and this one has not
    /// met; none if that cannot be seen.
    async fn unmet(&self, class: &CgroupName) -> Option<Vec<CgroupName>> {
        let is_known = self.unmet.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_known {
            let children = match self.port.children(class).await {
                Ok(children) => children,
                Err(error) => {
                    warn!(cgroup = %class, error = %Chain(&error), "cannot see which pods an earlier agent left; their class keeps its share");
                    return None;
                }
            };
            let left = children.into_iter().filter_map(|one| Some((pod_of_cgroup(&one)?, one)));
            let left = left.collect();
            *self.unmet.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        }
        let known = self.known();
        let mut unmet = self.unmet.lock().unwrap_or_else(PoisonError::into_inner);
        let unmet = unmet.get_or_insert_default();
        unmet.retain(|uid, _| !known.contains_key(uid));
        Some(unmet.values().cloned().collect())
    }

    /// What the pods of a class ask for together; none while some of them were not met: without those the
    /// sum would be too small.
    async fn class_sum(&self, class: &CgroupName) -> Option<i64> {
        let unmet = self.unmet(class).await?;
        if !unmet.is_empty() && self.began.elapsed() < LONGEST_WAIT_FOR_UNMET {
            return None;
        }
        let mut of_unmet = 0;
        for name in unmet {
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

    /// Writes to the classes what their pods ask for together. They go on without until the next try.
    async fn limit_classes(&self) {
        let mut written = self.written.lock().await;
        let name = class_cgroup(&self.settings.root, QosClass::Burstable);
        let Some(milli) = self.class_sum(&name).await else { return };
        if *written == Some(milli) {
            return;
        }
        let values = class_values(QosClass::Burstable, milli, &self.settings);
        // A write that fails, or that nobody waits for any more, may have been done: what was there before
        // is not to be taken for what is there.
        *written = None;
        match self.port.update(&name, &values).await {
            Ok(()) => *written = Some(milli),
            Err(error) => {
                warn!(cgroup = %name, error = %Chain(&error), "cannot give the pods of a class their share");
            }
        }
    }

    /// Removes the cgroup of a pod that has ended.
    pub async fn release(&self, pod: &Pod) -> Result<(), PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let (uid, pod) = (view::uid(pod), view::pod_name(pod));
        let _turn = self.turns.take(&uid).await;
        self.remove(&name, &uid, Some(pod), "pod-has-ended").await?;
        self.forget(&uid).await;
        Ok(())
    }

    async fn forget(&self, uid: &PodUid) {
        let mut was_unmet = false;
        if let Some(unmet) = &mut *self.unmet.lock().unwrap_or_else(PoisonError::into_inner) {
            was_unmet = unmet.remove(uid).is_some();
        }
        if self.known().remove(uid).is_some() || was_unmet {
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
            Ok(Removed::Now) => info!(cgroup = %name, %uid, rule, "cgroup of a pod removed"),
            Ok(Removed::Before) => {}
            Err(source) => return Err(PodCgroupError::Remove { name: name.clone(), source }),
        }
        Ok(())
    }

    /// Removes what is left of the cgroups of pods of which nothing is to run.
    pub async fn sweep(&self, why: WhyRunsNothing<'_>, panics: &PanicGuard) {
        for name in self.of_pods().await {
            if let Some(uid) = pod_of_cgroup(&name) {
                let (step, of) = (PanicStep::CgroupSweep, PanicSubject::Pod(&uid, None));
                panics.catch_async(step, of, self.remove_left(&name, &uid, why)).await.ok();
            }
        }
        // What could not be looked at or written before.
        self.limit_classes().await;
    }

    /// Removes what is left of the cgroup of a pod of which nothing is to run, whichever class it was of.
    pub async fn sweep_one(&self, uid: &PodUid, why: WhyRunsNothing<'_>) {
        for name in cgroups_of_pod(&self.settings.root, uid) {
            self.remove_left(&name, uid, why).await;
        }
    }

    async fn remove_left(&self, name: &CgroupName, uid: &PodUid, why: WhyRunsNothing<'_>) {
        let _turn = self.turns.take(uid).await;
        // Asked while it is our turn: a pod that comes back waits for its cgroup.
        let Some(rule) = why(uid) else { return };
        match self.remove(name, uid, None, rule).await {
            Ok(()) => self.forget(uid).await,
            Err(error) => {
                warn!(%uid, rule, error = %Chain(&error), "cannot remove the cgroup of a pod of which nothing is to run; trying again later");
            }
        }
    }

    fn parents(&self) -> impl Iterator<Item = CgroupName> {
        let classes = CLASSES.into_iter().chain([QosClass::Guaranteed]);
        classes.map(|class| class_cgroup(&self.settings.root, class))
    }

    /// The cgroups of pods that there are.
    async fn of_pods(&self) -> Vec<CgroupName> {
        let mut found = Vec::new();
        for class in self.parents() {
            match self.port.children(&class).await {
                Ok(children) => found.extend(children),
                Err(error) => {
                    warn!(cgroup = %class, error = %Chain(&error), "cannot look for cgroups of pods that are gone");
                }
            }
        }
        found.retain(|name| pod_of_cgroup(name).is_some());
        found
    }
}

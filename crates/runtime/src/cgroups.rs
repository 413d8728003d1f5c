//! The cgroups of pods: made before their sandboxes, removed after them.
//!
//! A pod's cgroup is changed by its worker and, once the pod is gone, by whoever looks for what is
//! left over. They take turns, pod by pod.

mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use model::cgroup::{CgroupName, CgroupNameError};
use model::chain::Chain;
use model::ids::{PodName, PodUid};
use model::ports::cgroups::{CgroupError, Cgroups};
use model::ports::clock::WallClock;
use model::ports::files::Removed;
use model::verdict::{Detail, Owner, Subject, Verdict};
use podspec::{QosClass, view};
use tracing::{debug, info, warn};

use crate::decide::{
    CLASSES, PodCgroupSettings, cgroups_of_pod, class_cgroup, class_share, class_values,
    pod_cgroup, pod_cgroup_values, pod_of_cgroup,
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
    /// The pods whose cgroups are known to be there, and what each adds to its class. Never held across
    /// an await.
    known: Mutex<BTreeMap<PodUid, i64>>,
    /// What was last written to the class of pods that may use more than they ask for. Held while it is
    /// written, so that the last sum is the last one written.
    written: tokio::sync::Mutex<Option<i64>>,
}

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
        let written = tokio::sync::Mutex::new(None);
        Self { port, clock, settings, turns, known, written }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<PodUid, i64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the runtime is to put what it makes for a pod.
    pub(crate) fn parent(&self, pod: &Pod) -> Result<String, CgroupNameError> {
        Ok(pod_cgroup(&self.settings.root, pod)?.path(self.port.driver()))
    }

    /// Whether this agent saw to the cgroup of a pod already.
    pub(crate) fn knows(&self, uid: &PodUid) -> bool {
        self.known().contains_key(uid)
    }

    /// Whether the cgroup of a pod is there as a whole.
    pub(crate) async fn is_there(&self, pod: &Pod) -> Result<bool, PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        match self.port.check(&name).await {
            Ok(()) => Ok(true),
            Err(CgroupError::Missing { .. }) => Ok(false),
            Err(source) => Err(PodCgroupError::Look { name, source }),
        }
    }

    /// Sees to it that a pod has its cgroup.
    pub(crate) async fn ensure(&self, pod: &Pod) -> Result<(), PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let uid = view::uid(pod);
        let _turn = self.turns.take(&uid).await;
        self.known().insert(uid.clone(), class_share(pod));
        self.limit_classes().await;
        if self.port.check(&name).await.is_ok() {
            return Ok(());
        }
        let values = pod_cgroup_values(pod, &self.settings);
        debug!(cgroup = %name, ?values, "making the cgroup of a pod");
        if let Err(source) = self.port.create(&name, &values).await {
            self.known().remove(&uid);
            return Err(PodCgroupError::Make { name, source });
        }
        Ok(())
    }

    /// Writes to the classes what their pods ask for together. They go on without.
    async fn limit_classes(&self) {
        let mut written = self.written.lock().await;
        let milli = self.known().values().sum();
        if *written == Some(milli) {
            return;
        }
        let name = class_cgroup(&self.settings.root, QosClass::Burstable);
        let values = class_values(QosClass::Burstable, milli, &self.settings);
        match self.port.update(&name, &values).await {
            Ok(()) => *written = Some(milli),
            Err(error) => {
                warn!(cgroup = %name, error = %Chain(&error), "cannot give the pods of a class their share");
            }
        }
    }

    /// Removes the cgroup of a pod that has ended.
    pub(crate) async fn release(&self, pod: &Pod) -> Result<(), PodCgroupError> {
        let name = pod_cgroup(&self.settings.root, pod).map_err(PodCgroupError::Name)?;
        let (uid, pod) = (view::uid(pod), view::pod_name(pod));
        let _turn = self.turns.take(&uid).await;
        self.remove(&name, &uid, Some(pod), "pod-has-ended").await?;
        self.forget(&uid).await;
        Ok(())
    }

    async fn forget(&self, uid: &PodUid) {
        if self.known().remove(uid).is_some() {
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

    /// Removes what is left of the cgroups of pods that are gone.
    pub async fn sweep(&self, is_gone: &(dyn Fn(&PodUid) -> bool + Sync)) {
        for name in self.of_pods().await {
            if let Some(uid) = pod_of_cgroup(&name) {
                self.remove_left(&name, &uid, is_gone).await;
            }
        }
    }

    /// Removes what is left of the cgroup of a pod that is gone, whichever class it was of.
    pub async fn sweep_one(&self, uid: &PodUid, is_gone: &(dyn Fn(&PodUid) -> bool + Sync)) {
        for name in cgroups_of_pod(&self.settings.root, uid) {
            self.remove_left(&name, uid, is_gone).await;
        }
    }

    async fn remove_left(
        &self,
        name: &CgroupName,
        uid: &PodUid,
        is_gone: &(dyn Fn(&PodUid) -> bool + Sync),
    ) {
        let _turn = self.turns.take(uid).await;
        // Asked while it is our turn: a pod that comes back waits for its cgroup.
        if !is_gone(uid) {
            return;
        }
        match self.remove(name, uid, None, "pod-is-gone").await {
            Ok(()) => self.forget(uid).await,
            Err(error) => {
                warn!(%uid, error = %Chain(&error), "cannot remove the cgroup of a pod that is gone; trying again later");
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

//! Why container instances were killed, from the kill until the pod has ended.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::ids::{ContainerId, PodUid};
use model::observed::RuntimePodStatus;

use crate::decide::ContainerKill;

/// Why an instance was killed.
#[derive(Debug)]
struct KilledInstance {
    /// The rule of the kill in the journal.
    rule: &'static str,
    /// The message for its status if it wrote none itself.
    message: Option<String>,
}

/// The killed instances of all pods.
#[derive(Debug, Default)]
pub(crate) struct KilledInstances {
    /// Never held across an await.
    pods: Mutex<BTreeMap<PodUid, BTreeMap<ContainerId, KilledInstance>>>,
}

impl KilledInstances {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, BTreeMap<ContainerId, KilledInstance>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an instance that is about to be killed, and drops instances that were removed.
    pub(crate) fn add(&self, status: &RuntimePodStatus, kill: &ContainerKill) {
        let mut pods = self.lock();
        let killed = pods.entry(status.uid.clone()).or_default();
        killed.retain(|id, _| status.instances().any(|instance| instance.id == id));
        let instance = KilledInstance { rule: kill.why.rule(), message: kill.end_message() };
        killed.insert(kill.id.clone(), instance);
    }

    /// The messages for the status of a pod.
    pub(crate) fn messages(&self, uid: &PodUid) -> BTreeMap<ContainerId, String> {
        let pods = self.lock();
        let killed = pods.get(uid).into_iter().flatten();
        killed.filter_map(|(id, killed)| Some((id.clone(), killed.message.clone()?))).collect()
    }

    /// The rule by which an instance was killed.
    pub(crate) fn rule(&self, uid: &PodUid, id: &ContainerId) -> Option<&'static str> {
        Some(self.lock().get(uid)?.get(id)?.rule)
    }

    /// Removes the instances of a pod that has ended.
    pub(crate) fn forget(&self, uid: &PodUid) {
        self.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState;
    use testkit::observed::container_status;

    use super::*;
    use crate::decide::KillReason;

    fn kill(id: &str, why: KillReason) -> ContainerKill {
        ContainerKill { id: id.into(), name: "web".to_owned(), why, restarts: true, probe: None }
    }

    #[test]
    fn killed_instances_are_kept_until_they_are_removed() {
        let (killed, uid) = (KilledInstances::default(), PodUid::from("u1"));
        let mut status = RuntimePodStatus::empty(uid.clone());
        let instance = |id| container_status(id, "web", ContainerState::Running);
        status.containers = vec![instance("c1"), instance("c2")];
        killed.add(&status, &kill("c1", KillReason::Changed));
        killed.add(&status, &kill("c2", KillReason::UnknownState));
        assert_eq!(killed.rule(&uid, &"c2".into()), Some("unknown-state"));
        assert_eq!(killed.messages(&uid).into_keys().collect::<Vec<_>>(), ["c1".into()]);
        status.containers = vec![instance("c3")];
        killed.add(&status, &kill("c3", KillReason::Resized));
        assert_eq!(killed.rule(&uid, &"c1".into()), None);
        assert_eq!(killed.messages(&uid)[&ContainerId::from("c3")], "resize requires restart");
        killed.forget(&uid);
        assert!(killed.messages(&uid).is_empty() && killed.lock().is_empty());
    }
}

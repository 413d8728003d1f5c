//! The steps that remove all pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodName, PodUid, SandboxId};
use model::labels;
use model::observed::{Container, ContainerState, RuntimePod};

/// The rule of all removals.
pub const RULE: &str = "node-clean";

/// The grace period of a container whose pod specifies none.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// A container to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Its id.
    pub id: ContainerId,
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Its grace period.
    pub grace: Duration,
}

/// The steps for one pod, in this order: containers are stopped in parallel, then the
/// sandboxes; containers are removed with their links, then the logs. Sandboxes are removed last, so that an
/// interrupted run finds the pod again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRemoval {
    /// The pod.
    pub pod: PodName,
    /// Its uid.
    pub uid: PodUid,
    /// Containers to stop.
    pub stop: Vec<Stop>,
    /// Containers to remove, with their names in the pod.
    pub containers: Vec<(ContainerId, Arc<str>)>,
    /// Sandboxes to stop and remove.
    pub sandboxes: Vec<SandboxId>,
}

/// Whether a container must be stopped before its removal.
pub fn may_run(container: &Container) -> bool {
    matches!(container.state, ContainerState::Running | ContainerState::Unknown)
}

/// The grace period of a container, from the annotations of its creation.
pub fn grace(annotations: &BTreeMap<String, String>) -> Duration {
    let noted = [labels::POD_DELETION_GRACE, labels::POD_TERMINATION_GRACE];
    let noted = noted.iter().find_map(|name| annotations.get(*name)?.parse().ok());
    noted.map_or(DEFAULT_GRACE, Duration::from_secs)
}

/// The removal of every pod, ordered by name. Grace periods are known for containers with
/// a status.
pub fn plan(
    pods: &BTreeMap<PodUid, RuntimePod>,
    graces: &BTreeMap<ContainerId, Duration>,
) -> Vec<PodRemoval> {
    let stop = |container: &Container| Stop {
        id: container.id.clone(),
        name: Arc::clone(&container.name),
        grace: graces.get(&container.id).copied().unwrap_or(DEFAULT_GRACE),
    };
    let mut removals: Vec<PodRemoval> = pods
        .values()
        .map(|pod| PodRemoval {
            pod: pod.pod.clone(),
            uid: pod.uid.clone(),
            stop: pod.containers.iter().filter(|container| may_run(container)).map(stop).collect(),
            containers: pod
                .containers
                .iter()
                .map(|container| (container.id.clone(), Arc::clone(&container.name)))
                .collect(),
            sandboxes: pod.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect(),
        })
        .collect();
    removals.sort_by(|one, other| (&one.pod, &one.uid).cmp(&(&other.pod, &other.uid)));
    removals
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::observed::pods_by_uid;

    use super::*;

    fn container(id: &str, pod: &str, state: ContainerState) -> Container {
        Container {
            id: id.into(),
            sandbox_id: "s".into(),
            pod_uid: pod.into(),
            pod: PodName::new("default", pod),
            name: "main".into(),
            attempt: 0,
            state,
            created_at: Timestamp::UNIX_EPOCH,
            image_ref: "image".into(),
        }
    }

    #[test]
    fn running_items_are_stopped_and_all_are_removed() {
        let containers = vec![
            container("r", "web", ContainerState::Running),
            container("u", "web", ContainerState::Unknown),
            container("e", "web", ContainerState::Exited),
            container("c", "job", ContainerState::Created),
        ];
        let graces = BTreeMap::from([(ContainerId::from("r"), Duration::from_secs(5))]);
        let plan = plan(&pods_by_uid(vec![], containers), &graces);
        let pods: Vec<_> = plan.iter().map(|removal| &*removal.pod.name).collect();
        assert_eq!(pods, ["job", "web"]);
        assert!(plan[0].stop.is_empty());
        let stops: Vec<_> =
            plan[1].stop.iter().map(|stop| (stop.id.as_str(), stop.grace.as_secs())).collect();
        assert_eq!(stops, [("r", 5), ("u", 30)]);
        assert_eq!(plan[1].containers.len(), 3);
    }

    #[test]
    fn empty_node_needs_no_steps() {
        assert_eq!(plan(&BTreeMap::new(), &BTreeMap::new()), []);
    }

    #[test]
    fn grace_period_is_from_the_deletion_else_from_the_pod() {
        let note = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let rows = [
            (vec![], 30),
            (vec![note(labels::POD_TERMINATION_GRACE, "7")], 7),
            (
                vec![
                    note(labels::POD_TERMINATION_GRACE, "7"),
                    note(labels::POD_DELETION_GRACE, "0"),
                ],
                0,
            ),
            (vec![note(labels::POD_TERMINATION_GRACE, "soon")], 30),
        ];
        for (notes, expected) in rows {
            assert_eq!(grace(&notes.into_iter().collect()).as_secs(), expected);
        }
    }
}

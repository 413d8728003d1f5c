//! Finds stored copies of manifests that are older than the running pod. A copy is read when its manifest
//! cannot be used; it is older if the write of a later version failed. It must not end the pod of that
//! version.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::labels;
use model::observed::{ContainerStatus, RuntimePodStatus, SandboxState};
use podspec::view;

/// The pod of a stored copy.
#[derive(Debug, Clone, Copy)]
pub struct StoredCopy<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// When the copy was written.
    pub written: Timestamp,
}

/// A pod of which something may live in the runtime.
#[derive(Debug, Clone, Copy)]
pub struct LivePod<'a> {
    /// Its UID.
    pub uid: &'a PodUid,
    /// Its name.
    pub name: &'a PodName,
    /// Its status, if it could be read.
    pub status: Option<&'a RuntimePodStatus>,
}

/// Copies that are older than the running pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutdatedCopies {
    /// The pods of the copies: they are not started.
    pub held: BTreeSet<PodUid>,
    /// The pods that run instead: they are not stopped.
    pub kept_running: BTreeSet<PodUid>,
}

/// Compares all copies with all pods that live.
pub fn outdated_copies(copies: &[StoredCopy<'_>], live: &[LivePod<'_>]) -> OutdatedCopies {
    let mut outdated = OutdatedCopies::default();
    for copy in copies {
        let name = view::pod_name(copy.pod);
        for pod in live.iter().filter(|pod| *pod.name == name && is_newer(pod, copy)) {
            outdated.held.insert(view::uid(copy.pod));
            outdated.kept_running.insert(pod.uid.clone());
        }
    }
    outdated
}

/// Whether a pod of the copy's name may run a later version; true while its status is unknown.
fn is_newer(live: &LivePod<'_>, copy: &StoredCopy<'_>) -> bool {
    let is_read =
        |status: &&RuntimePodStatus| !status.sandboxes.is_empty() || !status.containers.is_empty();
    let status = live.status.filter(is_read);
    if *live.uid == view::uid(copy.pod) {
        // A pod with a fixed uid: the versions differ in their containers.
        return status.is_none_or(|status| {
            let mut running = status.running();
            running.any(|one| one.created_at > copy.written && is_of_another_version(one, copy.pod))
        });
    }
    // A pod of the API may have the same name, and terminate although the copy is old.
    podspec::is_content_uid(live.uid.as_str())
        && status.is_none_or(|status| {
            let is_later = status.sandboxes.iter().any(|sandbox| {
                sandbox.state == SandboxState::Ready && sandbox.created_at > copy.written
            });
            is_later && status.running().next().is_some()
        })
}

fn is_of_another_version(running: &ContainerStatus, pod: &Pod) -> bool {
    let mut defined = view::init_containers(pod).iter().chain(view::containers(pod));
    let Some(container) = defined.find(|container| *container.name == *running.name) else {
        return true;
    };
    let image = container.image.as_deref().unwrap_or_default();
    let hash = podspec::definition_hash_hex(&container.name, image);
    running.annotations.get(labels::CONTAINER_HASH).is_some_and(|made_with| *made_with != hash)
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{self, Exited, Running};
    use model::observed::SandboxState::{NotReady, Ready};
    use testkit::observed::pod_status;
    use testkit::pods::pod;

    use super::*;

    const OLD: &str = "00000000000000000000000000000001";
    const NEW: &str = "00000000000000000000000000000002";
    const OF_API: &str = "0c6e5f5e-0000-4000-8000-000000000001";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A status with everything created in one second.
    fn made(second: i64, sandbox: SandboxState, container: ContainerState) -> RuntimePodStatus {
        let mut status = pod_status(&[sandbox], &[container]);
        status.sandboxes[0].created_at = at(second);
        status.containers[0].created_at = at(second);
        status
    }

    fn copy(uid: &str) -> Pod {
        let mut pod = pod("web").container("main", "image:1", ["sleep"]).build();
        pod.metadata.uid = Some(uid.to_owned());
        pod
    }

    // behaviour: SRC-68
    #[test]
    fn copy_is_outdated_by_a_later_pod_of_its_name_whose_containers_run() {
        let later = || Some(made(20, Ready, Running));
        // uid and name of the pod that lives, its status, whether the copy of second 10 is outdated
        let rows = [
            ("later", NEW, "web", later(), true),
            ("another name", NEW, "other", later(), false),
            ("of the API", OF_API, "web", later(), false),
            ("earlier", NEW, "web", Some(made(5, Ready, Running)), false),
            ("its containers ended", NEW, "web", Some(made(20, Ready, Exited)), false),
            ("its sandbox ended", NEW, "web", Some(made(20, NotReady, Running)), false),
            ("its status is unknown", NEW, "web", None, true),
            ("not observed", NEW, "web", Some(RuntimePodStatus::empty(NEW.into())), true),
        ];
        let pod = copy(OLD);
        let copies = [StoredCopy { pod: &pod, written: at(10) }];
        for (row, uid, name, status, expected) in rows {
            let (uid, name) = (PodUid::from(uid), PodName::new("default", name));
            let live = [LivePod { uid: &uid, name: &name, status: status.as_ref() }];
            let outdated = outdated_copies(&copies, &live);
            let held: Vec<_> = outdated.held.into_iter().collect();
            let kept_running: Vec<_> = outdated.kept_running.into_iter().collect();
            let expected = if expected { (vec![OLD.into()], vec![uid]) } else { (vec![], vec![]) };
            assert_eq!((held, kept_running), expected, "{row}");
        }
    }

    // behaviour: SRC-68
    #[test]
    fn copy_with_a_fixed_uid_is_outdated_by_later_containers_of_another_version() {
        let pod = copy(OF_API);
        let main = &view::containers(&pod)[0];
        let image = main.image.clone().unwrap();
        let same = podspec::definition_hash_hex(&main.name, &image);
        let other = podspec::definition_hash_hex(&main.name, "another:1");
        let rows = [
            ("as the copy has it", 20, Running, Some(&same), false),
            ("another image", 20, Running, Some(&other), true),
            ("created before the copy", 5, Running, Some(&other), false),
            ("ended", 20, Exited, Some(&other), false),
            ("created by another agent", 20, Running, None, false),
        ];
        let (uid, name) = (PodUid::from(OF_API), view::pod_name(&pod));
        let copies = [StoredCopy { pod: &pod, written: at(10) }];
        for (row, second, state, hash, expected) in rows {
            let mut status = made(second, Ready, state);
            status.containers[0].name = main.name.as_str().into();
            let hash = hash.map(|hash| (labels::CONTAINER_HASH.to_owned(), hash.clone()));
            status.containers[0].annotations.extend(hash);
            let live = [LivePod { uid: &uid, name: &name, status: Some(&status) }];
            let outdated = outdated_copies(&copies, &live);
            assert_eq!(outdated.kept_running.contains(&uid), expected, "{row}");
            assert_eq!(outdated.held, outdated.kept_running, "{row}");
        }
    }
}

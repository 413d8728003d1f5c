//! The pod and the container of a cgroup, by its path. Both versions of cgroups and both drivers have the same names.

use model::ids::{ContainerId, PodUid};
use model::oom::OomScope;

/// A cgroup of a pod, or below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    /// The UID of the pod.
    pub uid: PodUid,
    /// The ID of the container or sandbox; none for the cgroup of the pod itself.
    pub container: Option<ContainerId>,
}

/// The pod of a cgroup, such as `/kubepods/burstable/podUID/ID` or
/// `/kubepods.slice/kubepods-podUID.slice/cri-containerd-ID.scope`. In a cgroup namespace more may be before it; a
/// container may have cgroups below its own.
pub fn pod_cgroup(path: &str) -> Option<PodCgroup> {
    let mut names = path.split('/').skip_while(|name| !is_kubepods(name)).skip(1);
    let uid = names.find_map(pod_uid)?;
    let container = names.next().map(container_id).filter(|id| !id.is_empty());
    Some(PodCgroup { uid, container: container.map(ContainerId::from) })
}

/// Whether this is the name of the cgroup of all pods, which may have a prefix. Others have names such as
/// `podman.service`.
fn is_kubepods(name: &str) -> bool {
    name.starts_with("kubepods") || name.contains("-kubepods")
}

/// The UID in the name of a pod's cgroup: `podUID`, or `kubepods-burstable-podUID.slice` with underscores.
fn pod_uid(name: &str) -> Option<PodUid> {
    let uid = match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        None => name.strip_prefix("pod")?.to_owned(),
    };
    (!uid.is_empty()).then(|| uid.into())
}

/// The ID in the name of a container's cgroup: `ID`, or `cri-containerd-ID.scope`.
fn container_id(name: &str) -> &str {
    match name.strip_suffix(".scope") {
        Some(scope) => scope.rsplit_once('-').map_or(scope, |(_, id)| id),
        None => name,
    }
}

/// Whose limit was reached when a process of this cgroup was killed.
pub fn oom_scope(limited: Option<&str>, victim: Option<&PodCgroup>) -> OomScope {
    let Some(limited) = limited else { return OomScope::Node };
    match (pod_cgroup(limited), victim) {
        // Without a path, its own limit is the most likely one.
        (_, Some(victim)) if limited.is_empty() && victim.container.is_some() => {
            OomScope::Container
        }
        (Some(of), Some(victim)) if of.uid == victim.uid => match of.container {
            Some(_) => OomScope::Container,
            None => OomScope::Pod,
        },
        _ => OomScope::Cgroup(limited.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "8b1c0d2e-1111-2222-3333-444455556666";
    const ID: &str = "0123456789abcdef";

    // behaviour: OOM-4
    #[test]
    fn pod_and_container_are_found_by_the_path() {
        let slice_uid = UID.replace('-', "_");
        let slices = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice_uid}.slice"
        );
        let rows = [
            (format!("/kubepods/pod{UID}/{ID}"), Some(ID)),
            (format!("/kubepods/burstable/pod{UID}/{ID}"), Some(ID)),
            (format!("/kubepods/besteffort/pod{UID}"), None),
            (format!("/outer/kubepods/pod{UID}/{ID}/init.scope"), Some(ID)),
            (format!("{slices}/cri-containerd-{ID}.scope"), Some(ID)),
            (format!("{slices}/crio-{ID}.scope"), Some(ID)),
            (format!("{slices}/{ID}.scope/app.slice/a.service"), Some(ID)),
            (slices.clone(), None),
            (
                format!("/a.slice/a-kubepods.slice/a-kubepods-pod{slice_uid}.slice/x-{ID}.scope"),
                Some(ID),
            ),
        ];
        for (path, container) in rows {
            let expected = PodCgroup { uid: UID.into(), container: container.map(Into::into) };
            assert_eq!(pod_cgroup(&path), Some(expected), "{path}");
        }
        let others = [
            "/",
            "",
            "/kubepods",
            "/kubepods.slice",
            "/kubepods/pod",
            "/system.slice/db.service",
            "/system.slice/podman.service",
            "/system.slice/system-podman.slice/a.service",
            "/podman/a",
            "/a/podu/kubepods",
        ];
        for path in others {
            assert_eq!(pod_cgroup(path), None, "{path}");
        }
    }

    #[test]
    fn static_pod_has_the_hash_as_its_uid() {
        let hash = "0123456789abcdef0123456789abcdef";
        let paths =
            [format!("/kubepods/pod{hash}"), format!("/kubepods.slice/kubepods-pod{hash}.slice")];
        for path in paths {
            assert_eq!(pod_cgroup(&path).unwrap().uid, hash.into());
        }
    }

    // behaviour: OOM-3
    #[test]
    fn scope_is_the_cgroup_whose_limit_was_reached() {
        let own = format!("/kubepods/pod{UID}/{ID}");
        let victim = pod_cgroup(&own);
        let pod = format!("/kubepods/pod{UID}");
        let rows = [
            (None, OomScope::Node),
            (Some(own.as_str()), OomScope::Container),
            (Some(pod.as_str()), OomScope::Pod),
            (Some("/kubepods"), OomScope::Cgroup("/kubepods".to_owned())),
            (Some("/kubepods/podother"), OomScope::Cgroup("/kubepods/podother".to_owned())),
            (Some(""), OomScope::Container),
        ];
        for (limited, expected) in rows {
            assert_eq!(oom_scope(limited, victim.as_ref()), expected, "{limited:?}");
        }
        let service = Some("/system.slice/db.service");
        let expected = OomScope::Cgroup("/system.slice/db.service".to_owned());
        assert_eq!(oom_scope(service, None), expected);
    }
}

//! Tables of security contexts of containers and sandboxes.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::ports::runtime::ImageUser;
use model::wanted::{Capabilities, ContainerSecurity, GroupsPolicy, SecurityProfile};

use super::ConfigError;
use super::add_volume_groups;
use super::security::{Confinement, container_security, described, sandbox_security};

/// A pod of one container, from the security parts of a manifest.
fn pod(context: &str, own: &str) -> Pod {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop, uid: u-1}}\n\
         spec:\n  securityContext: {{{context}}}\n  containers:\n  - name: main\n    \
         securityContext: {{{own}}}\n"
    );
    podspec::decode(manifest.as_bytes()).unwrap().pods.remove(0)
}

fn main(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}

fn confinement() -> Confinement<'static> {
    Confinement {
        seccomp_default: false,
        seccomp_profiles: Path::new("/var/lib/kubelet/seccomp"),
        masked_paths: &[],
    }
}

fn secured(context: &str, own: &str) -> ContainerSecurity {
    let pod = pod(context, own);
    container_security(&pod, main(&pod), None, &confinement()).unwrap()
}

// behaviour: CON-50
#[test]
fn container_security_context_overrides_the_pod() {
    let both = secured(
        "runAsUser: 1, runAsGroup: 2, seLinuxOptions: {level: s0}",
        "runAsUser: 11, runAsGroup: 12, seLinuxOptions: {type: t}",
    );
    assert_eq!((both.run_as_user, both.run_as_group), (Some(11), Some(12)));
    let selinux = both.selinux.unwrap();
    assert_eq!((selinux.kind.as_str(), selinux.level.as_str()), ("t", ""));
    let of_pod = secured("runAsUser: 1, runAsGroup: 2", "");
    assert_eq!((of_pod.run_as_user, of_pod.run_as_group), (Some(1), Some(2)));
}

// behaviour: CON-51
#[test]
fn pod_groups_apply_to_every_container() {
    let groups = "fsGroup: 7, supplementalGroups: [8, 9], supplementalGroupsPolicy: Strict";
    let security = secured(groups, "");
    assert_eq!(security.supplemental_groups, [7, 8, 9]);
    assert_eq!(security.groups_policy, GroupsPolicy::Strict);
    let sandbox = sandbox_security(&pod(groups, "privileged: true")).unwrap();
    assert_eq!((sandbox.supplemental_groups, sandbox.privileged), (vec![7, 8, 9], true));
    assert!(!sandbox_security(&pod(groups, "")).unwrap().privileged);
}

// behaviour: CON-52
#[test]
fn capabilities_privileged_and_read_only_root_are_passed_on() {
    let own = "capabilities: {add: [NET_ADMIN], drop: [ALL]}, privileged: true, \
               readOnlyRootFilesystem: true, allowPrivilegeEscalation: false";
    let security = secured("", own);
    let changes = Capabilities { add: vec!["NET_ADMIN".into()], drop: vec!["ALL".into()] };
    assert_eq!(security.capabilities, Some(changes));
    assert!(security.privileged && security.read_only_root && security.no_new_privileges);
    let security = secured("", "");
    assert_eq!(security.capabilities, None);
    assert!(!security.privileged && !security.read_only_root && !security.no_new_privileges);
}

// behaviour: CON-53
#[test]
fn proc_is_masked_unless_unmasked() {
    let more = ["/sys/devices/system/cpu/cpu0/thermal_throttle".to_owned()];
    let confinement = Confinement { masked_paths: &more, ..confinement() };
    let security = |own: &str| {
        let pod = pod("", own);
        container_security(&pod, main(&pod), None, &confinement).unwrap()
    };
    let plain = security("");
    assert_eq!((plain.masked_paths.len(), plain.readonly_paths.len()), (13, 5));
    assert_eq!(plain.masked_paths[0], "/proc/asound");
    assert_eq!(plain.masked_paths.last(), more.last());
    let open = security("procMount: Unmasked");
    assert_eq!((open.masked_paths.len(), open.readonly_paths.len()), (0, 0));
    assert_eq!(security("procMount: Default"), plain);
}

// behaviour: CON-54
#[test]
fn image_user_is_the_default() {
    let rows = [
        (None, Some(0), ""),
        (Some(ImageUser::Uid(33)), Some(33), ""),
        (Some(ImageUser::Name("www".into())), None, "www"),
    ];
    for (user, uid, name) in rows {
        let pod = pod("", "");
        let security = container_security(&pod, main(&pod), user.as_ref(), &confinement()).unwrap();
        assert_eq!(
            (security.run_as_user, security.run_as_username.as_str()),
            (uid, name),
            "{user:?}"
        );
    }
}

// behaviour: CON-55
#[test]
fn run_as_non_root_is_enforced_with_the_texts_of_upstream() {
    let of = "(pod: \"web_shop(u-1)\", container: main)";
    let uid = ImageUser::Uid;
    let rows = [
        ("", "", Some(uid(0)), String::new()),
        ("runAsNonRoot: true", "runAsNonRoot: false", Some(uid(0)), String::new()),
        ("runAsNonRoot: true", "", Some(uid(5)), String::new()),
        ("runAsNonRoot: true, runAsUser: 5", "", Some(uid(0)), String::new()),
        (
            "runAsNonRoot: true",
            "runAsUser: 0",
            Some(uid(5)),
            format!("container's runAsUser breaks non-root policy {of}"),
        ),
        (
            "",
            "runAsNonRoot: true",
            None,
            format!("container has runAsNonRoot and image will run as root {of}"),
        ),
        (
            "",
            "runAsNonRoot: true",
            Some(ImageUser::Name("www".into())),
            format!(
                "container has runAsNonRoot and image has non-numeric user (www), \
                 cannot verify user is non-root {of}"
            ),
        ),
        (
            "",
            "runAsNonRoot: true",
            Some(uid(1 << 31)),
            format!(
                "container has runAsNonRoot and image has an invalid user id (2147483648). \
                 (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive {of}"
            ),
        ),
    ];
    for (context, own, user, expected) in rows {
        let pod = pod(context, own);
        let security = container_security(&pod, main(&pod), user.as_ref(), &confinement());
        let said = security.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(said, expected, "{context} {own}");
    }
}

// behaviour: CON-56, CON-57
#[test]
fn seccomp_profile_is_from_container_then_pod_then_node() {
    use SecurityProfile::{Localhost, RuntimeDefault, Unconfined};
    let local = "seccompProfile: {type: Localhost, localhostProfile: a/b.json}";
    let outside = "seccompProfile: {type: Localhost, localhostProfile: ../../x//y.json}";
    let default = "seccompProfile: {type: RuntimeDefault}";
    let rows = [
        ("", "", false, Unconfined),
        ("", "", true, RuntimeDefault),
        ("seccompProfile: {type: Unconfined}", "", true, Unconfined),
        (default, "", false, RuntimeDefault),
        (default, local, false, Localhost("/var/lib/kubelet/seccomp/a/b.json".into())),
        (local, default, false, RuntimeDefault),
        (outside, "", false, Localhost("/var/lib/kubelet/seccomp/x/y.json".into())),
    ];
    for (context, own, by_default, expected) in rows {
        let pod = pod(context, own);
        let confinement = Confinement { seccomp_default: by_default, ..confinement() };
        let security = container_security(&pod, main(&pod), None, &confinement).unwrap();
        assert_eq!(security.seccomp, Some(expected), "{context} {own}");
    }
    let nameless = pod("", "seccompProfile: {type: Localhost}");
    let security = container_security(&nameless, main(&nameless), None, &confinement());
    assert_eq!(security, Err(ConfigError::SeccompProfile));
}

// behaviour: CON-58
#[test]
fn apparmor_profile_is_from_container_then_annotation_then_pod() {
    use SecurityProfile::{Localhost, RuntimeDefault, Unconfined};
    let own = "appArmorProfile: {type: Localhost, localhostProfile: own}";
    let of_pod = "appArmorProfile: {type: RuntimeDefault}";
    let rows = [
        ("", "", None, None),
        (of_pod, "", None, Some(RuntimeDefault)),
        (of_pod, "", Some("unconfined"), Some(Unconfined)),
        (of_pod, "", Some("localhost/noted"), Some(Localhost("noted".into()))),
        (of_pod, "", Some("nonsense"), Some(RuntimeDefault)),
        (of_pod, own, Some("unconfined"), Some(Localhost("own".into()))),
    ];
    for (context, own, annotation, expected) in rows {
        let mut pod = pod(context, own);
        let name = "container.apparmor.security.beta.kubernetes.io/main".to_owned();
        pod.metadata.annotations = annotation.map(|value| [(name, value.to_owned())].into());
        let security = container_security(&pod, main(&pod), None, &confinement()).unwrap();
        assert_eq!(security.apparmor, expected, "{context} {own} {annotation:?}");
    }
}

#[test]
fn pod_description_has_all_its_names() {
    assert_eq!(described(&pod("", "")), "web_shop(u-1)");
}

// behaviour: VOL-98
#[test]
fn volume_groups_are_added_once() {
    let mut groups = vec![5, 7];
    add_volume_groups(&mut groups, &[7, 1234].into());
    assert_eq!(groups, [5, 7, 1234]);
}

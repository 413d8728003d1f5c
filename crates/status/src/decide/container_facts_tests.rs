//! Fields of a container's status other than its states.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, VolumeMount, VolumeMountStatus};
use model::observed::ContainerState::{Exited, Running, Unknown};
use model::observed::{self, LinuxUser};
use serde_json::json;

use crate::decide::test_pods::{
    Harness, container, instance, pod, sidecar, status, with_ephemeral, with_init,
};

fn run_by(id: &str, user: Option<observed::ContainerUser>) -> observed::ContainerStatus {
    observed::ContainerStatus { user: user.map(Arc::new), ..instance(id, Running, 0) }
}

fn linux(uid: i64, gid: i64, groups: &[i64]) -> observed::ContainerUser {
    let supplemental_groups = groups.to_vec();
    observed::ContainerUser { linux: Some(LinuxUser { uid, gid, supplemental_groups }) }
}

// behaviour: STW-40
#[test]
fn container_user_is_reported_by_the_runtime() {
    let rows = [
        (None, json!(null)),
        (Some(observed::ContainerUser::default()), json!({})),
        (Some(linux(0, 0, &[])), json!({"linux": {"uid": 0, "gid": 0}})),
        (
            Some(linux(1000, 2000, &[2000, 3000])),
            json!({"linux": {"uid": 1000, "gid": 2000, "supplementalGroups": [2000, 3000]}}),
        ),
    ];
    for (user, expected) in rows {
        let harness = Harness::new(pod("Always", &["main"]), vec![run_by("main-0", user)]);
        assert_eq!(serde_json::to_value(harness.first().user).unwrap(), expected);
    }
}

// behaviour: STW-40
#[test]
fn user_is_published_for_all_container_types_and_terminated_ones() {
    let inits = vec![container("done"), sidecar("beside")];
    let pod = with_ephemeral(with_init(pod("Always", &["main"]), inits), &["look"]);
    let ended = observed::ContainerStatus {
        user: Some(Arc::new(linux(1, 1, &[]))),
        ..instance("done-0", Exited, 0)
    };
    let instances = vec![
        ended,
        run_by("beside-0", Some(linux(2, 2, &[]))),
        run_by("main-0", Some(linux(3, 3, &[]))),
        run_by("look-0", Some(linux(4, 4, &[]))),
    ];
    let status = Harness::new(pod, instances).status();
    let all = [
        status.init_container_statuses,
        status.container_statuses,
        status.ephemeral_container_statuses,
    ];
    let uid = |one: ContainerStatus| one.user.and_then(|user| user.linux).map(|linux| linux.uid);
    let uids: Vec<_> = all.into_iter().flatten().flatten().map(uid).collect();
    assert_eq!(uids, [Some(1), Some(2), Some(3), Some(4)]);
    let waits = Harness::new(crate::decide::test_pods::pod("Always", &["main"]), vec![]);
    assert_eq!(waits.first().user, None);
}

// behaviour: STW-41
#[test]
fn stop_signal_is_published_when_its_gate_is_on() {
    let published = |signal: Option<&str>, gate: bool| {
        let made = observed::ContainerStatus {
            stop_signal: signal.map(Into::into),
            ..instance("main-0", Running, 0)
        };
        let mut harness = Harness::new(pod("Always", &["main"]), vec![made]);
        harness.node.stop_signals = gate;
        harness.first().stop_signal
    };
    assert_eq!(published(Some("SIGUSR1"), true).as_deref(), Some("SIGUSR1"));
    assert_eq!(published(None, true), None);
    assert_eq!(published(Some("SIGUSR1"), false), None);
}

// behaviour: STW-42
#[test]
fn mounts_are_published_before_creation_and_kept() {
    let mut specified = pod("Always", &["main"]);
    let mount = VolumeMount {
        name: "data".to_owned(),
        mount_path: "/data".to_owned(),
        read_only: Some(true),
        recursive_read_only: Some("IfPossible".to_owned()),
        ..VolumeMount::default()
    };
    specified.spec.as_mut().unwrap().containers[0].volume_mounts = Some(vec![mount]);
    let mounts = |mode: &str| {
        Some(vec![VolumeMountStatus {
            name: "data".to_owned(),
            mount_path: "/data".to_owned(),
            read_only: Some(true),
            recursive_read_only: Some(mode.to_owned()),
            volume_status: None,
        }])
    };
    let mut harness = Harness::new(specified, vec![]);
    assert_eq!(harness.first().volume_mounts, mounts("Disabled"));
    harness.recursive_read_only = true;
    let waits = harness.status();
    assert_eq!(harness.first().volume_mounts, mounts("Enabled"));
    // The runtime's support at the time of the mount counts, not the current one.
    harness.recursive_read_only = false;
    harness.previous = Some(waits);
    for state in [Running, Exited, Unknown] {
        harness.observed.containers = vec![instance("main-0", state, 1)];
        assert_eq!(harness.first().volume_mounts, mounts("Enabled"), "{state:?}");
    }
    // An earlier agent did not publish it.
    harness.previous = None;
    let old = status("main", crate::decide::test_pods::running(21));
    let harness = harness.with_old(vec![old]);
    assert_eq!(harness.first().volume_mounts, mounts("Disabled"));
}

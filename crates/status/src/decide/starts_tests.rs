use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, EmptyDirVolumeSource,
    PersistentVolumeClaimVolumeSource, PodCondition,
};

use super::*;
use crate::decide::test_pods::{at, own_by_node, pod, time};

/// Created in the tenth second.
fn made() -> Pod {
    let mut pod = pod("Always", &["main"]);
    pod.metadata.creation_timestamp = Some(time(10));
    pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
    pod
}

fn status(pod: &mut Pod) -> &mut PodStatus {
    pod.status.get_or_insert_default()
}

fn runs(mut pod: Pod) -> Pod {
    let running = ContainerStateRunning { started_at: Some(time(20)) };
    let state = ContainerState { running: Some(running), ..ContainerState::default() };
    let main = ContainerStatus { state: Some(state), ..ContainerStatus::default() };
    let status = status(&mut pod);
    status.phase = Some("Running".to_owned());
    status.start_time = Some(time(11));
    status.container_statuses = Some(vec![main]);
    pod
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The measured start of a pod, from its copies at creation and when it runs.
fn counted(first: &Pod, then: &Pod) -> Option<StartDuration> {
    let mut starts = StartTracker::default();
    assert_eq!(starts.observe(first, at(12)), None);
    let started = starts.observe(then, at(30));
    if started.is_some() {
        assert_eq!((starts.observe(then, at(40)), starts.count()), (None, 0), "once");
    }
    started
}

// behaviour: STW-38
#[test]
fn pod_has_started_when_all_containers_are_seen_running() {
    let all = StartDuration { total: seconds(20), own: Some(seconds(20)), has_network: true };
    assert_eq!(counted(&made(), &runs(made())), Some(all));
    assert_eq!(counted(&made(), &made()), None, "not running");
    assert_eq!(counted(&runs(made()), &runs(made())), None, "already running");
    let mut waits = runs(made());
    let more = ContainerStatus::default();
    status(&mut waits).container_statuses.as_mut().unwrap().push(more);
    assert_eq!(counted(&made(), &waits), None, "not all containers run");
    let mut over = runs(made());
    status(&mut over).phase = Some("Failed".to_owned());
    assert_eq!(counted(&made(), &over), None);
    let mirror = |mut pod: Pod| {
        let mark = ("kubernetes.io/config.mirror".to_owned(), "u1".to_owned());
        pod.metadata.annotations = Some([mark].into());
        own_by_node(&mut pod);
        pod
    };
    assert_eq!(counted(&mirror(made()), &mirror(runs(made()))), None);
}

// behaviour: STW-38
#[test]
fn unschedulable_pod_is_not_measured() {
    let unplaced = |mut pod: Pod| {
        let condition = PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            ..PodCondition::default()
        };
        status(&mut pod).conditions = Some(vec![condition]);
        pod
    };
    assert_eq!(counted(&unplaced(made()), &runs(made())), None);
    let mut starts = StartTracker::default();
    for pod in [made(), unplaced(made()), made(), runs(made())] {
        assert_eq!(starts.observe(&pod, at(30)), None);
    }
    starts.retain(|_| false);
    assert_eq!(starts.count(), 0);
}

// behaviour: STW-38
#[test]
fn image_pulls_and_init_containers_are_excluded() {
    use Pull::{Began, Ended};
    let mut initialized = runs(made());
    let end = ContainerStateTerminated {
        started_at: Some(time(13)),
        finished_at: Some(time(16)),
        ..ContainerStateTerminated::default()
    };
    let state = ContainerState { terminated: Some(end), ..ContainerState::default() };
    let init = ContainerStatus { state: Some(state), ..ContainerStatus::default() };
    status(&mut initialized).init_container_statuses = Some(vec![init]);
    assert_eq!(counted(&made(), &initialized).unwrap().own, Some(seconds(17)));

    let rows: [(&[(Pull, i64)], u64); 6] = [
        (&[(Began, 12), (Ended, 15)], 3),
        (&[(Began, 12), (Began, 13), (Ended, 15), (Ended, 17)], 5),
        (&[(Began, 12), (Ended, 14), (Began, 20), (Ended, 21)], 3),
        // The first pull failed.
        (&[(Began, 12), (Began, 20), (Ended, 21)], 9),
        (&[(Ended, 15)], 0),
        (&[(Began, 12)], 0),
    ];
    for (pulls, expected) in rows {
        let mut starts = StartTracker::default();
        starts.observe(&made(), at(12));
        for (pull, second) in pulls {
            starts.pulling(&view::uid(&made()), *pull, at(*second));
        }
        let started = starts.observe(&runs(made()), at(30)).unwrap();
        assert_eq!(started.own, Some(seconds(20 - expected)), "{pulls:?}");
        assert_eq!(started.total, seconds(20));
    }
    let mut starts = StartTracker::default();
    starts.pulling(&"unknown".into(), Began, at(1));
    assert_eq!(starts.count(), 0);
}

// behaviour: STW-38
#[test]
fn start_time_excludes_pods_with_external_volumes() {
    let with = |volume: Volume, host_network: bool| {
        let mut pod = runs(made());
        let spec = pod.spec.as_mut().unwrap();
        spec.volumes = Some(vec![volume]);
        spec.host_network = Some(host_network);
        counted(&made(), &pod).unwrap()
    };
    let scratch = Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() };
    let claim = PersistentVolumeClaimVolumeSource::default();
    let claimed = Volume { persistent_volume_claim: Some(claim), ..Volume::default() };
    let started = with(scratch, true);
    assert_eq!((started.own, started.has_network), (Some(seconds(20)), false));
    let started = with(claimed, false);
    assert_eq!((started.own, started.total), (None, seconds(20)));
}

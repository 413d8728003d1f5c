//! Kills of pods and containers.

use model::labels;
use model::observed::ContainerState::Exited;
use model::observed::{RuntimePodStatus, SandboxState};
use model::ports::runtime::Code;
use model::probe::{ProbeFailure, ProbeKind};
use podspec::view;
use runtime::SyncError;
use runtime::decide::{PodEnd, ProbeResult, ProbeResults};
use testkit::runtime::{Fault, Method, Rule};
use tokio::time::Instant;

use crate::harness::{Harness, IMAGE, forever, seconds, web};

#[tokio::test(start_paused = true)]
async fn grace_period_is_from_the_kill_then_deletion_then_spec() {
    let rows = [(Some(7), None, 7), (Some(1), None, 2), (None, Some(5), 5), (None, None, 30)];
    for (requested, deletion, grace) in rows {
        let harness = Harness::new();
        let mut pod = web().container("deaf", IMAGE, ["ignore", "TERM"]).build();
        harness.synced(&pod).await;
        pod.metadata.deletion_grace_period_seconds = deletion;
        let status = harness.status(&pod).await;
        let begun = Instant::now();
        harness.pods.kill(&pod, &status, requested.map(seconds), PodEnd::Deleted).await.unwrap();
        assert_eq!(begun.elapsed(), seconds(grace), "{requested:?} {deletion:?}");
        assert_eq!(harness.instances("deaf"), [(0, Exited)]);
    }
}

// behaviour: ACT-140
#[tokio::test(start_paused = true)]
async fn containers_stop_in_parallel_before_their_sandboxes() {
    let harness = Harness::new();
    let pod = web()
        .container("deaf", IMAGE, ["ignore", "TERM"])
        .container("slow", IMAGE, ["trap", "TERM", "--delay", "3s"])
        .container("done", IMAGE, ["exit", "0"])
        .build();
    harness.synced(&pod).await;
    let status = harness.status(&pod).await;
    harness.runtime.forget_calls();
    let begun = Instant::now();
    harness.pods.kill(&pod, &status, Some(seconds(8)), PodEnd::Deleted).await.unwrap();
    assert_eq!(begun.elapsed(), seconds(8));
    let calls = [Method::StopContainer, Method::StopContainer, Method::StopPodSandbox];
    assert_eq!(harness.calls(), calls);
    let stopped = harness.runtime.calls()[2].at;
    assert_eq!(stopped, harness.now(), "the network existed until the last process had exited");
    let status = harness.status(&pod).await;
    assert!(!status.may_be_alive());
    assert_eq!(status.sandboxes[0].state, SandboxState::NotReady);
    let killing: Vec<_> =
        harness.events.all().into_iter().filter(|event| event.reason == "Killing").collect();
    let mut messages: Vec<_> = killing.iter().map(|event| event.message.as_str()).collect();
    messages.sort_unstable();
    assert_eq!(messages, ["Stopping container deaf", "Stopping container slow"]);
    assert!(killing.iter().all(|event| event.field_path.starts_with("spec.containers{")));
}

#[tokio::test(start_paused = true)]
async fn missing_containers_and_sandboxes_count_as_stopped() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    let status = harness.status(&pod).await;
    for method in [Method::StopContainer, Method::StopPodSandbox] {
        harness.runtime.inject(Rule::on(method, Fault::error(Code::NotFound)));
    }
    harness.pods.kill(&pod, &status, None, PodEnd::Deleted).await.unwrap();
    harness
        .pods
        .kill(&pod, &RuntimePodStatus::empty(view::uid(&pod)), None, PodEnd::Deleted)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_container_stop_is_an_error_and_the_sandbox_is_stopped() {
    let harness = Harness::new();
    let pod = web()
        .container("main", IMAGE, ["sleep", "forever"])
        .container("other", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    let (status, id) = (harness.status(&pod).await, harness.running(&pod, "main").await);
    let fault = Fault::error(Code::Unavailable);
    harness.runtime.inject(Rule::on(Method::StopContainer, fault).object(id.as_str()).once());
    let error = harness.pods.kill(&pod, &status, None, PodEnd::Deleted).await.unwrap_err();
    assert!(matches!(&error, SyncError::KillContainer { name, .. } if name == "main"), "{error}");
    assert_eq!(harness.instances("main"), [(0, Exited)]);
    assert_eq!(harness.instances("other"), [(0, Exited)]);
    assert!(!harness.status(&pod).await.may_be_alive());
}

#[tokio::test(start_paused = true)]
async fn failed_sandbox_stop_is_an_error() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    let (status, sandbox) = (harness.status(&pod).await, harness.sandbox(&pod).await);
    harness.runtime.inject(Rule::on(Method::StopPodSandbox, Fault::error(Code::Internal)).once());
    let error = harness.pods.kill(&pod, &status, None, PodEnd::Deleted).await.unwrap_err();
    assert!(matches!(&error, SyncError::StopSandbox { id, .. } if *id == sandbox.to_string()));
    assert_eq!(error.retry_at(), None);
}

#[tokio::test(start_paused = true)]
async fn dead_sandbox_is_stopped_to_release_its_network() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    harness.runtime.kill_sandbox(&harness.sandbox(&pod).await);
    let status = harness.status(&pod).await;
    assert_eq!(status.sandboxes[0].ips.len(), 1);
    harness.pods.kill(&pod, &status, None, PodEnd::Deleted).await.unwrap();
    assert!(harness.status(&pod).await.sandboxes[0].ips.is_empty());
}

// behaviour: GC-26
#[tokio::test(start_paused = true)]
async fn orphaned_container_is_stopped_by_its_annotations() {
    let harness = Harness::new();
    let pod = web().container("deaf", IMAGE, ["ignore", "TERM"]).grace(9).build();
    harness.synced(&pod).await;
    let status = harness.status(&pod).await;
    let before = harness.events.all().len();
    let begun = Instant::now();
    let (uid, name) = (&status.uid, &view::pod_name(&pod));
    harness.pods.killer().without_spec(uid, name, &status.containers[0]).await.unwrap();
    assert_eq!(begun.elapsed(), seconds(9));
    assert_eq!(harness.instances("deaf"), [(0, Exited)]);
    assert_eq!(harness.events.all().len(), before, "there is no pod for an event");
    let mut bare = status.containers[0].clone();
    bare.annotations.clear();
    harness.runtime.forget_calls();
    harness.pods.killer().without_spec(uid, name, &bare).await.unwrap();
    assert_eq!(harness.calls(), [Method::StopContainer]);
}

// behaviour: GC-26
#[tokio::test(start_paused = true)]
async fn orphaned_container_grace_is_from_deletion_then_spec_and_at_least_2_s() {
    let rows = [
        (Some("5"), Some("9"), 5),
        (Some("9"), Some("5"), 9),
        (None, Some("9"), 9),
        (Some("7"), None, 7),
        (None, None, 2),
        (Some("1"), Some("9"), 2),
        (None, Some("1"), 2),
    ];
    for (deletion, specification, expected) in rows {
        let harness = Harness::new();
        let pod = web().container("deaf", IMAGE, ["ignore", "TERM"]).grace(30).build();
        harness.synced(&pod).await;
        let status = harness.status(&pod).await;
        let mut deaf = status.containers[0].clone();
        let noted = [
            (labels::POD_DELETION_GRACE, deletion),
            (labels::POD_TERMINATION_GRACE, specification),
        ];
        for (name, grace) in noted {
            deaf.annotations.remove(name);
            if let Some(grace) = grace {
                deaf.annotations.insert(name.into(), grace.into());
            }
        }
        let begun = Instant::now();
        let (uid, name) = (&status.uid, &view::pod_name(&pod));
        harness.pods.killer().without_spec(uid, name, &deaf).await.unwrap();
        assert_eq!(begun.elapsed(), seconds(expected), "{deletion:?} {specification:?}");
    }
}

// behaviour: WHY-4, WHY-5, WHY-15
#[tokio::test(start_paused = true)]
async fn kill_by_a_probe_is_in_the_event_the_message_and_the_record() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    let running = harness.status(&pod).await;
    let main = running.latest("main").unwrap();
    let failure = ProbeFailure {
        kind: ProbeKind::Liveness,
        failures: 3,
        threshold: 3,
        period: seconds(10),
        output: "HTTP probe failed with statuscode: 500".to_owned(),
    };
    let liveness = [(main.id.clone(), ProbeResult::Failure(failure))].into();
    let probes = ProbeResults { liveness, ..ProbeResults::default() };
    harness.sync_with(&pod, &probes).await.unwrap();
    let why = "3 failures in a row, 10s apart: HTTP probe failed with statuscode: 500";
    assert_eq!(
        harness.last_message("Killing"),
        format!("Container main failed liveness probe, will be restarted: {why}")
    );
    let message =
        "failed liveness probe: 3 failures in a row: HTTP probe failed with statuscode: 500";
    assert_eq!(harness.pods.kill_messages(&running.uid)[&main.id], message);
    let recorded = [
        "kill main liveness-probe: failures 3, threshold 3, period 10s, \
         output HTTP probe failed with statuscode: 500, gracePeriod 30s",
        "restart main liveness-probe: restartCount 1",
    ];
    assert_eq!(harness.incidents.lines(), recorded);
    harness.pods.release(&pod).await.unwrap();
    assert!(harness.pods.kill_messages(&running.uid).is_empty());
}

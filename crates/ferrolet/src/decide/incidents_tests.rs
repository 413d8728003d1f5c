//! Incidents of the agent.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::observed::ReportedResources;
use model::oom::{MemoryUsage, OomScope};
use testkit::observed::{container_status, pod_status};
use testkit::pods;

use super::*;

fn api_status(phase: &str, reason: &str) -> PodStatus {
    let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
    PodStatus { phase: Some(phase.to_owned()), reason, ..PodStatus::default() }
}

// behaviour: WHY-8
#[test]
fn pod_end_is_the_reason_of_the_status_before_the_deletion() {
    let rows = [
        (false, "Running", "", PodEnd::Removed),
        (true, "Running", "", PodEnd::Deleted),
        (true, "Failed", "Preempting", PodEnd::Preempted),
        (false, "Failed", "Preempting", PodEnd::Preempted),
        (false, "Failed", "DeadlineExceeded", PodEnd::DeadlineExceeded),
        (false, "Failed", "Evicted", PodEnd::Evicted),
        (false, "Failed", "OutOfcpu", PodEnd::Failed),
        (false, "Succeeded", "", PodEnd::Finished),
        (false, "Failed", "", PodEnd::Finished),
    ];
    for (deleted, phase, reason, expected) in rows {
        let mut pod = pods::pod("web").build();
        pod.metadata.deletion_timestamp = deleted.then_some(Time(Timestamp::UNIX_EPOCH));
        let (target, status) = (Target::Pod(Arc::new(pod)), api_status(phase, reason));
        assert_eq!(pod_end(&target, Some(&status)), expected, "{deleted} {phase} {reason}");
    }
    let orphan = Target::RuntimeOnly(PodName::new("default", "web"));
    assert_eq!(pod_end(&orphan, None), PodEnd::Orphaned);
}

// behaviour: WHY-9
#[test]
fn oom_kill_has_the_time_of_the_exit_and_the_memory_limit() {
    let finished_at = Some(Timestamp::UNIX_EPOCH);
    let resources =
        Some(ReportedResources { memory_limit: Some(64 << 20), ..ReportedResources::default() });
    let killed = ContainerStatus {
        reason: OOM_KILLED.into(),
        exit_code: 137,
        finished_at,
        resources,
        ..container_status("c1", "main", ContainerState::Exited)
    };
    let (name, uid) = (PodName::new("default", "web"), PodUid::from("u1"));
    let victim = OomVictim { name: &name, uid: &uid, pod: None };
    let incident = oom_kill(victim, &killed, None).expect("an incident");
    assert_eq!((&*incident.rule, incident.at), (OUT_OF_MEMORY, finished_at));
    assert_eq!(incident.detail.to_string(), "memoryLimit 67108864, exitCode 137");
    let failed = ContainerStatus { reason: "Error".into(), ..killed.clone() };
    assert_eq!(oom_kill(victim, &failed, None), None);
    let unlimited = ContainerStatus { resources: None, ..killed.clone() };
    let incident = oom_kill(victim, &unlimited, None).expect("an incident");
    assert_eq!(incident.detail.to_string(), "exitCode 137");
    let memory = Some(MemoryUsage { usage: 63, limit: 64 });
    let logged = OomKill { pid: 7, process: "hog".to_owned(), scope: OomScope::Pod, memory };
    let incident = oom_kill(victim, &killed, Some(&logged)).expect("an incident");
    let expected = "process hog, pid 7, scope pod, memoryLimit 64, memoryUsage 63, exitCode 137";
    assert_eq!(incident.detail.to_string(), expected);
}

#[test]
fn rejection_has_its_reason_as_rule() {
    let pod = pods::pod("web").build();
    let reason = Rejection { reason: "OutOfcpu".into(), message: "not enough cpu".to_owned() };
    let incident = rejection(&pod, &reason);
    assert_eq!(incident.rule, "OutOfcpu");
    assert_eq!(incident.detail.to_string(), "message not enough cpu");
    assert_eq!((incident.id, incident.container), (view::uid(&pod).to_string(), String::new()));
}

// behaviour: WHY-10
#[test]
fn kill_message_is_for_terminated_instances_that_wrote_none() {
    use ContainerState::{Exited, Running};
    let mut status = pod_status(&[], &[Running, Exited, Exited]);
    status.containers[2].message = "own words".into();
    let messages: BTreeMap<ContainerId, String> =
        ["c0", "c1", "c2"].map(|id| (id.into(), "failed liveness probe".to_owned())).into();
    let shown = with_kill_messages(&status, &messages);
    let texts: Vec<&str> = shown.containers.iter().map(|one| &*one.message).collect();
    assert_eq!(texts, ["", "failed liveness probe", "own words"]);
    assert!(matches!(with_kill_messages(&status, &BTreeMap::new()), Cow::Borrowed(_)));
}

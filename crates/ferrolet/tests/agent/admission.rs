//! Admission and preemption.

use std::time::Duration;

use ferrolet::wiring::Agent;
use k8s_openapi::api::core::v1::PodStatus;
use model::ports::events::PodEvent;
use testkit::crash_point::Moment;
use testkit::runtime::Method;

use crate::crash::{dies_in, start_with_crash};
use crate::harness::Harness;
use crate::incidents::incidents;

const IMAGE: &str = "ferrolet.test/workload:1";

/// A node with two processors.
fn small_node() -> Harness {
    let mut harness = Harness::new();
    harness.allocatable = vec![("cpu", "2")];
    harness
}

/// Writes the manifest of a pod that requests CPU and runs for ever.
fn write(harness: &Harness, name: &str, cpu: &str, more: &str) {
    let container = format!(
        "{{name: main, image: \"{IMAGE}\", args: [sleep, forever], \
         resources: {{requests: {{cpu: {cpu}}}}}}}"
    );
    harness.write_spec(name, &format!("  {more}\n  containers: [{container}]\n"));
}

/// The published status of a pod.
fn status(agent: &Agent, pod: &str) -> Option<PodStatus> {
    let name = format!("{pod}-node");
    let pods = agent.pods().pods();
    let found = pods.into_iter().find(|known| known.pod.metadata.name.as_ref() == Some(&name))?;
    Some((*found.status?).clone())
}

/// Waits until a pod has failed; returns its reason and message.
async fn failed(harness: &Harness, agent: &Agent, pod: &str) -> (String, String) {
    let failed = |_: &Harness| {
        let status = status(agent, pod)?;
        let has_failed = status.phase.as_deref() == Some("Failed");
        has_failed.then(|| (status.reason.unwrap_or_default(), status.message.unwrap_or_default()))
    };
    harness.until(&format!("{pod} has failed"), failed).await
}

fn sandboxes_of(harness: &Harness, pod: &str) -> usize {
    let name = format!("{pod}-node");
    harness.runtime.sandboxes().iter().filter(|sandbox| *sandbox.pod.name == name).count()
}

// behaviour: ADM-16
#[tokio::test(start_paused = true)]
async fn pod_with_too_large_requests_stays_rejected() {
    let harness = small_node();
    write(&harness, "big", "3", "");
    write(&harness, "fits", "2", "");
    let agent = harness.start();
    let (reason, message) = failed(&harness, &agent, "big").await;
    assert_eq!(reason, "UnexpectedAdmissionError");
    let missing = "no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]. \
                   Not enough cpu: the pod requests 3, the node has 2, other pods request 0.";
    assert!(message.starts_with("Pod was rejected: ") && message.ends_with(missing), "{message}");
    let reported = harness.events.all();
    let reported = reported.iter().find(|event| event.reason == reason).expect("an event");
    assert_eq!(format!("Pod was rejected: {}", reported.message), message);
    let class = status(&agent, "big").and_then(|status| status.qos_class);
    assert_eq!(class.as_deref(), Some("Burstable"));
    // A rejected pod uses nothing, and does not come back when resources are free.
    harness.one_runs("fits").await;
    harness.remove_manifest("fits");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(failed(&harness, &agent, "big").await, (reason, message));
    assert_eq!(sandboxes_of(&harness, "big"), 0);
    assert_eq!(harness.runtime.count(Method::RunPodSandbox), 1);
    // A changed manifest is a new pod, with another UID.
    write(&harness, "big", "1", "");
    harness.one_runs("big").await;
    assert_eq!(status(&agent, "big").and_then(|status| status.reason), None);
}

/// Reasons of rejections, each with its full message.
const REFUSED: [(&str, &str, &str, &str); 7] = [
    (
        "fields",
        "readinessGates: [{conditionType: x}]",
        "UnsupportedFields",
        "not supported: spec.readinessGates",
    ),
    (
        "sysctl",
        "securityContext: {sysctls: [{name: net.core.somaxconn, value: '9'}]}",
        "SysctlForbidden",
        "forbidden sysctl: \"net.core.somaxconn\" not allowlisted",
    ),
    (
        "system",
        "os: {name: windows}",
        "PodOSNotSupported",
        "Failed to admit pod as the OS field doesn't match node OS",
    ),
    (
        "labels",
        "nodeSelector: {disk: fast}",
        "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
    (
        "place",
        "nodeSelector: {disk: fast}\n  securityContext: {appArmorProfile: {type: RuntimeDefault}}",
        "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
    (
        "confined",
        "securityContext: {appArmorProfile: {type: RuntimeDefault}}",
        "AppArmor",
        "Cannot enforce AppArmor: AppArmor is not enabled on the host",
    ),
    (
        "whole",
        "resources: {requests: {cpu: 3}}",
        "UnexpectedAdmissionError",
        "Unexpected error while attempting to recover from admission failure: preemption: error \
         finding a set of pods to preempt: no set of running pods found to reclaim resources: \
         [(res: cpu, q: 1100), ]. Not enough cpu: the pod requests 3, the node has 2, other pods request \
         100m.",
    ),
];

// behaviour: ADM-16
#[tokio::test(start_paused = true)]
async fn rejected_pod_leaves_no_runtime_or_disk_state() {
    let harness = small_node();
    write(&harness, "a-web", "100m", "");
    let agent = harness.start();
    let web = harness.one_runs("a-web").await;
    for (pod, spec, ..) in REFUSED {
        write(&harness, pod, "100m", spec);
    }
    for (pod, _, reason, message) in REFUSED {
        let (why, said) = failed(&harness, &agent, pod).await;
        assert_eq!((why.as_str(), said), (reason, format!("Pod was rejected: {message}")), "{pod}");
        let is_of = |event: &PodEvent| *event.pod.name == format!("{pod}-node");
        let reported: Vec<PodEvent> = harness.events.all().into_iter().filter(is_of).collect();
        assert!(matches!(&reported[..], [one] if one.reason == reason && one.message == message));
    }
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(harness.pod_cgroups(), [format!("/kubepods/burstable/pod{}", web.pod_uid)]);
    for method in [Method::RunPodSandbox, Method::CreateContainer] {
        assert_eq!(harness.runtime.count(method), 1, "{method:?}");
    }
    for method in [Method::PullImage, Method::StopPodSandbox] {
        assert_eq!(harness.runtime.count(method), 0, "{method:?}");
    }
}

// behaviour: ADM-6, ADM-16, ADM-18
#[tokio::test(start_paused = true)]
async fn second_pod_with_the_same_host_port_is_rejected() {
    let harness = Harness::new();
    for name in ["a-first", "b-second"] {
        let ports = "ports: [{containerPort: 80, hostPort: 8080}]";
        let container =
            format!("{{name: main, image: \"{IMAGE}\", args: [sleep, forever], {ports}}}");
        harness.write_spec(name, &format!("  containers: [{container}]\n"));
    }
    let agent = harness.start();
    harness.one_runs("a-first").await;
    let (reason, message) = failed(&harness, &agent, "b-second").await;
    let why = "node(s) didn't have free ports for the requested pod ports";
    assert_eq!(reason, "NodePorts");
    assert_eq!(message, format!("Pod was rejected: Predicate NodePorts failed: {why}"));
    assert_eq!(sandboxes_of(&harness, "b-second"), 0);
}

// behaviour: ADM-4
#[tokio::test(start_paused = true)]
async fn pod_for_other_nodes_is_rejected() {
    let harness = Harness::new();
    write(&harness, "here", "1", "nodeSelector: {kubernetes.io/hostname: node}");
    write(&harness, "there", "1", "nodeSelector: {disk: fast}");
    let agent = harness.start();
    harness.one_runs("here").await;
    assert_eq!(failed(&harness, &agent, "there").await.0, "NodeAffinity");
}

// behaviour: ADM-19, ADM-23, WHY-8
#[tokio::test(start_paused = true)]
async fn critical_pod_starts_after_preempting_a_pod() {
    let harness = small_node();
    let lesser = format!(
        "  priority: 0\n  terminationGracePeriodSeconds: 60\n  containers: [{{name: main, \
         image: \"{IMAGE}\", args: [trap, TERM, --exit, \"0\", --delay, 20s], \
         resources: {{requests: {{cpu: 1500m}}}}}}]\n"
    );
    harness.write_spec("lesser", &lesser);
    write(&harness, "beside", "500m", "priority: 5");
    let agent = harness.start();
    let old = harness.one_runs("lesser").await;
    let beside = harness.one_runs("beside").await;
    write(&harness, "critical", "1", "priorityClassName: system-node-critical");
    let reported = failed(&harness, &agent, "lesser").await;
    let message = "Preempted in order to admit critical pod".to_owned();
    assert_eq!(reported, ("Preempting".to_owned(), message.clone()));
    let new = harness
        .until("the critical pod runs", |harness| {
            let both = harness.running("critical").len() + harness.running("lesser").len();
            assert!(both <= 1, "one replaces the other");
            harness.running("critical").pop()
        })
        .await;
    let waited = new.created_at.duration_since(old.created_at).as_secs();
    assert!(waited >= 20, "{waited} s");
    let event = harness.events.all().into_iter().find(|event| event.reason == "Preempting");
    assert_eq!(event.map(|event| event.message), Some(message));
    // It stays so.
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(failed(&harness, &agent, "lesser").await, reported);
    let status = status(&agent, "lesser").unwrap();
    let conditions = status.conditions.unwrap_or_default();
    let target = conditions.iter().find(|one| one.type_ == "DisruptionTarget").unwrap();
    assert_eq!(target.reason.as_deref(), Some("TerminationByKubelet"));
    let disrupted = "Pod was preempted by Kubelet to accommodate a critical pod.";
    assert_eq!(target.message.as_deref(), Some(disrupted));
    assert!(harness.running("lesser").is_empty());
    assert_eq!(harness.one_runs("beside").await, beside);
    assert_eq!(incidents(&harness, "lesser"), ["kill preempted: gracePeriod 1m0s"]);
    // A new agent finds the same state.
    agent.stop().await;
    let agent = harness.start();
    failed(&harness, &agent, "lesser").await;
    assert_eq!(harness.one_runs("critical").await, new);
    assert_eq!(harness.one_runs("beside").await, beside);
}

// behaviour: ADM-19
#[tokio::test(start_paused = true)]
async fn preempted_pod_that_has_not_started_never_starts() {
    let harness = small_node();
    write(&harness, "a-lesser", "1500m", "priority: 0");
    write(&harness, "b-critical", "1", "priority: 2000001000");
    let agent = harness.start();
    harness.one_runs("b-critical").await;
    assert_eq!(failed(&harness, &agent, "a-lesser").await.0, "Preempting");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(sandboxes_of(&harness, "a-lesser"), 0);
    harness.one_runs("b-critical").await;
    // Its resources are free once the manifest is removed.
    harness.remove_manifest("a-lesser");
    write(&harness, "c-other", "1", "");
    harness.one_runs("c-other").await;
}

// behaviour: ADM-17
#[tokio::test(start_paused = true)]
async fn running_pod_stays_when_the_next_agent_has_less_allocatable() {
    let mut harness = small_node();
    write(&harness, "web", "1500m", "");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    agent.stop().await;
    harness.allocatable = vec![("cpu", "1")];
    write(&harness, "a-new", "100m", "");
    harness.runtime.forget_calls();
    let agent = harness.start();
    // Its manifest is older, and yet the running pod has priority.
    failed(&harness, &agent, "a-new").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(harness.one_runs("web").await, web);
    assert_eq!(status(&agent, "web").and_then(|status| status.phase).as_deref(), Some("Running"));
    for method in [Method::RunPodSandbox, Method::StopContainer, Method::StartContainer] {
        assert_eq!(harness.runtime.count(method), 0, "{method:?}");
    }
}

// behaviour: ADM-20
#[tokio::test(start_paused = true)]
async fn finished_pod_frees_its_resources_and_keeps_its_status_across_a_restart() {
    let harness = small_node();
    let job = format!(
        "  restartPolicy: Never\n  containers: [{{name: main, image: \"{IMAGE}\", \
         args: [exit, \"0\"], resources: {{requests: {{cpu: 2}}}}}}]\n"
    );
    harness.write_spec("job", &job);
    let agent = harness.start();
    let is_over = |agent: &Agent| {
        let phase = status(agent, "job").and_then(|status| status.phase);
        (phase.as_deref() == Some("Succeeded")).then_some(())
    };
    harness.until("the job is done", |_| is_over(&agent)).await;
    harness.until("nothing lives", |harness| (harness.live_sandboxes() == 0).then_some(())).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    write(&harness, "a-web", "2", "");
    let web = harness.one_runs("a-web").await;
    agent.stop().await;
    let agent = harness.start();
    harness.until("the job is done", |_| is_over(&agent)).await;
    assert_eq!(harness.one_runs("a-web").await, web);
}

// behaviour: ADM-16
#[tokio::test(start_paused = true)]
async fn updated_pod_is_admitted_without_counting_its_old_version() {
    let harness = small_node();
    write(&harness, "web", "1500m", "");
    let _agent = harness.start();
    let old = harness.one_runs("web").await;
    write(&harness, "web", "1800m", "");
    harness.replaced("web", &old).await;
}

/// A pod runs, and a critical one preempts it; returns whether the agent died on the way.
async fn preemption(harness: &Harness, ends: Option<Moment>) -> bool {
    write(harness, "a-lesser", "1500m", "priority: 0");
    let (agent, over) = start_with_crash(harness, ends);
    let steps = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        write(harness, "critical", "1", "priority: 2000001000");
        tokio::time::sleep(Duration::from_mins(2)).await;
    };
    dies_in(agent, over, steps).await
}

// behaviour: ADM-19
#[tokio::test(start_paused = true)]
async fn critical_pod_is_admitted_after_an_agent_crash_at_any_step() {
    let has_its_place = |harness: &Harness, moment: Option<Moment>| {
        let running = (harness.running("critical").len(), harness.running("a-lesser").len());
        assert_eq!(running, (1, 0), "{moment:?}");
    };
    let harness = small_node();
    assert!(!preemption(&harness, None).await);
    has_its_place(&harness, None);
    let mut deaths = 0;
    for effect in 1.. {
        let mut lived = true;
        for moment in [Moment::Before(effect), Moment::After(effect)] {
            let harness = small_node();
            if !preemption(&harness, Some(moment)).await {
                continue;
            }
            (lived, deaths) = (false, deaths + 1);
            write(&harness, "critical", "1", "priority: 2000001000");
            let _agent = harness.start();
            tokio::time::sleep(Duration::from_mins(2)).await;
            has_its_place(&harness, Some(moment));
        }
        if lived {
            break;
        }
    }
    assert!(deaths > 10, "only {deaths} deaths");
}

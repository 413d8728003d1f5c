//! Pods that request other resources while they run.

use std::time::Duration;

use allocation::decide::admission::Ability;
use ferrolet::wiring::Agent;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use model::cgroup::CgroupName;
use model::observed::Container;
use model::ports::events::PodEvent;
use model::ports::runtime::Code;
use testkit::crash_point::Moment;
use testkit::runtime::{Fault, Method, Rule};

use crate::crash::{dies_in, start_with_crash};
use crate::harness::Harness;

const IMAGE: &str = "ferrolet.test/workload:1";
const MEBIBYTE: i64 = 1 << 20;

/// Writes the manifest of a pod with a fixed uid.
fn write(harness: &Harness, name: &str, resources: &str, more: &str) {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: uid-of-{name}}}\nspec:\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  - name: main\n    image: \"{IMAGE}\"\n    \
         args: [sleep, forever]\n    resources: {{{resources}}}\n    {more}\n"
    );
    harness.files.write(format!("/manifests/{name}.yaml"), manifest);
}

/// Requests and limits of an amount of millicores and mebibytes.
fn sized(cpu: u32, memory: u32) -> String {
    format!(
        "requests: {{cpu: {cpu}m, memory: {memory}Mi}}, limits: {{cpu: 8, memory: {}Mi}}",
        2 * memory
    )
}

fn status(agent: &Agent, pod: &str) -> Option<PodStatus> {
    let name = format!("{pod}-node");
    let pods = agent.pods().pods();
    let found = pods.into_iter().find(|known| known.pod.metadata.name.as_ref() == Some(&name))?;
    Some((*found.status?).clone())
}

fn condition(agent: &Agent, pod: &str, kind: &str) -> Option<PodCondition> {
    status(agent, pod)?.conditions?.into_iter().find(|one| one.type_ == kind)
}

/// The current limits of a container: shares and bytes.
fn limits(harness: &Harness, container: &Container) -> (i64, i64) {
    let config = harness.runtime.container_config(&container.id).expect("the container");
    (config.resources.cpu_shares, config.resources.memory_limit / MEBIBYTE)
}

/// The limits of a pod's cgroup: shares and bytes.
fn of_pod(harness: &Harness, container: &Container) -> (u64, u64) {
    let name = format!("/kubepods/burstable/pod{}", container.pod_uid);
    let name = CgroupName::parse(&name).expect("a valid cgroup name");
    let values = harness.cgroups.all().remove(&name).expect("the cgroup");
    (
        values.cpu_shares.expect("shares"),
        values.memory_limit.expect("a limit") / MEBIBYTE.unsigned_abs(),
    )
}

async fn has_limits(harness: &Harness, container: &Container, expected: (i64, i64)) {
    let what = format!("{} has {expected:?}", container.pod.name);
    let has = |harness: &Harness| (limits(harness, container) == expected).then_some(());
    harness.until(&what, has).await;
}

fn reported(harness: &Harness, reason: &str) -> Vec<PodEvent> {
    harness.events.all().into_iter().filter(|event| event.reason == reason).collect()
}

// behaviour: RSZ-1, RSZ-11, RSZ-13, RSZ-20, RSZ-22
#[tokio::test(start_paused = true)]
async fn running_pod_is_resized_in_place() {
    let harness = Harness::new();
    write(&harness, "web", &sized(100, 64), "");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    assert_eq!(limits(&harness, &web), (102, 128));
    assert_eq!(of_pod(&harness, &web), (102, 128));
    harness.runtime.forget_calls();
    harness.cgroups.effects();
    for (cpu, memory, shares) in [(200, 128, 204), (150, 32, 153)] {
        write(&harness, "web", &sized(cpu, memory), "");
        has_limits(&harness, &web, (shares, i64::from(2 * memory))).await;
        harness
            .until("it is reported", |_| {
                let status = status(&agent, "web")?.container_statuses?.remove(0);
                let (has, given) = (status.resources?.requests?, status.allocated_resources?);
                let cpu = format!("{cpu}m");
                (has["cpu"].0 == cpu && given["cpu"].0 == cpu && has == given).then_some(())
            })
            .await;
        let over =
            |_: &Harness| condition(&agent, "web", "PodResizeInProgress").is_none().then_some(());
        harness.until("it is completed", over).await;
        assert_eq!(of_pod(&harness, &web), (shares.unsigned_abs(), u64::from(2 * memory)));
        let class = CgroupName::parse("/kubepods/burstable").expect("a valid cgroup name");
        assert_eq!(harness.cgroups.all()[&class].cpu_shares, Some(shares.unsigned_abs()));
    }
    assert_eq!(harness.one_runs("web").await, web, "no container was restarted");
    assert_eq!(harness.runtime.count(Method::UpdateContainerResources), 2);
    let (started, completed) =
        (reported(&harness, "ResizeStarted"), reported(&harness, "ResizeCompleted"));
    assert_eq!((started.len(), completed.len()), (2, 2));
    assert!(
        started[0].message.contains(r#""requests":{"cpu":"200m","memory":"128Mi"}"#),
        "{started:?}"
    );
    // An increase begins with the pod's cgroup, a decrease ends with it.
    let own = format!("update /kubepods/burstable/pod{}", web.pod_uid);
    let updates = harness.cgroups.effects();
    assert_eq!(updates.iter().filter(|effect| **effect == own).count(), 2, "{updates:?}");
    let sandboxes = harness.runtime.count(Method::UpdatePodSandboxResources);
    assert_eq!(sandboxes, 2, "one UpdatePodSandboxResources for each");
    harness.remove_manifest("web");
    harness
        .until("no cgroup is left", |harness| harness.pod_cgroups().is_empty().then_some(()))
        .await;
    for file in ["allocated", "actuated"] {
        let path = format!("/var/lib/kubelet/ferrolet/state/{file}-resources.json");
        let is_empty = |harness: &Harness| {
            harness.files.content(&path).is_some_and(|kept| kept.ends_with(b"\n{}")).then_some(())
        };
        harness.until(&format!("nothing of it is in {path}"), is_empty).await;
    }
}

// behaviour: RSZ-12, WHY-5
#[tokio::test(start_paused = true)]
async fn container_with_restart_resize_policy_is_restarted() {
    let harness = Harness::new();
    let policy = "resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]";
    write(&harness, "web", &sized(100, 64), policy);
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    write(&harness, "web", &sized(200, 64), policy);
    has_limits(&harness, &web, (204, 128)).await;
    write(&harness, "web", &sized(200, 128), policy);
    let is_new = |harness: &Harness| {
        let running = harness.running("web");
        running.into_iter().find(|one| one.id != web.id)
    };
    let anew = harness.until("it is restarted", is_new).await;
    assert_eq!((&anew.pod_uid, anew.attempt), (&web.pod_uid, 1));
    assert_eq!((limits(&harness, &anew), of_pod(&harness, &anew)), ((204, 256), (204, 256)));
    let killing = reported(&harness, "Killing");
    assert!(killing.iter().any(|event| event.message == "Container main resize requires restart"));
    harness
        .until("it is completed", |harness| {
            (reported(harness, "ResizeCompleted").len() == 2).then_some(())
        })
        .await;
    assert_eq!(condition(&agent, "web", "PodResizeInProgress"), None);
    assert_eq!(harness.live_sandboxes(), 1);
    let status = status(&agent, "web").and_then(|status| status.container_statuses?.pop());
    let end = status.and_then(|status| status.last_state?.terminated);
    assert_eq!(end.and_then(|end| end.message).as_deref(), Some("resize requires restart"));
}

// behaviour: RSZ-4, RSZ-21
#[tokio::test(start_paused = true)]
async fn infeasible_resize_is_reported_and_the_pod_is_unchanged() {
    let harness = Harness::new();
    write(&harness, "web", &sized(100, 64), "");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    write(&harness, "web", "limits: {cpu: 1, memory: 64Mi}", "");
    let why =
        harness.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    assert_eq!(why.reason.as_deref(), Some("Infeasible"));
    let message = "Pod QOS Class may not change as a result of resizing";
    assert_eq!(why.message.as_deref(), Some(message));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(
        (limits(&harness, &web), reported(&harness, "ResizeInfeasible").len()),
        ((102, 128), 1)
    );
    assert_eq!(
        status(&agent, "web").and_then(|reported| reported.qos_class).as_deref(),
        Some("Burstable")
    );
    // The decision is repeated when the request changes or is withdrawn.
    write(&harness, "web", &sized(100, 64), "");
    let gone = |_: &Harness| condition(&agent, "web", "PodResizePending").is_none().then_some(());
    harness.until("its request is withdrawn", gone).await;
    write(&harness, "web", "limits: {cpu: 1, memory: 64Mi}", "");
    harness.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    write(&harness, "web", &sized(200, 64), "");
    has_limits(&harness, &web, (204, 128)).await;
    harness.until("its request is withdrawn", gone).await;
    // A running pod stays in the cgroup of its first QoS class.
    write(&harness, "web", "limits: {cpu: 1, memory: 64Mi}", "");
    harness.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    harness.remove_manifest("web");
    harness
        .until("no cgroup is left", |harness| harness.pod_cgroups().is_empty().then_some(()))
        .await;
    assert_eq!(harness.live_sandboxes(), 0);
}

// behaviour: NDF-1
#[tokio::test(start_paused = true)]
async fn resize_with_an_undeclared_node_feature_is_rejected() {
    let mut harness = Harness::new();
    harness.lacks = vec![Ability::InPlacePodLevelResourcesVerticalScaling];
    let write = |cpu: u32| {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: uid-of-web}}\nspec:\n  \
             resources: {{requests: {{cpu: {cpu}}}}}\n  containers:\n  \
             - {{name: main, image: \"{IMAGE}\", args: [sleep, forever]}}\n"
        );
        harness.files.write("/manifests/web.yaml", manifest);
    };
    write(1);
    let agent = harness.start();
    harness.one_runs("web").await;
    write(2);
    let why =
        harness.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    assert_eq!(why.reason.as_deref(), Some("Infeasible"));
    let events = reported(&harness, "FailedNodeDeclaredFeaturesCheck");
    let messages: Vec<&str> = events.iter().map(|event| event.message.as_str()).collect();
    let missing = "Pod requires node features that are not available: \
                   InPlacePodLevelResourcesVerticalScaling";
    assert_eq!(messages, [missing]);
}

// behaviour: RSZ-3, RSZ-5, RSZ-7
#[tokio::test(start_paused = true)]
async fn deferred_resize_waits_for_resources_and_reserves_none() {
    let mut harness = Harness::new();
    harness.allocatable = vec![("cpu", "2")];
    write(&harness, "other", &sized(1200, 64), "");
    write(&harness, "web", &sized(100, 64), "");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    harness.one_runs("other").await;
    write(&harness, "web", &sized(1000, 64), "");
    let why =
        harness.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    assert_eq!(why.reason.as_deref(), Some("Deferred"));
    let missing = "no set of running pods found to reclaim resources: [(res: cpu, q: 200), ]. ";
    assert!(why.message.as_deref().is_some_and(|said| said.contains(missing)), "{why:?}");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(
        (limits(&harness, &web), reported(&harness, "ResizeDeferred").len()),
        ((102, 128), 1)
    );
    // A deferred resize reserves nothing.
    write(&harness, "late", &sized(700, 64), "");
    harness.one_runs("late").await;
    // Resources freed by a smaller pod, and then by a removed one.
    write(&harness, "late", &sized(600, 64), "");
    harness
        .until("it shrinks", |harness| {
            (reported(harness, "ResizeCompleted").len() == 1).then_some(())
        })
        .await;
    assert_eq!(limits(&harness, &web), (102, 128));
    harness.remove_manifest("other");
    has_limits(&harness, &web, (1024, 128)).await;
    let over = |_: &Harness| condition(&agent, "web", "PodResizePending").is_none().then_some(());
    harness.until("its resize is no longer deferred", over).await;
    assert_eq!(harness.one_runs("web").await, web);
}

// behaviour: RSZ-2
#[tokio::test(start_paused = true)]
async fn resize_of_a_critical_pod_preempts_lesser_pods() {
    let mut harness = Harness::new();
    harness.allocatable = vec![("cpu", "2")];
    let lesser = format!(
        "  priority: 0\n  containers: [{{name: main, image: \"{IMAGE}\", args: [sleep, forever], \
         resources: {{requests: {{cpu: 1500m}}}}}}]\n"
    );
    harness.write_spec("lesser", &lesser);
    let critical = |cpu| {
        let spec = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: uid-of-web}}\nspec:\n  \
             priority: 2000001000\n  containers: [{{name: main, image: \"{IMAGE}\", \
             args: [sleep, forever], resources: {{requests: {{cpu: {cpu}m}}}}}}]\n"
        );
        harness.files.write("/manifests/web.yaml", spec);
    };
    critical(100);
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    harness.one_runs("lesser").await;
    critical(1000);
    let has = |harness: &Harness| {
        let config = harness.runtime.container_config(&web.id)?;
        (config.resources.cpu_shares == 1024).then_some(())
    };
    harness.until("it has its new resources", has).await;
    assert!(harness.running("lesser").is_empty() && harness.events.has("Preempting"));
    assert_eq!(harness.one_runs("web").await, web);
}

// behaviour: RSZ-5
#[tokio::test(start_paused = true)]
async fn resources_freed_for_a_resize_are_reserved_for_it() {
    let mut harness = Harness::new();
    harness.allocatable = vec![("cpu", "2")];
    let requesting = |name: &str, priority: u32, cpu: u32| {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: uid-of-{name}}}\nspec:\n  \
             priority: {priority}\n  containers: [{{name: main, image: \"{IMAGE}\", \
             args: [sleep, forever], resources: {{requests: {{cpu: {cpu}m}}}}}}]\n"
        );
        harness.files.write(format!("/manifests/{name}.yaml"), manifest);
    };
    requesting("lesser", 0, 1500);
    requesting("web", 2_000_001_000, 100);
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    harness.one_runs("lesser").await;
    // While the lesser pod terminates, another pod is added that would fit without the resize.
    let slow = Fault::delay(Duration::from_secs(20));
    harness.runtime.inject(Rule::on(Method::StopContainer, slow).once());
    requesting("web", 2_000_001_000, 1000);
    let preempting = |harness: &Harness| harness.events.has("Preempting").then_some(());
    harness.until("the lesser pod is preempted", preempting).await;
    requesting("late", 0, 1200);
    let refused = |_: &Harness| status(&agent, "late").filter(|reported| reported.reason.is_some());
    let reported = harness.until("the other pod is rejected", refused).await;
    assert_eq!(reported.reason.as_deref(), Some("UnexpectedAdmissionError"));
    let has = |harness: &Harness| {
        let config = harness.runtime.container_config(&web.id)?;
        (config.resources.cpu_shares == 1024).then_some(())
    };
    harness.until("it has its new resources", has).await;
    assert!(harness.running("late").is_empty() && harness.running("lesser").is_empty());
}

// behaviour: RSZ-5
#[tokio::test(start_paused = true)]
async fn larger_of_old_and_new_resources_counts_after_an_agent_restart() {
    let mut harness = Harness::new();
    harness.allocatable = vec![("cpu", "2")];
    write(&harness, "web", &sized(1500, 64), "");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    let refusal = Fault::error(Code::Internal);
    harness.runtime.inject(Rule::on(Method::UpdateContainerResources, refusal));
    write(&harness, "web", &sized(500, 64), "");
    let failed = |harness: &Harness| harness.events.has("ResizeError").then_some(());
    harness.until("its resources cannot be lowered", failed).await;
    agent.stop().await;
    let agent = harness.start();
    let resizes = |_: &Harness| condition(&agent, "web", "PodResizeInProgress");
    harness.until("the next agent continues", resizes).await;
    write(&harness, "late", &sized(1000, 64), "");
    let refused = |_: &Harness| status(&agent, "late").filter(|reported| reported.reason.is_some());
    let reported = harness.until("another pod is rejected", refused).await;
    assert_eq!(reported.reason.as_deref(), Some("UnexpectedAdmissionError"));
    assert_eq!(limits(&harness, &web).0, 1536);
}

// behaviour: RSZ-14
#[tokio::test(start_paused = true)]
async fn memory_limit_is_not_lowered_below_usage() {
    let harness = Harness::new();
    write(&harness, "web", &sized(100, 64), "");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    let pod =
        CgroupName::parse(&format!("/kubepods/burstable/pod{}", web.pod_uid)).expect("a name");
    let own = pod.child(&format!("cri-{}", web.id)).expect("a name");
    harness.cgroups.use_memory(&own, (100 * MEBIBYTE).unsigned_abs());
    write(&harness, "web", &sized(100, 32), "");
    let stuck = |_: &Harness| {
        condition(&agent, "web", "PodResizeInProgress").filter(|one| one.reason.is_some())
    };
    let why = harness.until("it is reported", stuck).await;
    assert_eq!(why.reason.as_deref(), Some("Error"));
    let message = "cannot decrease memory limits: attempting to set container \"main\" memory limit \
                   (67108864) below current usage (104857600)";
    assert_eq!(why.message.as_deref(), Some(message));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!((limits(&harness, &web), reported(&harness, "ResizeError").len()), ((102, 128), 1));
    harness.cgroups.use_memory(&own, 1);
    has_limits(&harness, &web, (102, 64)).await;
    let over =
        |_: &Harness| condition(&agent, "web", "PodResizeInProgress").is_none().then_some(());
    harness.until("it is completed", over).await;
}

// behaviour: RSZ-8
#[tokio::test(start_paused = true)]
async fn resize_requested_while_stopped_is_done_at_start() {
    let mut harness = Harness::new();
    write(&harness, "web", &sized(100, 64), "");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    agent.stop().await;
    write(&harness, "web", &sized(200, 64), "");
    let agent = harness.start();
    has_limits(&harness, &web, (204, 128)).await;
    agent.stop().await;
    // A pod whose request is too large keeps its allocation.
    harness.allocatable = vec![("cpu", "1")];
    write(&harness, "web", &sized(3000, 64), "");
    let agent = harness.start();
    let why =
        harness.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    assert_eq!(why.reason.as_deref(), Some("Deferred"));
    assert_eq!((limits(&harness, &web), harness.one_runs("web").await), ((204, 128), web.clone()));
    let given = status(&agent, "web").and_then(|reported| reported.container_statuses);
    let given =
        given.and_then(|mut reported| reported.remove(0).allocated_resources).expect("what it has");
    assert_eq!(given["cpu"].0, "200m");
}

/// One pod grows and another shrinks; returns whether the agent died on the way.
async fn scenario(harness: &Harness, ends: Option<Moment>) -> bool {
    write(harness, "web", &sized(100, 64), "");
    write(harness, "less", &sized(400, 64), "");
    let (agent, over) = start_with_crash(harness, ends);
    let steps = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        write(harness, "web", &sized(200, 128), "");
        write(harness, "less", &sized(300, 32), "");
        tokio::time::sleep(Duration::from_mins(2)).await;
    };
    dies_in(agent, over, steps).await
}

// behaviour: RSZ-9
#[tokio::test(start_paused = true)]
async fn resize_completes_after_an_agent_crash_at_any_step() {
    let settled = |harness: &Harness, moment: Option<Moment>| {
        for (name, expected) in [("web", (204, 256)), ("less", (307, 64))] {
            let running = harness.running(name);
            assert_eq!(running.len(), 1, "{moment:?}: {running:?}");
            assert_eq!(running[0].attempt, 0, "{moment:?}");
            assert_eq!(limits(harness, &running[0]), expected, "{moment:?}: {name}");
            let (shares, memory) = of_pod(harness, &running[0]);
            let cgroup = (shares.cast_signed(), memory.cast_signed());
            assert_eq!(cgroup, expected, "{moment:?}: the cgroup of {name}");
        }
    };
    let harness = Harness::new();
    assert!(!scenario(&harness, None).await);
    settled(&harness, None);
    let mut deaths = 0;
    for effect in 1.. {
        let mut lived = true;
        for moment in [Moment::Before(effect), Moment::After(effect)] {
            let harness = Harness::new();
            if !scenario(&harness, Some(moment)).await {
                continue;
            }
            (lived, deaths) = (false, deaths + 1);
            write(&harness, "web", &sized(200, 128), "");
            write(&harness, "less", &sized(300, 32), "");
            let _agent = harness.start();
            tokio::time::sleep(Duration::from_mins(3)).await;
            settled(&harness, Some(moment));
        }
        if lived {
            break;
        }
    }
    assert!(deaths > 30, "only {deaths} deaths");
}

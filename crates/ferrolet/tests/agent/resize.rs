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

use crate::crash::{dies_in, start_mortal};
use crate::world::World;

const IMAGE: &str = "ferrolet.test/workload:1";
const MEBIBYTE: i64 = 1 << 20;

/// Writes the manifest of a pod with a fixed uid.
fn write(world: &World, name: &str, resources: &str, more: &str) {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: uid-of-{name}}}\nspec:\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  - name: main\n    image: \"{IMAGE}\"\n    \
         args: [sleep, forever]\n    resources: {{{resources}}}\n    {more}\n"
    );
    world.files.write(format!("/manifests/{name}.yaml"), manifest);
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
fn limits(world: &World, container: &Container) -> (i64, i64) {
    let config = world.runtime.container_config(&container.id).expect("the container");
    (config.resources.cpu_shares, config.resources.memory_limit / MEBIBYTE)
}

/// The limits of a pod's cgroup: shares and bytes.
fn of_pod(world: &World, container: &Container) -> (u64, u64) {
    let name = format!("/kubepods/burstable/pod{}", container.pod_uid);
    let name = CgroupName::parse(&name).expect("a valid cgroup name");
    let values = world.cgroups.all().remove(&name).expect("the cgroup");
    (
        values.cpu_shares.expect("shares"),
        values.memory_limit.expect("a limit") / MEBIBYTE.unsigned_abs(),
    )
}

async fn has_limits(world: &World, container: &Container, expected: (i64, i64)) {
    let what = format!("{} has {expected:?}", container.pod.name);
    let has = |world: &World| (limits(world, container) == expected).then_some(());
    world.until(&what, has).await;
}

fn reported(world: &World, reason: &str) -> Vec<PodEvent> {
    world.events.all().into_iter().filter(|event| event.reason == reason).collect()
}

// behaviour: RSZ-1, RSZ-11, RSZ-13, RSZ-20, RSZ-22
#[tokio::test(start_paused = true)]
async fn running_pod_is_resized_in_place() {
    let world = World::new();
    write(&world, "web", &sized(100, 64), "");
    let agent = world.start();
    let web = world.one_runs("web").await;
    assert_eq!(limits(&world, &web), (102, 128));
    assert_eq!(of_pod(&world, &web), (102, 128));
    world.runtime.forget_calls();
    world.cgroups.effects();
    for (cpu, memory, shares) in [(200, 128, 204), (150, 32, 153)] {
        write(&world, "web", &sized(cpu, memory), "");
        has_limits(&world, &web, (shares, i64::from(2 * memory))).await;
        world
            .until("it is reported", |_| {
                let status = status(&agent, "web")?.container_statuses?.remove(0);
                let (has, given) = (status.resources?.requests?, status.allocated_resources?);
                let cpu = format!("{cpu}m");
                (has["cpu"].0 == cpu && given["cpu"].0 == cpu && has == given).then_some(())
            })
            .await;
        let over =
            |_: &World| condition(&agent, "web", "PodResizeInProgress").is_none().then_some(());
        world.until("it is completed", over).await;
        assert_eq!(of_pod(&world, &web), (shares.unsigned_abs(), u64::from(2 * memory)));
        let class = CgroupName::parse("/kubepods/burstable").expect("a valid cgroup name");
        assert_eq!(world.cgroups.all()[&class].cpu_shares, Some(shares.unsigned_abs()));
    }
    assert_eq!(world.one_runs("web").await, web, "no container was restarted");
    assert_eq!(world.runtime.count(Method::UpdateContainerResources), 2);
    let (started, completed) =
        (reported(&world, "ResizeStarted"), reported(&world, "ResizeCompleted"));
    assert_eq!((started.len(), completed.len()), (2, 2));
    assert!(
        started[0].message.contains(r#""requests":{"cpu":"200m","memory":"128Mi"}"#),
        "{started:?}"
    );
    // An increase begins with the pod's cgroup, a decrease ends with it.
    let own = format!("update /kubepods/burstable/pod{}", web.pod_uid);
    let updates = world.cgroups.effects();
    assert_eq!(updates.iter().filter(|effect| **effect == own).count(), 2, "{updates:?}");
    let sandboxes = world.runtime.count(Method::UpdatePodSandboxResources);
    assert_eq!(sandboxes, 2, "one UpdatePodSandboxResources for each");
    world.remove_manifest("web");
    world.until("no cgroup is left", |world| world.pod_cgroups().is_empty().then_some(())).await;
    for file in ["allocated", "actuated"] {
        let path = format!("/var/lib/kubelet/ferrolet/state/{file}-resources.json");
        let is_empty = |world: &World| {
            world.files.content(&path).is_some_and(|kept| kept.ends_with(b"\n{}")).then_some(())
        };
        world.until(&format!("nothing of it is in {path}"), is_empty).await;
    }
}

// behaviour: RSZ-12, WHY-5
#[tokio::test(start_paused = true)]
async fn container_with_restart_resize_policy_is_restarted() {
    let world = World::new();
    let policy = "resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]";
    write(&world, "web", &sized(100, 64), policy);
    let agent = world.start();
    let web = world.one_runs("web").await;
    write(&world, "web", &sized(200, 64), policy);
    has_limits(&world, &web, (204, 128)).await;
    write(&world, "web", &sized(200, 128), policy);
    let is_new = |world: &World| {
        let running = world.running("web");
        running.into_iter().find(|one| one.id != web.id)
    };
    let anew = world.until("it is restarted", is_new).await;
    assert_eq!((&anew.pod_uid, anew.attempt), (&web.pod_uid, 1));
    assert_eq!((limits(&world, &anew), of_pod(&world, &anew)), ((204, 256), (204, 256)));
    let killing = reported(&world, "Killing");
    assert!(killing.iter().any(|event| event.message == "Container main resize requires restart"));
    world
        .until("it is completed", |world| {
            (reported(world, "ResizeCompleted").len() == 2).then_some(())
        })
        .await;
    assert_eq!(condition(&agent, "web", "PodResizeInProgress"), None);
    assert_eq!(world.live_sandboxes(), 1);
    let status = status(&agent, "web").and_then(|status| status.container_statuses?.pop());
    let end = status.and_then(|status| status.last_state?.terminated);
    assert_eq!(end.and_then(|end| end.message).as_deref(), Some("resize requires restart"));
}

// behaviour: RSZ-4, RSZ-21
#[tokio::test(start_paused = true)]
async fn infeasible_resize_is_reported_and_the_pod_is_unchanged() {
    let world = World::new();
    write(&world, "web", &sized(100, 64), "");
    let agent = world.start();
    let web = world.one_runs("web").await;
    write(&world, "web", "limits: {cpu: 1, memory: 64Mi}", "");
    let why = world.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    assert_eq!(why.reason.as_deref(), Some("Infeasible"));
    let message = "Pod QOS Class may not change as a result of resizing";
    assert_eq!(why.message.as_deref(), Some(message));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!((limits(&world, &web), reported(&world, "ResizeInfeasible").len()), ((102, 128), 1));
    assert_eq!(
        status(&agent, "web").and_then(|reported| reported.qos_class).as_deref(),
        Some("Burstable")
    );
    // The decision is repeated when the request changes or is withdrawn.
    write(&world, "web", &sized(100, 64), "");
    let gone = |_: &World| condition(&agent, "web", "PodResizePending").is_none().then_some(());
    world.until("its request is withdrawn", gone).await;
    write(&world, "web", "limits: {cpu: 1, memory: 64Mi}", "");
    world.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    write(&world, "web", &sized(200, 64), "");
    has_limits(&world, &web, (204, 128)).await;
    world.until("its request is withdrawn", gone).await;
    // A running pod stays in the cgroup of its first QoS class.
    write(&world, "web", "limits: {cpu: 1, memory: 64Mi}", "");
    world.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    world.remove_manifest("web");
    world.until("no cgroup is left", |world| world.pod_cgroups().is_empty().then_some(())).await;
    assert_eq!(world.live_sandboxes(), 0);
}

// behaviour: NDF-1
#[tokio::test(start_paused = true)]
async fn resize_with_an_undeclared_node_feature_is_rejected() {
    let mut world = World::new();
    world.lacks = vec![Ability::InPlacePodLevelResourcesVerticalScaling];
    let write = |cpu: u32| {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: uid-of-web}}\nspec:\n  \
             resources: {{requests: {{cpu: {cpu}}}}}\n  containers:\n  \
             - {{name: main, image: \"{IMAGE}\", args: [sleep, forever]}}\n"
        );
        world.files.write("/manifests/web.yaml", manifest);
    };
    write(1);
    let agent = world.start();
    world.one_runs("web").await;
    write(2);
    let why = world.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    assert_eq!(why.reason.as_deref(), Some("Infeasible"));
    let events = reported(&world, "FailedNodeDeclaredFeaturesCheck");
    let messages: Vec<&str> = events.iter().map(|event| event.message.as_str()).collect();
    let missing = "Pod requires node features that are not available: \
                   InPlacePodLevelResourcesVerticalScaling";
    assert_eq!(messages, [missing]);
}

// behaviour: RSZ-3, RSZ-5, RSZ-7
#[tokio::test(start_paused = true)]
async fn deferred_resize_waits_for_resources_and_reserves_none() {
    let mut world = World::new();
    world.allocatable = vec![("cpu", "2")];
    write(&world, "other", &sized(1200, 64), "");
    write(&world, "web", &sized(100, 64), "");
    let agent = world.start();
    let web = world.one_runs("web").await;
    world.one_runs("other").await;
    write(&world, "web", &sized(1000, 64), "");
    let why = world.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    assert_eq!(why.reason.as_deref(), Some("Deferred"));
    let missing = "no set of running pods found to reclaim resources: [(res: cpu, q: 200), ]. ";
    assert!(why.message.as_deref().is_some_and(|said| said.contains(missing)), "{why:?}");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!((limits(&world, &web), reported(&world, "ResizeDeferred").len()), ((102, 128), 1));
    // A deferred resize reserves nothing.
    write(&world, "late", &sized(700, 64), "");
    world.one_runs("late").await;
    // Resources freed by a smaller pod, and then by a removed one.
    write(&world, "late", &sized(600, 64), "");
    world
        .until("it shrinks", |world| (reported(world, "ResizeCompleted").len() == 1).then_some(()))
        .await;
    assert_eq!(limits(&world, &web), (102, 128));
    world.remove_manifest("other");
    has_limits(&world, &web, (1024, 128)).await;
    let over = |_: &World| condition(&agent, "web", "PodResizePending").is_none().then_some(());
    world.until("its resize is no longer deferred", over).await;
    assert_eq!(world.one_runs("web").await, web);
}

// behaviour: RSZ-2
#[tokio::test(start_paused = true)]
async fn resize_of_a_critical_pod_preempts_lesser_pods() {
    let mut world = World::new();
    world.allocatable = vec![("cpu", "2")];
    let lesser = format!(
        "  priority: 0\n  containers: [{{name: main, image: \"{IMAGE}\", args: [sleep, forever], \
         resources: {{requests: {{cpu: 1500m}}}}}}]\n"
    );
    world.write_spec("lesser", &lesser);
    let critical = |cpu| {
        let spec = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: uid-of-web}}\nspec:\n  \
             priority: 2000001000\n  containers: [{{name: main, image: \"{IMAGE}\", \
             args: [sleep, forever], resources: {{requests: {{cpu: {cpu}m}}}}}}]\n"
        );
        world.files.write("/manifests/web.yaml", spec);
    };
    critical(100);
    let _agent = world.start();
    let web = world.one_runs("web").await;
    world.one_runs("lesser").await;
    critical(1000);
    let has = |world: &World| {
        let config = world.runtime.container_config(&web.id)?;
        (config.resources.cpu_shares == 1024).then_some(())
    };
    world.until("it has its new resources", has).await;
    assert!(world.running("lesser").is_empty() && world.events.has("Preempting"));
    assert_eq!(world.one_runs("web").await, web);
}

// behaviour: RSZ-5
#[tokio::test(start_paused = true)]
async fn resources_freed_for_a_resize_are_reserved_for_it() {
    let mut world = World::new();
    world.allocatable = vec![("cpu", "2")];
    let asking = |name: &str, priority: u32, cpu: u32| {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: uid-of-{name}}}\nspec:\n  \
             priority: {priority}\n  containers: [{{name: main, image: \"{IMAGE}\", \
             args: [sleep, forever], resources: {{requests: {{cpu: {cpu}m}}}}}}]\n"
        );
        world.files.write(format!("/manifests/{name}.yaml"), manifest);
    };
    asking("lesser", 0, 1500);
    asking("web", 2_000_001_000, 100);
    let agent = world.start();
    let web = world.one_runs("web").await;
    world.one_runs("lesser").await;
    // While the lesser pod terminates, another pod is added that would fit beside the old resources.
    let slow = Fault::delay(Duration::from_secs(20));
    world.runtime.inject(Rule::on(Method::StopContainer, slow).once());
    asking("web", 2_000_001_000, 1000);
    let preempting = |world: &World| world.events.has("Preempting").then_some(());
    world.until("the lesser pod is preempted", preempting).await;
    asking("late", 0, 1200);
    let refused = |_: &World| status(&agent, "late").filter(|reported| reported.reason.is_some());
    let reported = world.until("the other pod is rejected", refused).await;
    assert_eq!(reported.reason.as_deref(), Some("UnexpectedAdmissionError"));
    let has = |world: &World| {
        let config = world.runtime.container_config(&web.id)?;
        (config.resources.cpu_shares == 1024).then_some(())
    };
    world.until("it has its new resources", has).await;
    assert!(world.running("late").is_empty() && world.running("lesser").is_empty());
}

// behaviour: RSZ-5
#[tokio::test(start_paused = true)]
async fn larger_of_old_and_new_resources_counts_after_an_agent_restart() {
    let mut world = World::new();
    world.allocatable = vec![("cpu", "2")];
    write(&world, "web", &sized(1500, 64), "");
    let agent = world.start();
    let web = world.one_runs("web").await;
    let refusal = Fault::error(Code::Internal);
    world.runtime.inject(Rule::on(Method::UpdateContainerResources, refusal));
    write(&world, "web", &sized(500, 64), "");
    let failed = |world: &World| world.events.has("ResizeError").then_some(());
    world.until("its resources cannot be lowered", failed).await;
    agent.stop().await;
    let agent = world.start();
    let resizes = |_: &World| condition(&agent, "web", "PodResizeInProgress");
    world.until("the next agent continues", resizes).await;
    write(&world, "late", &sized(1000, 64), "");
    let refused = |_: &World| status(&agent, "late").filter(|reported| reported.reason.is_some());
    let reported = world.until("another pod is rejected", refused).await;
    assert_eq!(reported.reason.as_deref(), Some("UnexpectedAdmissionError"));
    assert_eq!(limits(&world, &web).0, 1536);
}

// behaviour: RSZ-14
#[tokio::test(start_paused = true)]
async fn memory_limit_is_not_lowered_below_usage() {
    let world = World::new();
    write(&world, "web", &sized(100, 64), "");
    let agent = world.start();
    let web = world.one_runs("web").await;
    let pod =
        CgroupName::parse(&format!("/kubepods/burstable/pod{}", web.pod_uid)).expect("a name");
    let own = pod.child(&format!("cri-{}", web.id)).expect("a name");
    world.cgroups.use_memory(&own, (100 * MEBIBYTE).unsigned_abs());
    write(&world, "web", &sized(100, 32), "");
    let stuck = |_: &World| {
        condition(&agent, "web", "PodResizeInProgress").filter(|one| one.reason.is_some())
    };
    let why = world.until("it is reported", stuck).await;
    assert_eq!(why.reason.as_deref(), Some("Error"));
    let message = "cannot decrease memory limits: attempting to set container \"main\" memory limit \
                   (67108864) below current usage (104857600)";
    assert_eq!(why.message.as_deref(), Some(message));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!((limits(&world, &web), reported(&world, "ResizeError").len()), ((102, 128), 1));
    world.cgroups.use_memory(&own, 1);
    has_limits(&world, &web, (102, 64)).await;
    let over = |_: &World| condition(&agent, "web", "PodResizeInProgress").is_none().then_some(());
    world.until("it is completed", over).await;
}

// behaviour: RSZ-8
#[tokio::test(start_paused = true)]
async fn resize_requested_while_stopped_is_done_at_start() {
    let mut world = World::new();
    write(&world, "web", &sized(100, 64), "");
    let agent = world.start();
    let web = world.one_runs("web").await;
    agent.stop().await;
    write(&world, "web", &sized(200, 64), "");
    let agent = world.start();
    has_limits(&world, &web, (204, 128)).await;
    agent.stop().await;
    // A pod whose request is too large keeps its allocation.
    world.allocatable = vec![("cpu", "1")];
    write(&world, "web", &sized(3000, 64), "");
    let agent = world.start();
    let why = world.until("it is reported", |_| condition(&agent, "web", "PodResizePending")).await;
    assert_eq!(why.reason.as_deref(), Some("Deferred"));
    assert_eq!((limits(&world, &web), world.one_runs("web").await), ((204, 128), web.clone()));
    let given = status(&agent, "web").and_then(|reported| reported.container_statuses);
    let given =
        given.and_then(|mut reported| reported.remove(0).allocated_resources).expect("what it has");
    assert_eq!(given["cpu"].0, "200m");
}

/// One pod grows and another shrinks; returns whether the agent died on the way.
async fn story(world: &World, ends: Option<Moment>) -> bool {
    write(world, "web", &sized(100, 64), "");
    write(world, "less", &sized(400, 64), "");
    let (agent, over) = start_mortal(world, ends);
    let tale = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        write(world, "web", &sized(200, 128), "");
        write(world, "less", &sized(300, 32), "");
        tokio::time::sleep(Duration::from_mins(2)).await;
    };
    dies_in(agent, over, tale).await
}

// behaviour: RSZ-9
#[tokio::test(start_paused = true)]
async fn resize_completes_after_an_agent_crash_at_any_step() {
    let settled = |world: &World, moment: Option<Moment>| {
        for (name, expected) in [("web", (204, 256)), ("less", (307, 64))] {
            let running = world.running(name);
            assert_eq!(running.len(), 1, "{moment:?}: {running:?}");
            assert_eq!(running[0].attempt, 0, "{moment:?}");
            assert_eq!(limits(world, &running[0]), expected, "{moment:?}: {name}");
            let (shares, memory) = of_pod(world, &running[0]);
            let cgroup = (shares.cast_signed(), memory.cast_signed());
            assert_eq!(cgroup, expected, "{moment:?}: the cgroup of {name}");
        }
    };
    let world = World::new();
    assert!(!story(&world, None).await);
    settled(&world, None);
    let mut deaths = 0;
    for effect in 1.. {
        let mut lived = true;
        for moment in [Moment::Before(effect), Moment::After(effect)] {
            let world = World::new();
            if !story(&world, Some(moment)).await {
                continue;
            }
            (lived, deaths) = (false, deaths + 1);
            write(&world, "web", &sized(200, 128), "");
            write(&world, "less", &sized(300, 32), "");
            let _agent = world.start();
            tokio::time::sleep(Duration::from_mins(3)).await;
            settled(&world, Some(moment));
        }
        if lived {
            break;
        }
    }
    assert!(deaths > 30, "only {deaths} deaths");
}

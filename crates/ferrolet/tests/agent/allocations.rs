//! Allocated resources, through restarts of the agent and of the machine.

use std::io::ErrorKind;
use std::time::Duration;

use ferrolet::wiring::Agent;
use k8s_openapi::api::core::v1::PodCondition;
use model::cgroup::CgroupName;
use model::observed::{Container, ContainerState};
use model::ports::runtime::{ContainerService, SandboxService};
use model::verdict::Subject;
use testkit::cluster::MemoryPods;
use testkit::runtime::{EventFault, EventRule, Fault, Method, Rule};
use testkit::wanted::removal;

use crate::harness::Harness;
use crate::resize_api::{cpu, named, requesting};

const IMAGE: &str = "ferrolet.test/workload:1";
const STATE: &str = "/var/lib/kubelet/ferrolet/state";
const RECORD: &str = "/var/lib/kubelet/ferrolet/state/allocated-resources.json";

/// A node with two processors.
fn small(mut harness: Harness) -> Harness {
    harness.allocatable = vec![("cpu", "2")];
    harness
}

/// Writes the manifest of a pod with a fixed uid, with resources of the pod or of its container.
fn write(harness: &Harness, of_pod: &str, of_container: &str, args: &str) {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: uid-of-web}}\nspec:\n  \
         terminationGracePeriodSeconds: 1\n  resources: {of_pod}\n  containers:\n  - name: main\n    \
         image: \"{IMAGE}\"\n    args: {args}\n    resources: {of_container}\n"
    );
    harness.files.write("/manifests/web.yaml", manifest);
}

/// Requests and limits of this number of CPUs.
fn processors(count: u32) -> String {
    format!("{{requests: {{cpu: {count}}}, limits: {{cpu: {count}}}}}")
}

fn pending(agent: &Agent) -> Option<PodCondition> {
    let status = agent.pods().pods().into_iter().next()?.status?;
    let conditions = status.conditions.clone()?;
    conditions.into_iter().find(|one| one.type_ == "PodResizePending")
}

async fn waits(harness: &Harness, agent: &Agent) {
    let why = harness.until("its resize is deferred", |_| pending(agent)).await;
    assert_eq!(why.reason.as_deref(), Some("Deferred"));
}

fn shares(harness: &Harness, container: &Container) -> i64 {
    let config = harness.runtime.container_config(&container.id).expect("the container");
    config.resources.cpu_shares
}

// behaviour: RSZ-28
#[tokio::test(start_paused = true)]
async fn pod_level_allocation_survives_an_agent_restart() {
    let harness = small(Harness::new());
    write(&harness, &processors(1), "{}", "[sleep, forever]");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    let cgroup = CgroupName::parse("/kubepods/burstable/poduid-of-web").expect("a name");
    let has = || harness.cgroups.all()[&cgroup].cpu_shares;
    assert_eq!(has(), Some(1024));
    write(&harness, &processors(100), "{}", "[sleep, forever]");
    waits(&harness, &agent).await;
    agent.stop().await;
    let agent = harness.start();
    waits(&harness, &agent).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!((has(), harness.one_runs("web").await), (Some(1024), web));
}

// behaviour: RSZ-30
#[tokio::test(start_paused = true)]
async fn allocation_survives_a_kill_before_the_first_checkpoint() {
    let harness = small(Harness::new());
    let forever = "[sleep, forever]";
    write(&harness, &processors(1), "{}", forever);
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    // As kill -9.
    drop(agent);
    assert_eq!(harness.files.content(RECORD), None);
    let cgroup = CgroupName::parse("/kubepods/burstable/poduid-of-web").expect("a name");
    let has = || harness.cgroups.all()[&cgroup].cpu_shares;
    write(&harness, &processors(100), "{}", forever);
    let agent = harness.start();
    waits(&harness, &agent).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!((has(), harness.one_runs("web").await), (Some(1024), web.clone()));
    // A later resize is not lost, whenever the agent is killed.
    write(&harness, &processors(2), "{}", forever);
    let started = |harness: &Harness| harness.events.has("ResizeStarted").then_some(());
    harness.until("its resize starts", started).await;
    drop(agent);
    write(&harness, &processors(100), "{}", forever);
    let agent = harness.start();
    waits(&harness, &agent).await;
    let more = |_: &Harness| (has() == Some(2048)).then_some(());
    harness.until("it has its new resources", more).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!((has(), harness.one_runs("web").await), (Some(2048), web));
    assert_eq!(harness.runtime.count(Method::StopContainer), 0);
    let completed = harness.events.all().into_iter().filter(|one| one.reason == "ResizeCompleted");
    assert_eq!(completed.count(), 1);
}

// behaviour: RSZ-30
#[tokio::test(start_paused = true)]
async fn pod_with_only_a_sandbox_keeps_its_allocation() {
    let harness = small(Harness::new());
    write(&harness, "null", "{requests: {cpu: 1}}", "[sleep, forever]");
    harness.runtime.inject(Rule::on(Method::CreateContainer, Fault::hang()));
    let agent = harness.start();
    let made = |harness: &Harness| (harness.live_sandboxes() == 1).then_some(());
    harness.until("its sandbox exists", made).await;
    drop(agent);
    assert_eq!(harness.files.content(RECORD), None);
    harness.runtime.clear_faults();
    write(&harness, "null", "{requests: {cpu: 100}}", "[sleep, forever]");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    assert_eq!(shares(&harness, &web), 1024);
    waits(&harness, &agent).await;
}

// behaviour: RSZ-28
#[tokio::test(start_paused = true)]
async fn allocation_of_a_stopped_container_survives_an_agent_restart() {
    let harness = small(Harness::new());
    let processors = |count: u32| format!("{{requests: {{cpu: {count}}}}}");
    let fails = "[exit, \"1\"]";
    write(&harness, "null", &processors(1), fails);
    let agent = harness.start();
    let instances = |harness: &Harness| harness.runtime.containers();
    let second = |harness: &Harness| instances(harness).into_iter().find(|one| one.attempt == 2);
    harness.until("it keeps failing", second).await;
    write(&harness, "null", &processors(100), fails);
    waits(&harness, &agent).await;
    let ended = |harness: &Harness| {
        let all = instances(harness);
        all.iter().all(|one| one.state == ContainerState::Exited).then_some(all)
    };
    let before = harness.until("it has ended", ended).await;
    agent.stop().await;
    let last = before.iter().map(|one| one.attempt).max().expect("an instance");
    let _agent = harness.start();
    let next = |harness: &Harness| instances(harness).into_iter().find(|one| one.attempt > last);
    let next = harness.until("it is restarted", next).await;
    assert_eq!(shares(&harness, &next), 1024);
}

async fn runs(harness: &Harness, name: &str) -> Container {
    let one = |harness: &Harness| {
        let is_meant =
            |one: &Container| &*one.pod.name == name && one.state == ContainerState::Running;
        harness.runtime.containers().into_iter().find(is_meant)
    };
    harness.until(&format!("{name} runs"), one).await
}

fn deferred(api: &MemoryPods, name: &str) -> Option<()> {
    let conditions = api.pod(&named(name))?.status.clone()?.conditions?;
    conditions.iter().any(|one| one.reason.as_deref() == Some("Deferred")).then_some(())
}

/// Reboots the machine: the runtime has lost all state.
async fn reboot(harness: &Harness) {
    for container in harness.runtime.containers() {
        harness.runtime.kill_container(&container.id, 137);
        let gone = removal(Subject::Container(container.id));
        harness.runtime.remove_container(&gone).await.expect("it is dead");
    }
    for sandbox in harness.runtime.sandboxes() {
        harness.runtime.stop_pod_sandbox(&sandbox.id).await.expect("it stops");
        let gone = removal(Subject::Sandbox(sandbox.id));
        harness.runtime.remove_pod_sandbox(&gone).await.expect("it is dead");
    }
}

// behaviour: RSZ-28
#[tokio::test(start_paused = true)]
async fn pod_with_a_larger_request_is_admitted_again_after_a_reboot() {
    let (harness, api) = Harness::in_cluster();
    let harness = small(harness);
    api.make(requesting("web", "1"));
    let agent = harness.start();
    let first = runs(&harness, "web").await;
    api.update(&named("web"), |pod| {
        pod.spec.as_mut().expect("a specification").containers[0].resources = Some(cpu("100"));
    });
    harness.until("its resize is deferred", |_| deferred(&api, "web")).await;
    agent.stop().await;
    reboot(&harness).await;
    let _agent = harness.start();
    let again = runs(&harness, "web").await;
    assert_ne!(again.id, first.id);
    assert_eq!(shares(&harness, &again), 1024);
    harness.until("its resize is still deferred", |_| deferred(&api, "web")).await;
    let phase = api.pod(&named("web")).and_then(|pod| pod.status.clone()?.phase);
    assert_eq!(phase.as_deref(), Some("Running"));
}

// behaviour: RSZ-29
#[tokio::test(start_paused = true)]
async fn unreadable_allocation_checkpoint_aborts_start() {
    for file in ["allocated-resources.json", "actuated-resources.json"] {
        let harness = Harness::new();
        write(&harness, "null", "{requests: {cpu: 1}}", "[sleep, forever]");
        let path = format!("{STATE}/{file}");
        let kept = "content that this agent cannot read";
        harness.files.write(&path, kept);
        harness.files.fail(&path, ErrorKind::Other);
        let mut agent = harness.start();
        let why = agent.task_ended().await.to_string();
        assert!(why.contains(&format!("read {path}: ")), "{why}");
        agent.stop().await;
        assert_eq!(harness.runtime.count(Method::RunPodSandbox), 0);
        assert_eq!(harness.files.content(&path).as_deref(), Some(kept.as_bytes()));
    }
}

/// Writes the manifest of a pod with a fixed uid, whose container runs once.
fn write_once(harness: &Harness, cpu: &str, args: &str) {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: uid-of-web}}\nspec:\n  restartPolicy: Never\n  \
         containers:\n  - {{name: main, image: \"{IMAGE}\", args: {args}, resources: {{requests: {{cpu: {cpu}}}}}}}\n"
    );
    harness.files.write("/manifests/web.yaml", manifest);
}

// behaviour: RSZ-28
#[tokio::test(start_paused = true)]
async fn pod_mistaken_for_terminated_is_admitted_and_checkpointed() {
    let harness = small(Harness::new());
    write_once(&harness, "1", "[exit, \"0\"]");
    let agent = harness.start();
    let recorded = |harness: &Harness| {
        let record = harness.files.content(RECORD)?;
        let ended =
            harness.runtime.containers().iter().all(|one| one.state == ContainerState::Exited);
        (ended && String::from_utf8_lossy(&record).contains("uid-of-web")).then_some(record)
    };
    let first = harness.until("it has ended, and is recorded", recorded).await;
    // The pod is removed while no agent runs, and comes back after the next agent has removed its containers and
    // before it has relisted.
    drop(agent);
    harness.remove_manifest("web");
    harness.runtime.inject_on_events(EventRule::all(EventFault::Lose));
    let agent = harness.start();
    let gone = |harness: &Harness| harness.runtime.sandboxes().is_empty().then_some(());
    harness.until("its containers are removed", gone).await;
    write_once(&harness, "1500m", "[sleep, forever]");
    let web = harness.one_runs("web").await;
    assert_eq!(shares(&harness, &web), 1536);
    let anew = |harness: &Harness| harness.files.content(RECORD).filter(|record| *record != first);
    harness.until("it is recorded", anew).await;
    // There are no resources left for another pod.
    harness.write_spec("other", &format!("  containers: [{{name: main, image: \"{IMAGE}\", resources: {{requests: {{cpu: 1}}}}}}]\n"));
    let refused = |harness: &Harness| harness.events.has("UnexpectedAdmissionError").then_some(());
    harness.until("the other is rejected", refused).await;
    drop(agent);
    let _agent = harness.start();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(harness.one_runs("web").await, web);
    assert_eq!(harness.runtime.count(Method::UpdateContainerResources), 0);
}

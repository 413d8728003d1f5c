//! The cgroups of pods, as the agent creates and removes them.

use std::time::Duration;

use ferrolet::wiring::Agent;
use journal::{EntryOutcome, Query, find};
use model::cgroup::CgroupName;
use model::ports::runtime::SandboxService;
use testkit::wanted;

use crate::harness::Harness;

fn name(path: &str) -> CgroupName {
    CgroupName::parse(path).expect("a valid cgroup name")
}

#[tokio::test(start_paused = true)]
async fn pod_cgroup_exists_from_start_to_end_of_the_pod() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.write_manifest("job", "Never", "[exit, \"0\"]");
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    let own = format!("/kubepods/besteffort/pod{}", web.pod_uid);
    harness
        .until("the job's is gone", |harness| {
            (harness.pod_cgroups() == [own.clone()]).then_some(())
        })
        .await;
    harness.remove_manifest("web");
    harness.until("none is left", |harness| harness.pod_cgroups().is_empty().then_some(())).await;
    assert!(harness.running("web").is_empty());
    let entries = find(&harness.journal, &Query::new(&own), 10).unwrap().entries;
    let reported: Vec<_> =
        entries.iter().map(|one| (one.kind.as_str(), one.rule.as_str())).collect();
    assert_eq!(reported, [("cgroup", "pod-has-ended")]);
    assert_eq!(entries[0].outcome, EntryOutcome::Removed);
    assert!(entries[0].pod.is_some());
}

// behaviour: CGR-15
#[tokio::test(start_paused = true)]
async fn orphaned_pod_cgroups_are_removed_once_all_sources_are_ready() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let left = name("/kubepods/burstable/podgone");
    harness.cgroups.enter(&left.child("container").unwrap());
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    let own = format!("/kubepods/besteffort/pod{}", web.pod_uid);
    harness
        .until("it is gone", |harness| (harness.pod_cgroups() == [own.clone()]).then_some(()))
        .await;
    assert_eq!(harness.cgroups.processes(), 0);
    let entries = find(&harness.journal, &Query::new("/kubepods/burstable/podgone"), 10);
    let entries = entries.unwrap().entries;
    assert_eq!(entries[0].rule, "pod-is-gone");
}

#[tokio::test(start_paused = true)]
async fn cgroup_removal_is_retried() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let left = name("/kubepods/podgone");
    harness.cgroups.enter(&left);
    harness.cgroups.set_broken(&left, true);
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    let own = name(&format!("/kubepods/besteffort/pod{}", web.pod_uid));
    harness.cgroups.set_broken(&own, true);
    harness.remove_manifest("web");
    harness.until("it has ended", |harness| harness.running("web").is_empty().then_some(())).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(harness.pod_cgroups().len(), 2);
    for name in [&left, &own] {
        harness.cgroups.set_broken(name, false);
    }
    harness.until("both are gone", |harness| harness.pod_cgroups().is_empty().then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn cgroup_of_an_orphaned_pod_is_removed() {
    let harness = Harness::new();
    let pod = model::ids::PodName::new("default", "orphan-node");
    let orphan = wanted::sandbox(&pod, &"orphan".into());
    harness.runtime.run_pod_sandbox(&orphan).await.unwrap();
    harness.cgroups.enter(&name("/kubepods/podorphan"));
    let _agent = harness.start();
    harness.until("it is gone", |harness| harness.pod_cgroups().is_empty().then_some(())).await;
    assert_eq!(harness.live_sandboxes(), 0);
}

/// Writes the manifest of a pod that requests CPU.
fn write_requesting(harness: &Harness, name: &str, cpu: &str) {
    let container = format!(
        "{{name: main, image: \"ferrolet.test/workload:1\", args: [sleep, forever], \
         resources: {{requests: {{cpu: {cpu}}}}}}}"
    );
    harness.write_spec(name, &format!("  containers: [{container}]\n"));
}

// behaviour: CGR-7
#[tokio::test(start_paused = true)]
async fn qos_cgroup_shares_never_drop_below_requests_across_a_restart() {
    let harness = Harness::new();
    for (pod, cpu) in [("a", "250m"), ("b", "500m")] {
        write_requesting(&harness, pod, cpu);
    }
    let shares = |harness: &Harness| harness.cgroups.all()[&name("/kubepods/burstable")].cpu_shares;
    let agent = harness.start();
    harness
        .until("both have their share", |harness| (shares(harness) == Some(768)).then_some(()))
        .await;
    agent.stop().await;
    harness.cgroups.effects();
    let agent = harness.start();
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(shares(&harness), Some(768));
    // Once, when all pods were observed: before, the sum was unknown.
    let mut effects = harness.cgroups.effects();
    effects.retain(|effect| effect != "update /kubepods");
    assert_eq!(effects, ["update /kubepods/burstable"]);
    agent.stop().await;
    // A pod that was removed meanwhile is not waited for.
    harness.remove_manifest("a");
    let _agent = harness.start();
    harness
        .until("one has its share", |harness| (shares(harness) == Some(512)).then_some(()))
        .await;
}

// behaviour: CGR-40
#[tokio::test(start_paused = true)]
async fn cgroup_of_a_rejected_pod_is_removed_without_blocking_its_qos_class() {
    let mut harness = Harness::new();
    harness.allocatable = vec![("cpu", "2")];
    let big = "apiVersion: v1\nkind: Pod\nmetadata: {name: big, uid: uid-of-big}\nspec: {containers: \
               [{name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever], \
               resources: {requests: {cpu: 3}}}]}\n";
    harness.files.write("/manifests/big.yaml", big);
    write_requesting(&harness, "web", "250m");
    let left = "/kubepods/burstable/poduid-of-big";
    harness.cgroups.enter(&name(left).child("container").unwrap());
    let _agent = harness.start();
    let web = harness.one_runs("web").await;
    let own = format!("/kubepods/burstable/pod{}", web.pod_uid);
    harness
        .until("it is gone", |harness| (harness.pod_cgroups() == [own.clone()]).then_some(()))
        .await;
    assert_eq!(harness.cgroups.processes(), 0);
    let shares = |harness: &Harness| harness.cgroups.all()[&name("/kubepods/burstable")].cpu_shares;
    harness
        .until("the class has its share", |harness| (shares(harness) == Some(256)).then_some(()))
        .await;
    let entries = find(&harness.journal, &Query::new(left), 10).unwrap().entries;
    assert_eq!(entries[0].rule, "pod-was-refused");
    // A pod that is rejected later leaves no cgroup either, and comes back when its manifest is corrected.
    harness.files.write("/manifests/big.yaml", big.replace("cpu: 3", "cpu: 1"));
    let big = harness.one_runs("big").await;
    assert_eq!(big.pod_uid.as_str(), "uid-of-big");
    assert!(harness.pod_cgroups().contains(&left.to_owned()));
}

// behaviour: CGR-26
#[tokio::test(start_paused = true)]
async fn root_cgroup_is_not_written_without_pod_cgroups() {
    let mut harness = Harness::new();
    harness.per_pod_cgroups = false;
    harness.cgroups.make(&name("/kubepods"));
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let _agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(harness.cgroups.effects(), [""; 0]);
}

/// The resize events of a pod.
fn resize_events(harness: &Harness, pod: &str) -> Vec<String> {
    let all =
        harness.events.all().into_iter().filter(|event| *event.pod.name == format!("{pod}-node"));
    all.map(|event| event.reason.into_owned()).filter(|why| why.starts_with("Resize")).collect()
}

/// The resize conditions of pods.
fn resize_conditions(agent: &Agent) -> Vec<String> {
    let statuses = agent.pods().pods().into_iter().filter_map(|known| known.status);
    let all = statuses.flat_map(|status| status.conditions.clone().unwrap_or_default());
    all.map(|one| one.type_).filter(|kind| kind.starts_with("PodResize")).collect()
}

// behaviour: CGR-41
#[tokio::test(start_paused = true)]
async fn late_cgroup_limit_is_a_resize_only_when_the_pod_is_resized() {
    let harness = Harness::new();
    let own = |pod: &str| name(&format!("/kubepods/burstable/poduid-of-{pod}"));
    let shares = |pod: &str| harness.cgroups.all()[&own(pod)].cpu_shares;
    let write_cpu = |pod: &str, cpu: &str| {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}, uid: uid-of-{pod}}}\nspec: \
             {{containers: [{{name: main, image: 'ferrolet.test/workload:1', args: [sleep, forever], \
             resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
        );
        harness.files.write(format!("/manifests/{pod}.yaml"), manifest);
    };
    for pod in ["plain", "web"] {
        write_cpu(pod, "250m");
        harness.cgroups.set_unlimited(&own(pod), true);
    }
    let agent = harness.start();
    let (plain, web) = (harness.one_runs("plain").await, harness.one_runs("web").await);
    tokio::time::sleep(Duration::from_mins(3)).await;
    let none = Vec::<String>::new();
    for pod in ["plain", "web"] {
        assert_eq!((shares(pod), resize_events(&harness, pod)), (None, none.clone()));
    }
    assert_eq!(resize_conditions(&agent), none);
    // One of them is resized meanwhile, and the resize completes once the cgroup can be limited.
    write_cpu("web", "500m");
    let stuck = |harness: &Harness| (resize_events(harness, "web").len() == 2).then_some(());
    harness.until("that is in the way", stuck).await;
    assert_eq!(resize_events(&harness, "web"), ["ResizeStarted", "ResizeError"]);
    assert_eq!(resize_conditions(&agent), ["PodResizeInProgress"]);
    for pod in ["plain", "web"] {
        harness.cgroups.set_unlimited(&own(pod), false);
    }
    let both =
        |_: &Harness| ((shares("plain"), shares("web")) == (Some(256), Some(512))).then_some(());
    harness.until("both are limited", both).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    let all = ["ResizeStarted", "ResizeError", "ResizeCompleted"];
    assert_eq!(resize_events(&harness, "web"), all);
    assert_eq!((resize_events(&harness, "plain"), resize_conditions(&agent)), (none.clone(), none));
    assert_eq!((harness.one_runs("plain").await, harness.one_runs("web").await), (plain, web));
}

//! Container GC on real containerd.

mod soak;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::containerd::{self, RuntimeContainer};
use e2e::cri_proxy::CriProxy;
use e2e::node::{NODE_NAME, Node, PATIENCE, one_running};
use e2e::own_settings::{FREQUENT_GC, own_settings};
use model::observed::ContainerState;
use model::ports::runtime::{ContainerFilter, ContainerService};
use model::wanted::ContainerConfig;
use testbed::wait;
use testkit::wanted;

use crate::actions::wait_exited;

/// The timeout of a change that waits for the next pass, and perhaps for the one after it.
const PASSES: Duration = Duration::from_secs(150);

/// The time until leftovers of a deleted pod are removed: its grace period, and at most 10 s after its end.
const SOON: Duration = Duration::from_secs(20);

/// No second pass while the test runs.
const RARE_GC: &str = "gc: {containers: {period: 10m}}";

/// Starts the agent with a short container GC period and these flags.
fn start_with_frequent_gc(node: &mut Node, flags: &[&str]) -> Result<()> {
    let own = own_settings(node, FREQUENT_GC)?;
    node.start_agent_with_flags(&[&[own.as_str()], flags].concat())
}

/// Like `start_with_frequent_gc`, after stopping the running agent.
fn restart_with_frequent_gc(node: &mut Node) -> Result<()> {
    node.stop_agent()?;
    start_with_frequent_gc(node, &[])?;
    node.wait_for_log(&["Pod synced", "web"]).map(drop)
}

fn pod(name: &str, policy: &str, args: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: {policy}
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: main, image: 'ferrolet.test/workload:1', args: {args}}}
"
    )
}

/// The number of containers and sandboxes of all pods.
fn counts(node: &Node) -> Result<(usize, usize)> {
    let all = containerd::containers(node.instance())?;
    let sandboxes = all.iter().filter(|one| one.is_sandbox()).count();
    Ok((all.len() - sandboxes, sandboxes))
}

fn wait_for_counts(node: &Node, what: &str, wanted: (usize, usize)) -> Result<()> {
    node.explained(wait::until(what, PASSES, || {
        let found = counts(node)?;
        Ok(if found == wanted { Ok(()) } else { Err(format!("{found:?}")) })
    }))
}

fn wait_for_names(node: &Node, directory: &str, wanted: impl Fn(&[String]) -> bool) -> Result<()> {
    node.explained(wait::until(&format!("the names in {directory}"), PASSES, || {
        let found = node.names_in(directory)?;
        Ok(if wanted(&found) { Ok(()) } else { Err(format!("{found:?}")) })
    }))
}

fn dead(containers: &[RuntimeContainer]) -> usize {
    containers.iter().filter(|one| !one.is_alive()).count()
}

// behaviour: GC-14, GC-35, GC-60
#[test]
fn maximum_dead_containers_per_container_keeps_the_newest_with_logs() -> Result<()> {
    let mut node = Node::start()?;
    node.configure(
        "crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n\
         featureGates: {KubeletCrashLoopBackOffMax: true}",
    )?;
    node.write_manifest("web.yaml", &pod("web", "Always", "[sleep, forever]"))?;
    node.start_agent_with_flags(&["--maximum-dead-containers-per-container=2"])?;
    let mut running = node.wait_running("web")?;
    for _ in 0..4 {
        node.run("kill", &["-9", &running.pid.to_string()])?;
        running = node.wait_for_containers("web", "the next one runs", |containers| {
            one_running(containers).filter(|next| next.id != running.id)
        })?;
    }
    let kept = node.wait_for_containers("web", "two dead ones are kept", |containers| {
        (dead(containers) == 2).then(|| containers.to_vec())
    })?;
    ensure!(kept.iter().any(|one| one.id == running.id), "{kept:?}");
    let logs = node.run("sh", &["-c", "cd /var/log/pods/*web*/main && ls"])?;
    ensure!(logs.lines().eq(["2.log", "3.log", "4.log"]), "{logs}");
    // The agent links the newest log after the runtime reports the container as running.
    node.explained(wait::until("each instance has a link", PATIENCE, || {
        let links = node.names_in("/var/log/containers")?;
        Ok(if links.len() == 3 { Ok(()) } else { Err(format!("{links:?}")) })
    }))?;
    let still = node.wait_running("web")?;
    ensure!(still.id == running.id, "{still:?} instead of {running:?}");
    node.stop()
}

// behaviour: GC-17, GC-19, GC-42
#[test]
fn maximum_dead_containers_limits_dead_containers_of_the_node() -> Result<()> {
    let mut node = Node::start()?;
    for name in ["a", "b", "c"] {
        let manifest = pod(name, "Never", "[exit, \"0\"]");
        node.write_manifest(&format!("{name}.yaml"), &manifest)?;
    }
    node.write_manifest("web.yaml", &pod("web", "Always", "[sleep, forever]"))?;
    node.start_agent()?;
    let web = node.wait_running("web")?;
    for name in ["a", "b", "c"] {
        node.wait_for_log(&["Pod terminated and cleaned up", &format!("default/{name}-")])?;
    }
    wait_for_counts(&node, "each keeps its last", (4, 4))?;
    node.stop_agent()?;
    node.start_agent_with_flags(&["--maximum-dead-containers=1"])?;
    wait_for_counts(&node, "one dead one is kept, and the sandboxes of pods that exist", (2, 4))?;
    ensure!(node.wait_running("web")?.id == web.id);
    ensure!(node.names_in("/var/log/pods")?.len() == 4, "pods that exist keep their directories");
    node.stop()
}

// behaviour: GC-4, GC-50, GC-55, GC-76
#[test]
fn resources_of_deleted_and_unknown_pods_are_removed() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &pod("web", "Always", "[sleep, forever]"))?;
    node.write_manifest("gone.yaml", &pod("gone", "Always", "[sleep, forever]"))?;
    let own = own_settings(&node, RARE_GC)?;
    node.start_agent_with_flags(&[&own])?;
    let web = node.wait_running("web")?;
    node.wait_running("gone")?;
    node.remove_manifest("gone.yaml")?;
    let begun = std::time::Instant::now();
    wait_for_counts(&node, "only the other is left", (1, 1))?;
    let of_gone = |found: &[String]| found.iter().any(|name| name.contains("gone"));
    wait_for_names(&node, "/var/log/pods", |found| !of_gone(found))?;
    wait_for_names(&node, "/var/log/containers", |found| !of_gone(found))?;
    let took = begun.elapsed();
    ensure!(took < SOON, "it took {took:?}");
    restart_with_frequent_gc(&mut node)?;
    let stray = "mkdir -p /var/log/pods/ns_stray_123/main && echo > /var/log/pods/ns_stray_123/main/0.log && \
                 ln -s /nowhere /var/log/containers/stray_ns_main-0123456789abcdef.log";
    node.run("sh", &["-c", stray])?;
    let only_web = |found: &[String]| matches!(found, [one] if one.contains("web"));
    wait_for_names(&node, "/var/log/pods", only_web)?;
    wait_for_names(&node, "/var/log/containers", only_web)?;
    ensure!(node.wait_running("web")?.id == web.id);
    node.stop()
}

// behaviour: GC-3, GC-40, GC-43
#[test]
fn dead_sandbox_is_removed_when_replaced_and_kept_for_a_finished_pod() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &pod("web", "Always", "[sleep, forever]"))?;
    node.write_manifest("job.yaml", &pod("job", "Never", "[args, done]"))?;
    start_with_frequent_gc(&mut node, &[])?;
    let web = node.wait_running("web")?;
    node.wait_for_log(&["Pod terminated and cleaned up", "default/job-"])?;
    let all = containerd::containers(node.instance())?;
    let name = format!("web-{NODE_NAME}");
    let sandbox = all.iter().find(|one| one.is_sandbox() && one.pod == name);
    let sandbox = sandbox.context("the pod has a sandbox")?;
    node.run("kill", &["-9", &sandbox.pid.to_string()])?;
    node.wait_for_containers("web", "it runs anew", |containers| {
        one_running(containers).filter(|next| next.id != web.id)
    })?;
    // The dead container of the first sandbox is kept, and its sandbox with it.
    wait_for_counts(&node, "both sandboxes are in use", (3, 3))?;
    let second = node.wait_running("web")?;
    node.run("kill", &["-9", &second.pid.to_string()])?;
    node.wait_for_containers("web", "it runs once more", |containers| {
        one_running(containers).filter(|next| next.id != second.id)
    })?;
    wait_for_counts(&node, "the first sandbox is removed with its container", (3, 2))?;
    let log = node.run("sh", &["-c", "cat /var/log/pods/*job*/main/0.log"])?;
    ensure!(log.contains("done"), "{log}");
    node.stop()
}

/// The ids of containers, or of sandboxes, of all pods but one.
fn ids_besides(node: &Node, pod: &str, sandboxes: bool) -> Result<BTreeSet<String>> {
    let mut all = containerd::containers(node.instance())?;
    all.retain(|one| one.is_sandbox() == sandboxes && !one.pod.starts_with(pod));
    Ok(all.into_iter().map(|one| one.id).collect())
}

/// The ids whose removal is in the journal.
fn on_record(node: &Node, ids: &BTreeSet<String>) -> BTreeSet<String> {
    let was_removed = |id: &&String| {
        let why = node.ferrolet(&["gc", "why", id]);
        why.is_ok_and(|why| why.contains("was removed") && why.contains("pod-is-gone"))
    };
    ids.iter().filter(was_removed).cloned().collect()
}

/// Starts an agent whose removals fail, except the first two, and kills it at the fault. Returns the containers that
/// are gone without a successful response.
fn die_in_the_middle(node: &mut Node, proxy: &CriProxy, fault: &str) -> Result<BTreeSet<String>> {
    let spoilt = || -> Result<u64> {
        Ok(proxy.spoilt()?.get("RemoveContainer").copied().unwrap_or_default())
    };
    let (before, met) = (ids_besides(node, "web", false)?, spoilt()?);
    proxy.fault(&format!("RemoveContainer={fault} skip=2 times=all"))?;
    node.start_agent()?;
    let known = node.explained(wait::until("the pass is interrupted", PASSES, || {
        let gone = &before - &ids_besides(node, "web", false)?;
        let known = on_record(node, &gone);
        // At most two calls succeed: of more that are gone, the agent cannot know of one.
        let is_there = fault != "late" || (gone.len() > 2 && known.len() < gone.len());
        let explained = format!("{gone:?} are gone, {known:?} on record");
        let is_there = is_there && !known.is_empty() && spoilt()? > met;
        Ok(if is_there { Ok(known) } else { Err(explained) })
    }))?;
    node.kill_agent()?;
    proxy.wait_until_done(PASSES)?;
    let gone = &before - &ids_besides(node, "web", false)?;
    ensure!(gone.len() < before.len(), "{fault}: nothing is left to do");
    // No agent runs: the command reads the files on disk.
    let on_disk = on_record(node, &gone);
    ensure!(on_disk.is_superset(&known), "{fault}: {on_disk:?} lacks some of {known:?}");
    let unconfirmed = &gone - &on_disk;
    for id in &unconfirmed {
        let why = node.ferrolet(&["gc", "why", id])?;
        ensure!(why.contains("was being removed"), "{fault}: {why}");
    }
    proxy.clear()?;
    Ok(unconfirmed)
}

/// Adds a pod that ends, and waits for its end.
fn run_job(node: &Node, name: &str) -> Result<()> {
    node.write_manifest(&format!("{name}.yaml"), &pod(name, "Never", "[exit, \"0\"]"))?;
    node.wait_for_log(&["Pod terminated and cleaned up", &format!("default/{name}-")]).map(drop)
}

/// Waits until a pass has logged a failed call.
fn wait_until_met(node: &Node, what: &str, call: &str) -> Result<()> {
    node.explained(wait::until(&format!("{what}: {call}"), PASSES, || {
        let log = node.agent_log();
        let is_logged = log.lines().any(|line| line.contains(what) && line.contains(call));
        Ok(if is_logged { Ok(()) } else { Err("no pass has met it".to_owned()) })
    }))
}

// behaviour: GC-72, GC-73, GC-80, GC-84
#[test]
fn next_gc_pass_completes_after_any_failed_call() -> Result<()> {
    let mut node = Node::start()?;
    let proxy = node.put_proxy_before_runtime()?;
    node.configure("runtimeRequestTimeout: 2s")?;
    node.write_manifest("web.yaml", &pod("web", "Always", "[sleep, forever]"))?;
    start_with_frequent_gc(&mut node, &[])?;
    let web = node.wait_running("web")?;

    // Other parts make these calls too, so each fails until a pass has logged it.
    let removals =
        ["StopPodSandbox=unavailable", "RemoveContainer=deadline", "RemovePodSandbox=hang"];
    for (number, fault) in removals.iter().enumerate() {
        let (name, method) = (format!("job{number}"), fault.split('=').next().unwrap_or_default());
        run_job(&node, &name)?;
        proxy.fault(&format!("{fault} times=all"))?;
        node.remove_manifest(&format!("{name}.yaml"))?;
        wait_until_met(&node, "Removal failed", method)?;
        proxy.clear()?;
    }
    wait_for_counts(&node, "a later pass removes what could not be removed", (1, 1))?;

    for (fault, list) in
        [("ListPodSandbox=hang", "sandboxes"), ("ListContainers=unavailable", "containers")]
    {
        proxy.fault(&format!("{fault} times=all"))?;
        let run = node.ferrolet(&["gc", "run"]);
        ensure!(run.is_err(), "{run:?}");
        let failed = format!("failed to list {list}");
        wait_until_met(&node, "Container garbage collection failed", &failed)?;
        proxy.clear()?;
    }

    // Logs are removed if the pod keeps some of its logs: here an existing pod keeps no container.
    node.stop_agent()?;
    let flags = ["--maximum-dead-containers=0", "--minimum-container-ttl-duration=15s"];
    start_with_frequent_gc(&mut node, &flags)?;
    run_job(&node, "last")?;
    proxy.fault("ContainerStatus=unavailable times=all")?;
    wait_until_met(&node, "Removal failed", "ContainerStatus")?;
    ensure!(counts(&node)? == (2, 2), "{:?}", counts(&node)?);
    proxy.clear()?;
    wait_for_counts(&node, "a later pass makes up for it", (1, 2))?;
    node.remove_manifest("last.yaml")?;
    wait_for_counts(&node, "only the desired pod is left", (1, 1))?;
    wait_for_names(&node, "/var/log/pods", |found| found.len() == 1)?;
    ensure!(node.wait_running("web")?.id == web.id);
    node.stop()
}

// behaviour: GC-26, GC-27
#[tokio::test(flavor = "multi_thread")]
async fn container_in_unknown_state_is_stopped_before_removal() -> Result<()> {
    let mut node = tokio::task::block_in_place(Node::start)?;
    let runtime = node.runtime()?;
    let (web, proxy) = tokio::task::block_in_place(|| {
        let proxy = node.put_proxy_before_runtime()?;
        node.configure("runtimeRequestTimeout: 2s")?;
        node.write_manifest("web.yaml", &pod("web", "Always", "[sleep, forever]"))?;
        node.start_agent()?;
        let web = node.wait_running("web")?;
        node.stop_agent()?;
        anyhow::Ok((web, proxy))
    })?;
    // The worker of a pod would stop its container; this one has no pod.
    let filter = ContainerFilter { id: Some(web.id.as_str().into()), ..<_>::default() };
    let listed = runtime.list_containers(&filter).await?;
    let home = listed.first().context("the runtime lists what runs")?;
    let sandbox = wanted::sandbox(&home.pod, &home.pod_uid);
    let made = wanted::container(&sandbox, "bare", "ferrolet.test/workload:1", &["exit", "0"]);
    let config = ContainerConfig { labels: <_>::default(), ..made };
    let bare = runtime.create_container(&home.sandbox_id, &config, &sandbox).await?;
    runtime.start_container(&bare).await?;
    let is_there = |node: &Node| -> Result<bool> {
        Ok(containerd::containers(node.instance())?.iter().any(|one| one.id == bare.as_str()))
    };
    // The CRI plugin writes the status file when it handles the exit, after the task has stopped.
    wait_exited(&runtime, bare.as_str()).await?;
    tokio::task::block_in_place(|| {
        // A containerd that starts reads the exit status from this file.
        let known = format!("io.containerd.grpc.v1.cri/containers/{bare}/status");
        node.run("rm", &[&format!("/var/lib/containerd/{known}")])?;
        node.restart_runtime()?;
        proxy.fault("StopContainer=unavailable times=all")?;
        start_with_frequent_gc(&mut node, &[])?;
        wait_until_met(&node, "Removal failed", "StopContainer")?;
        ensure!(is_there(&node)?, "it was not stopped");
        proxy.clear()?;
        node.explained(wait::until("it is removed once it can be stopped", PASSES, || {
            Ok(if is_there(&node)? { Err("it is there".to_owned()) } else { Ok(()) })
        }))?;
        ensure!(node.wait_running("web")?.id == web.id);
        node.stop()
    })
}

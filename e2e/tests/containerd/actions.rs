//! Container actions of a pod: init containers, sidecars, hooks, restart policies, termination messages, and runtime
//! calls that complete too late.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cri::CriRuntime;
use e2e::node::{NODE_NAME, Node, PATIENCE, one_running};
use model::ids::{PodName, PodUid, SandboxId};
use model::observed::ContainerState;
use model::ports::runtime::{ContainerFilter, ContainerService, SandboxFilter, SandboxService};
use testbed::wait;
use testkit::wanted;

use crate::graces;
use crate::restarts::wait_for_restarts;

pub(crate) const IMAGE: &str = "ferrolet.test/workload:1";
pub(crate) const UID: &str = "0c6e5f5e-0000-4000-8000-0000000000ac";

/// The head of a manifest, with a fixed UID.
pub(crate) fn manifest(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {UID}}}\nspec:\n{}",
        spec.replace("IMAGE", IMAGE)
    )
}

/// The path of a container's log.
pub(crate) fn log(pod: &str, container: &str, number: u32) -> String {
    format!("/var/log/pods/default_{pod}-{NODE_NAME}_{UID}/{container}/{number}.log")
}

/// Waits until a log has a line with a text; returns its time. Times of one machine can be compared
/// as text.
pub(crate) fn written(node: &Node, log: &str, text: &str) -> Result<String> {
    wait::until(&format!("{log} has {text:?}"), PATIENCE, || {
        let content = node.read(log).unwrap_or_default();
        let line = content.lines().find(|line| line.contains(text));
        let time = line.and_then(|line| line.split(' ').next()).map(ToOwned::to_owned);
        Ok(time.ok_or(content))
    })
}

/// The directory for logs that outlive their pods.
const KEPT: &str = "/var/log/kept";

/// Keeps hard links to the logs of all containers: they are removed with their pod at any time.
fn keep_logs(node: &Node) -> Result<()> {
    // A log that is removed meanwhile does not belong to the test.
    let link = format!("cp -rl /var/log/pods {KEPT}; test -d {KEPT}");
    node.run("sh", &["-c", &link]).map(drop)
}

/// The path of a kept log of a container.
fn kept(pod: &str, container: &str, number: u32) -> String {
    log(pod, container, number).replacen("/var/log/pods", KEPT, 1)
}

/// Waits until a path inside the instance exists or does not.
fn wait_for_path(node: &Node, path: &str, exists: bool) -> Result<()> {
    wait::until(&format!("{path} exists: {exists}"), PATIENCE, || {
        let found = node.exists(path)?;
        Ok(if found == exists { Ok(()) } else { Err(format!("exists: {found}")) })
    })
}

// behaviour: ACT-70, ACT-73, ACT-65, ACT-74
#[test]
fn init_containers_and_sidecars_keep_their_order_in_a_new_sandbox() -> Result<()> {
    let mut node = Node::start()?;
    let spec = "
  terminationGracePeriodSeconds: 20
  initContainers:
  - {name: one, image: IMAGE, args: [args, first]}
  - {name: s1, image: IMAGE, restartPolicy: Always, args: [trap, TERM, --delay, 300ms]}
  - {name: two, image: IMAGE, args: [args, second]}
  - {name: s2, image: IMAGE, restartPolicy: Always, args: [trap, TERM, --delay, 300ms]}
  containers:
  - {name: main, image: IMAGE, args: [trap, TERM, --delay, 300ms]}
";
    node.write_manifest("ordered.yaml", &manifest("ordered", spec))?;
    node.start_agent()?;
    let mut times = Vec::new();
    let started = [
        ("one", "first"),
        ("s1", "trapping"),
        ("two", "second"),
        ("s2", "trapping"),
        ("main", "trapping"),
    ];
    for (container, text) in started {
        times.push(written(&node, &log("ordered", container, 0), text)?);
    }
    ensure!(times.is_sorted(), "started in another order: {times:?}");

    // A sidecar that dies is restarted while the others run.
    let running = |name: &'static str| {
        move |containers: &[e2e::containerd::RuntimeContainer]| {
            let named: Vec<_> = containers.iter().filter(|one| one.name == name).cloned().collect();
            one_running(&named)
        }
    };
    let main = node.wait_for_containers("ordered", "main runs", running("main"))?;
    let side = node.wait_for_containers("ordered", "s1 runs", running("s1"))?;
    node.run("kill", &["-9", &side.pid.to_string()])?;
    written(&node, &log("ordered", "s1", 1), "trapping")?;
    let after = node.wait_for_containers("ordered", "main runs", running("main"))?;
    ensure!(after == main, "{main:?}, then {after:?}");

    // When the sandbox dies all containers restart, init containers first.
    let sandbox = e2e::containerd::containers(node.instance())?
        .into_iter()
        .find(|one| one.pod.starts_with("ordered") && one.name.is_empty())
        .context("the pod has a sandbox")?;
    node.run("kill", &["-9", &sandbox.pid.to_string()])?;
    let again = written(&node, &log("ordered", "one", 1), "first")?;
    let main_again = written(&node, &log("ordered", "main", 1), "trapping")?;
    ensure!(again < main_again, "{again} {main_again}");
    node.wait_for_answer(&["describe", "ordered"], "SandboxChanged")?;

    keep_logs(&node)?;
    node.remove_manifest("ordered.yaml")?;
    node.wait_for_log(&["Pod terminated and cleaned up", "ordered"])?;
    let mut ends = vec![written(&node, &kept("ordered", "main", 1), "received")?];
    for side in ["s2", "s1"] {
        let logs = node.run("sh", &["-c", &format!("cat {KEPT}/*{UID}/{side}/*.log")])?;
        let last = logs.lines().rfind(|line| line.contains("received"));
        ends.push(last.and_then(|line| line.split(' ').next()).context(logs.clone())?.to_owned());
    }
    ensure!(ends.is_sorted(), "ended in another order: {ends:?}");
    node.stop()
}

/// The next container starts after the `postStart` hook of the previous one, which takes two seconds.
fn hook_is_waited_for(node: &Node) -> Result<()> {
    let begun = |container| seconds(&written(node, &log("hooked", container, 0), "trapping")?);
    let waited = begun("failing")? - begun("trapping")?;
    ensure!(waited > 1.2, "the next container started after {waited} s");
    Ok(())
}

// behaviour: ACT-82, ACT-83, ACT-85, ACT-62, ACT-63, ACT-67
#[test]
fn post_start_and_pre_stop_hooks_run() -> Result<()> {
    let mut node = Node::start()?;
    let spec = "
  terminationGracePeriodSeconds: 20
  containers:
  - name: web
    image: IMAGE
    args: [serve, '8080']
    lifecycle:
      postStart: {exec: {command: [/workload, write, /proc/1/fd/1, post-start]}}
      preStop: {httpGet: {path: /bye, port: 8080}}
  - name: patient
    image: IMAGE
    args: [trap, TERM]
    lifecycle:
      postStart: {httpGet: {path: /hello, port: 8080}}
      preStop: {sleep: {seconds: 2}}
  - name: trapping
    image: IMAGE
    args: [trap, TERM]
    lifecycle:
      postStart: {sleep: {seconds: 2}}
      preStop: {exec: {command: [/workload, write, /proc/1/fd/1, pre-stop]}}
  - name: failing
    image: IMAGE
    args: [trap, TERM]
    lifecycle:
      postStart: {exec: {command: [/workload, exit, '3']}}
";
    node.write_manifest("hooked.yaml", &manifest("hooked", spec))?;
    graces::write_manifests(&node)?;
    node.start_agent()?;
    written(&node, &log("hooked", "web", 0), "post-start")?;
    hook_is_waited_for(&node)?;
    let described = node.wait_for_answer(&["describe", "hooked"], "FailedPostStartHook")?;
    ensure!(described.contains("PostStartHook failed"), "{described}");
    written(&node, &log("hooked", "web", 0), "GET /hello HTTP/1.1")?;
    graces::wait_until_all_run(&node)?;
    keep_logs(&node)?;
    let begun = graces::remove_manifests(&node)?;
    node.remove_manifest("hooked.yaml")?;
    node.wait_for_log(&["Pod terminated and cleaned up", "hooked"])?;
    let bye = written(&node, &kept("hooked", "web", 0), "GET /bye HTTP/1.1")?;
    let hook = written(&node, &kept("hooked", "trapping", 0), "pre-stop")?;
    let signal = written(&node, &kept("hooked", "trapping", 0), "received")?;
    ensure!(hook <= signal, "the signal came before the hook: {hook} {signal}");
    let patient = written(&node, &kept("hooked", "patient", 0), "received")?;
    let waited = seconds(&patient)? - seconds(&bye)?;
    ensure!((1.5..15.0).contains(&waited), "stopped {waited} s after the hook began");
    graces::take_their_time(&node, begun)?;
    node.stop()
}

/// The time of day in seconds.
fn seconds(time: &str) -> Result<f64> {
    let of_day = time.split('T').nth(1).context("a time of day")?;
    let digits: String = of_day.chars().take_while(|c| *c != 'Z' && *c != '+').collect();
    let mut total = 0.0;
    for part in digits.split(':') {
        total = total * 60.0 + part.parse::<f64>()?;
    }
    Ok(total)
}

// behaviour: ACT-92, ACT-89, ACT-96
#[test]
fn termination_message_survives_agent_restart_and_is_removed_with_its_pod() -> Result<()> {
    let mut node = Node::start()?;
    let spec = "
  restartPolicy: Never
  containers:
  - {name: written, image: IMAGE, args: [write, /dev/termination-log, good-bye, --exit, '3']}
  - name: logged
    image: IMAGE
    terminationMessagePolicy: FallbackToLogsOnError
    args: [nonsense]
  - name: elsewhere
    image: IMAGE
    terminationMessagePath: /tmp/words
    args: [write, /tmp/words, from-elsewhere]
";
    node.write_manifest("dying.yaml", &manifest("dying", spec))?;
    node.start_agent()?;
    for round in ["the agent", "the next agent"] {
        node.wait_for_log(&["Pod terminated and cleaned up", "dying"])?;
        let described = node.ferrolet(&["describe", "dying"])?;
        // The output shows arguments too, so only the message line counts.
        for words in ["good-bye\n", "workload: unknown command nonsense ", "from-elsewhere\n"] {
            let is_shown = described.contains(&format!("Message:       {words}"));
            ensure!(is_shown, "{round} does not show {words:?}: {described}");
        }
        node.stop_agent()?;
        node.start_agent()?;
    }
    node.wait_for_log(&["Pod terminated and cleaned up", "dying"])?;
    let directory = node.root_dir().join("pods").join(UID).display().to_string();
    let files = node.run("find", &[&directory, "-type", "f", "-perm", "0666"])?;
    ensure!(files.lines().count() == 3, "{files}");
    node.remove_manifest("dying.yaml")?;
    wait_for_path(&node, &directory, false)?;
    node.stop()
}

// behaviour: ACT-42, ACT-56, ACT-57, ACT-68
#[test]
fn restart_policies_rules_back_off_and_stop_signals_are_applied() -> Result<()> {
    let mut node = Node::start()?;
    node.configure(
        "crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n\
         featureGates: {ContainerStopSignals: true}",
    )?;
    let spec = "
  restartPolicy: Never
  os: {name: linux}
  terminationGracePeriodSeconds: 20
  containers:
  - {name: once, image: IMAGE, args: [exit, '1']}
  - {name: always, image: IMAGE, restartPolicy: Always, args: [exit, '0']}
  - {name: failing, image: IMAGE, restartPolicy: OnFailure, args: [exit, '1']}
  - {name: content, image: IMAGE, restartPolicy: OnFailure, args: [exit, '0']}
  - name: ruled
    image: IMAGE
    args: [exit, '42']
    restartPolicy: Never
    restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
  - name: signalled
    image: IMAGE
    args: [trap, USR1]
    lifecycle: {stopSignal: SIGUSR1}
";
    node.write_manifest("ruled.yaml", &manifest("ruled", spec))?;
    let all = "
  containers:
  - name: asks
    image: IMAGE
    args: [crash-after, 500ms, '42']
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
  - {name: other, image: IMAGE, args: [trap, TERM]}
";
    let other_uid = UID.replace("ac", "ad");
    node.write_manifest("over.yaml", &manifest("over", all).replace(UID, &other_uid))?;
    node.start_agent()?;
    for container in ["always", "ruled", "failing"] {
        wait_for_restarts(&node, "default_ruled-", container)?;
    }
    for container in ["once", "content"] {
        let again = node.exists(&log("ruled", container, 1))?;
        ensure!(!again, "{container} was restarted");
    }
    written(&node, &log("over", "other", 1).replace(UID, &other_uid), "trapping")?;
    written(&node, &log("ruled", "signalled", 0), "trapping")?;
    keep_logs(&node)?;
    node.remove_manifest("ruled.yaml")?;
    node.wait_for_log(&["Pod terminated and cleaned up", "ruled"])?;
    written(&node, &kept("ruled", "signalled", 0), "received")?;
    node.stop()
}

// behaviour: ACT-44
#[test]
fn changed_container_spec_restarts_only_that_container() -> Result<()> {
    let mut node = Node::start()?;
    let spec = "
  terminationGracePeriodSeconds: 20
  containers:
  - {name: changes, image: IMAGE, args: [trap, TERM]}
  - {name: stays, image: IMAGE, args: [trap, TERM]}
";
    let before = manifest("edited", spec);
    node.write_manifest("edited.yaml", &before)?;
    node.start_agent()?;
    let both = |containers: &[e2e::containerd::RuntimeContainer]| {
        let running = containers.iter().filter(|one| one.state == "RUNNING");
        let mut running: Vec<_> = running.cloned().collect();
        running.sort_by(|one, other| one.name.cmp(&other.name));
        (running.len() == 2).then_some(running)
    };
    let first = node.wait_for_containers("edited", "both run", both)?;
    written(&node, &log("edited", "changes", 0), "trapping")?;
    node.write_manifest("edited.yaml", &before.replacen(IMAGE, "ferrolet.test/disposable:1", 1))?;
    let second = node.wait_for_containers("edited", "another one runs", |containers| {
        both(containers).filter(|running| running[0].id != first[0].id)
    })?;
    ensure!(second[1] == first[1], "{first:?}, then {second:?}");
    ensure!(second[0].netns == first[0].netns, "{first:?}, then {second:?}");
    written(&node, &log("edited", "changes", 0), "received")?;
    written(&node, &log("edited", "changes", 1), "trapping")?;
    node.stop()
}

/// Waits until the runtime reports the exit of a container whose process was killed. An agent that starts before that
/// finds the container running, and correctly removes its replacement.
pub(crate) async fn wait_exited(runtime: &CriRuntime, id: &str) -> Result<()> {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let state = runtime.container_status(&id.into()).await?.state;
        if state == ContainerState::Exited {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < end, "container {id} is still {state:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// behaviour: ACT-100, ACT-102, ACT-103
#[tokio::test(flavor = "multi_thread")]
async fn container_created_after_its_call_timed_out_is_used() -> Result<()> {
    let mut node = tokio::task::block_in_place(Node::start)?;
    let runtime = node.runtime()?;
    let spec = "
  terminationGracePeriodSeconds: 2
  containers:
  - {name: main, image: IMAGE, args: [trap, TERM]}
";
    // As if the call for its sandbox had been cancelled before the agent was killed.
    let pod = PodName::new("default", format!("late-{NODE_NAME}"));
    let uid = PodUid::from(UID);
    let mut sandbox = wanted::sandbox(&pod, &uid);
    sandbox.cgroup_parent = String::new();
    let made = runtime.run_pod_sandbox(&sandbox).await?;
    tokio::task::block_in_place(|| {
        node.write_manifest("late.yaml", &manifest("late", spec))?;
        node.start_agent()?;
        written(&node, &log("late", "main", 0), "trapping")
    })?;
    let of_pod = SandboxFilter { pod_uid: Some(uid.clone()), ..SandboxFilter::default() };
    let sandboxes = runtime.list_pod_sandboxes(&of_pod).await?;
    ensure!(sandboxes.len() == 1 && sandboxes[0].id == made, "{sandboxes:?}");

    // The same for the second instance of its container.
    let first = tokio::task::block_in_place(|| {
        let first = node.wait_running("late")?;
        node.kill_agent()?;
        node.run("kill", &["-9", &first.pid.to_string()])?;
        anyhow::Ok(first)
    })?;
    wait_exited(&runtime, &first.id).await?;
    let status = runtime.container_status(&first.id.as_str().into()).await?;
    let late = Late { runtime: &runtime, sandbox: &made, config: &sandbox };
    let labels = wanted::container(&sandbox, "main", IMAGE, &[]).labels;
    let second = late.create(1, labels, status.annotations).await?;
    tokio::task::block_in_place(|| {
        node.start_agent()?;
        written(&node, &log("late", "main", 1), "trapping")
    })?;
    let adopted = tokio::task::block_in_place(|| node.wait_running("late"))?;
    ensure!(adopted.id == second, "{adopted:?} is not {second}");

    // And a name that is reserved by something without a pod.
    tokio::task::block_in_place(|| {
        node.kill_agent()?;
        node.run("kill", &["-9", &adopted.pid.to_string()])
    })?;
    wait_exited(&runtime, &adopted.id).await?;
    let stray = late.create(2, BTreeMap::new(), BTreeMap::new()).await?;
    // While it runs it is not removed.
    runtime.start_container(&stray.as_str().into()).await?;
    tokio::task::block_in_place(|| {
        node.start_agent()?;
        written(&node, &log("late", "main", 3), "trapping")
    })?;
    let filter = ContainerFilter { pod_uid: Some(uid), ..ContainerFilter::default() };
    let listed = runtime.list_containers(&filter).await?;
    let numbers: Vec<u32> = listed.iter().map(|one| one.attempt).collect();
    ensure!(numbers.contains(&3) && !listed.iter().any(|one| one.id.as_str() == stray));
    tokio::task::block_in_place(|| node.stop())
}

/// Creates containers as an agent would.
struct Late<'a> {
    runtime: &'a CriRuntime,
    sandbox: &'a SandboxId,
    config: &'a model::wanted::SandboxConfig,
}

impl Late<'_> {
    async fn create(
        &self,
        attempt: u32,
        labels: BTreeMap<String, String>,
        mut annotations: BTreeMap<String, String>,
    ) -> Result<String> {
        let count = annotations.get_mut("io.kubernetes.container.restartCount");
        count.map(|count| *count = attempt.to_string()).unwrap_or_default();
        let made = wanted::container(self.config, "main", IMAGE, &["trap", "TERM"]);
        let config = model::wanted::ContainerConfig {
            attempt,
            labels,
            annotations,
            log_path: format!("main/{attempt}.log"),
            ..made
        };
        let id = self.runtime.create_container(self.sandbox, &config, self.config).await?;
        Ok(id.to_string())
    }
}

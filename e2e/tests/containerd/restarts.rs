//! Restarts of containers, their attempt numbers, and their labels and annotations.

mod soak;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::containerd;
use e2e::node::{NODE_NAME, Node, PATIENCE};
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use model::labels;
use model::ports::runtime::{ContainerFilter, ContainerService};
use model::verdict::Subject;
use proto::runtime_v1::PodSandboxStatusRequest;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use serde_json::Value;
use testbed::wait;
use testkit::wanted;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Uri};
use tower::service_fn;

use crate::actions::{IMAGE, UID, log, manifest, written};
use crate::container::pod;

/// The restarts within a minute with a back-off of a second. With upstream's own back-off the fourth comes after more
/// than a minute, the fifth after two and a half.
const OFTEN: u32 = 5;

/// The log files of a container by number, in the log directories with this prefix.
fn logs(node: &Node, pods: &str, container: &str) -> Result<BTreeMap<u32, String>> {
    let root = "/var/log/pods";
    let mut logs = BTreeMap::new();
    for pod in node.names_in(root)?.iter().filter(|name| name.starts_with(pods)) {
        let directory = format!("{root}/{pod}/{container}");
        for name in node.names_in(&directory)? {
            if let Some(number) = name.strip_suffix(".log").and_then(|name| name.parse().ok()) {
                logs.insert(number, format!("{directory}/{name}"));
            }
        }
    }
    Ok(logs)
}

/// Waits until the restart count of a container shows that the configured back-off limit is in effect. Only the
/// highest number counts: the logs of earlier instances are removed.
pub(crate) fn wait_for_restarts(node: &Node, pods: &str, container: &str) -> Result<()> {
    let what = format!("{container} of {pods} has number {OFTEN}");
    node.explained(wait::until(&what, PATIENCE, || {
        let logs = logs(node, pods, container)?;
        let is_there = logs.last_key_value().is_some_and(|(number, _)| *number >= OFTEN);
        Ok(if is_there { Ok(()) } else { Err(format!("{logs:?}")) })
    }))
}

/// Waits until the status of a pod in the agent's output is as it should be.
pub(crate) fn wait_for_status(
    node: &Node,
    pod: &str,
    what: &str,
    mut is_so: impl FnMut(&Value) -> bool,
) -> Result<()> {
    let name = format!("{pod}-{NODE_NAME}");
    node.explained(wait::until(what, PATIENCE, || {
        let output = node.ferrolet(&["get", "pods", "-A", "-o", "json"])?;
        let list: Value = serde_json::from_str(&output).context("read the pod list")?;
        let mut pods = list["items"].as_array().into_iter().flatten();
        let status = pods.find(|pod| pod["metadata"]["name"] == name).map(|pod| &pod["status"]);
        Ok(if status.is_some_and(&mut is_so) { Ok(()) } else { Err(format!("{list:#}")) })
    }))
}

/// A pod with an init container, with its exit and its restart policy.
fn prepared(name: &str, policy: &str, how: &str) -> String {
    let init = format!("initContainers: [{{name: prepare, image: '{IMAGE}', {how}}}]");
    pod(name, &init, &[("main", "[sleep, forever]", "")]).replacen("Never", policy, 1)
}

// behaviour: ACT-22, ACT-27, ACT-71, ACT-75
#[test]
fn failed_init_container_is_retried_or_fails_the_pod() -> Result<()> {
    let mut node = Node::start()?;
    node.configure("crashLoopBackOff: {maxContainerRestartPeriod: 1s}")?;
    let rule = "restartPolicy: Never, restartPolicyRules: \
                [{action: Restart, exitCodes: {operator: NotIn, values: [0, 3]}}]";
    let pods = [
        ("retried", "OnFailure", "args: [exit, '3']".to_owned()),
        ("ruled", "Never", format!("args: [exit, '42'], {rule}")),
        ("over", "Always", format!("args: [exit, '3'], {rule}")),
    ];
    for (name, policy, how) in &pods {
        node.write_manifest(&format!("{name}.yaml"), &prepared(name, policy, how))?;
    }
    node.start_agent()?;
    node.wait_for_log(&["Pod terminated and cleaned up", &format!("shop/over-{NODE_NAME}")])?;
    wait_for_status(&node, "over", "it has failed", |status| {
        let end = &status["initContainerStatuses"][0]["state"]["terminated"];
        status["phase"] == "Failed" && end["exitCode"] == 3
    })?;
    for name in ["retried", "ruled"] {
        wait_for_restarts(&node, &format!("shop_{name}-"), "prepare")?;
        wait_for_status(&node, name, "there are several retries", |status| {
            let count = status["initContainerStatuses"][0]["restartCount"].as_i64();
            status["phase"] == "Pending" && count >= Some(i64::from(OFTEN))
        })?;
    }
    let logs = node.run("find", &["/var/log/pods", "-name", "*.log"])?;
    ensure!(!logs.contains("/main/"), "started beside its init container: {logs}");
    let of_over: Vec<&str> = logs.lines().filter(|log| log.contains("shop_over-")).collect();
    ensure!(of_over.len() == 1 && of_over[0].ends_with("/prepare/0.log"), "{logs}");
    // Only the last dead instance is kept, and the running one.
    for name in ["retried", "ruled"] {
        let count = logs.lines().filter(|log| log.contains(&format!("shop_{name}-"))).count();
        ensure!((1..=3).contains(&count), "{logs}");
    }
    node.stop()
}

/// The times of the first log lines of a container's instances, by number. Logs of earlier instances may be removed
/// before they are seen. Polls until the instance with this number has logged.
fn beginnings(node: &Node, pod: &str, last: u32) -> Result<BTreeMap<u32, Timestamp>> {
    let pods = format!("shop_{pod}-{NODE_NAME}_");
    let mut times: BTreeMap<u32, Timestamp> = BTreeMap::new();
    node.explained(wait::until(&format!("number {last} of {pod} writes"), PATIENCE, || {
        let mut logs = logs(node, &pods, "main")?;
        logs.retain(|number, _| !times.contains_key(number));
        for (number, log) in &logs {
            // A log may be removed meanwhile, or still be empty.
            let content = node.read(log).unwrap_or_default();
            let time = content.split(' ').next().and_then(|time| time.parse().ok());
            times.extend(time.map(|time: Timestamp| (*number, time)));
        }
        Ok(if times.contains_key(&last) { Ok(()) } else { Err(format!("{times:?}: {logs:?}")) })
    }))?;
    Ok(times)
}

// behaviour: ACT-57
#[test]
fn container_restarts_after_the_configured_back_off() -> Result<()> {
    let mut node = Node::start()?;
    // The back-off in seconds after instance 1 and the later ones; instance 0 is followed at once.
    let rows: [(&str, &str, &[i64]); 2] = [
        ("bounded", "crashLoopBackOff: {maxContainerRestartPeriod: 2s}", &[2]),
        ("reduced", "featureGates: {ReduceDefaultCrashLoopBackOffDecay: true}", &[1, 2]),
    ];
    for (name, settings, waits) in rows {
        node.configure(settings)?;
        // Its first line is half a second older than its end: log lines are never written that late.
        let ending = pod(name, "", &[("main", "[logs, --rate, '2', --count, '2']", "")]);
        let file = format!("{name}.yaml");
        node.write_manifest(&file, &ending.replacen("Never", "Always", 1))?;
        node.start_agent()?;
        let times = beginnings(&node, name, u32::try_from(waits.len())? + 1)?;
        let time = |number: u32| {
            times.get(&number).with_context(|| format!("number {number} was not seen: {times:?}"))
        };
        for (number, least) in (1..).zip(waits) {
            let between = time(number + 1)?.duration_since(*time(number)?);
            // With default settings it would be 10 s and more.
            let expected = SignedDuration::from_secs(*least)..SignedDuration::from_secs(10);
            ensure!(expected.contains(&between), "{name}: {between:?} after {number}: {times:?}");
        }
        node.wait_for_log(&["CrashLoopBackOff", name])?;
        node.remove_manifest(&file)?;
        node.stop_agent()?;
    }
    node.stop()
}

/// The ids of the sandboxes.
fn sandboxes(node: &Node) -> Result<Vec<String>> {
    let mut all = containerd::containers(node.instance())?;
    all.retain(containerd::RuntimeContainer::is_sandbox);
    Ok(all.into_iter().map(|sandbox| sandbox.id).collect())
}

/// Checks the annotations of an instance of the container of the pod `marked`.
fn is_marked(node: &Node, id: &str, number: u32) -> Result<()> {
    let mut found =
        node.with_runtime(async |runtime| Ok(runtime.container_status(&id.into()).await?))?;
    ensure!(*found.log_path == *log("marked", "main", number), "{}", found.log_path);
    found.annotations.remove(labels::CONTAINER_SIZE).context("it has no size")?;
    let number = number.to_string();
    let annotations = [
        ("io.kubernetes.container.hash", "4e6e9e94"),
        (
            "io.kubernetes.container.ports",
            r#"[{"name":"web","containerPort":80,"protocol":"TCP"}]"#,
        ),
        (
            "io.kubernetes.container.preStopHandler",
            r#"{"exec":{"command":["/workload","exit","0"]}}"#,
        ),
        ("io.kubernetes.container.restartCount", number.as_str()),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        ("io.kubernetes.container.terminationMessagePolicy", "File"),
        ("io.kubernetes.pod.terminationGracePeriod", "7"),
    ];
    ensure!(found.annotations == texts(&annotations), "{:#?}", found.annotations);
    let pod = of_pod();
    let labels = [&pod[..], &[("io.kubernetes.container.name", "main")]].concat();
    let found = containerd::labels(node.instance(), id)?;
    ensure!(found == texts(&labels), "{found:#?}");
    Ok(())
}

/// The labels of everything of the pod `marked`.
fn of_pod() -> [(&'static str, &'static str); 3] {
    [
        ("io.kubernetes.pod.name", "marked-e2e"),
        ("io.kubernetes.pod.namespace", "default"),
        ("io.kubernetes.pod.uid", UID),
    ]
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Checks the labels and annotations of the sandbox of the pod `marked`: from the pod, and from its source.
fn sandbox_is_marked(node: &Node, id: &str) -> Result<()> {
    let found = containerd::labels(node.instance(), id)?;
    let pod = of_pod();
    ensure!(found == texts(&[&pod[..], &[("app", "web")]].concat()), "{found:#?}");
    let mut found = sandbox_annotations(node, id)?;
    found.remove(labels::POD_SIZES).context("it has no sizes")?;
    let seen = found.remove("kubernetes.io/config.seen").context("it has no time")?;
    seen.parse::<Timestamp>().with_context(|| format!("{seen} is no time"))?;
    let annotations = [
        ("kubernetes.io/config.hash", UID),
        ("kubernetes.io/config.source", "file"),
        ("note", "its own"),
    ];
    ensure!(found == texts(&annotations), "{found:#?}");
    Ok(())
}

/// The annotations of a sandbox. The agent's client reads no more of them than the agent needs.
fn sandbox_annotations(node: &Node, id: &str) -> Result<BTreeMap<String, String>> {
    let socket = node.instance().containerd_socket();
    let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
    let calls = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let calls = calls.context("start a runtime for calls")?;
    let answer = calls.block_on(async {
        let dial = service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The address is never used.
        let channel = Channel::builder(Uri::from_static("http://localhost"));
        let channel = channel.connect_with_connector(dial).await?;
        anyhow::Ok(RuntimeServiceClient::new(channel).pod_sandbox_status(request).await?)
    })?;
    Ok(answer.into_inner().status.context("an answer has a status")?.annotations)
}

/// Removes all containers of the pod `marked`.
fn forget_containers(node: &Node) -> Result<()> {
    node.with_runtime(async |runtime| {
        let filter = ContainerFilter { pod_uid: Some(UID.into()), ..ContainerFilter::default() };
        for one in runtime.list_containers(&filter).await? {
            runtime.remove_container(&wanted::removal(Subject::Container(one.id))).await?;
        }
        let left = runtime.list_containers(&filter).await?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
}

// behaviour: ACT-300, CON-10, CON-11, CON-14
#[test]
fn annotations_match_upstream_and_restart_counts_survive_a_lost_runtime() -> Result<()> {
    let mut node = Node::start()?;
    let spec = "
  terminationGracePeriodSeconds: 7
  containers:
  - name: main
    image: IMAGE
    args: [trap, TERM]
    ports: [{name: web, containerPort: 80}]
    lifecycle: {preStop: {exec: {command: [/workload, exit, '0']}}}
";
    // The second label is one of the agent's own names.
    let own = "annotations: {note: its own}, \
               labels: {app: web, io.kubernetes.pod.name: somebody-else}, uid:";
    node.write_manifest("marked.yaml", &manifest("marked", spec).replacen("uid:", own, 1))?;
    node.start_agent()?;
    for number in 0..3 {
        written(&node, &log("marked", "main", number), "trapping")?;
        let running = node.wait_running("marked")?;
        is_marked(&node, &running.id, number)?;
        match number {
            0 => drop(node.run("kill", &["-9", &running.pid.to_string()])?),
            1 => {
                node.kill_agent()?;
                forget_containers(&node)?;
                node.start_agent()?;
            }
            _ => {}
        }
    }
    wait_for_status(&node, "marked", "it was restarted twice", |status| {
        status["containerStatuses"][0]["restartCount"] == 2
    })?;
    let all = containerd::containers(node.instance())?;
    let sandbox = all.iter().find(|one| one.is_sandbox()).context("the pod has a sandbox")?;
    sandbox_is_marked(&node, &sandbox.id)?;
    node.stop()
}

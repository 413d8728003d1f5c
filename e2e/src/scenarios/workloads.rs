//! Workloads of controllers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use testbed::wait;

use crate::api::Patch;
use crate::cluster_node::{
    ClusterNode, NAMESPACE, PODS, condition, is_ready, log_directory, pod, pod_spec,
};
use crate::containerd;
use crate::node::{NODE_NAME, PATIENCE};

use super::deletion::{let_go, make_held, wait_held};

/// The controllers of the scenarios.
pub(super) const CONTROLLERS: [&str; 7] = [
    "daemonset-controller",
    "deployment-controller",
    "garbage-collector-controller",
    "job-controller",
    "node-lifecycle-controller",
    "replicaset-controller",
    "taint-eviction-controller",
];

const APPS: &str = "/apis/apps/v1/namespaces/shop";
const JOBS: &str = "/apis/batch/v1/namespaces/shop/jobs";

/// How long the logs of a removed pod may stay: upstream removes them once a minute.
const CLEANED: Duration = Duration::from_secs(100);

/// How many pods the deployment has at its largest.
const REPLICAS: usize = 30;

/// The pod template of a controller.
fn template(app: &str, spec: &Value) -> Value {
    json!({ "metadata": { "labels": { "app": app } }, "spec": spec })
}

/// Deletes an object of a controller, with its pods. A job would orphan its pods by default.
fn delete(cluster: &ClusterNode, path: &str) -> Result<()> {
    cluster.api().delete(&format!("{path}?propagationPolicy=Background"))?;
    cluster.wait_gone(path, PATIENCE)
}

/// Scales a deployment up to many pods and down to none.
pub(super) fn deployment(cluster: &ClusterNode) -> Result<()> {
    let web = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "web" } },
            "template": template("web", &pod_spec(&["sleep", "forever"])),
        },
    });
    cluster.api().create(&format!("{APPS}/deployments"), &web)?;
    let path = format!("{APPS}/deployments/web");
    let scale = |replicas: usize| {
        cluster.api().patch(&path, Patch::Merge, &json!({ "spec": { "replicas": replicas } }))
    };
    let ready = |replicas: usize| {
        cluster.wait_none_left(&path, &format!("{replicas} pods are ready"), |web| {
            let ready = web["status"]["readyReplicas"].as_u64().unwrap_or_default();
            Some(replicas.abs_diff(usize::try_from(ready).ok()?))
        })
    };
    ready(1)?;
    scale(REPLICAS)?;
    ready(REPLICAS)?;
    let all = cluster.wait_for_pods("app=web", "all are there", |pods| {
        (pods.len() == REPLICAS && pods.iter().all(is_ready)).then(|| pods.to_vec())
    })?;
    let addresses: BTreeSet<&str> =
        all.iter().filter_map(|pod| pod["status"]["podIP"].as_str()).collect();
    ensure!(addresses.len() == REPLICAS, "{addresses:?}");
    for pod in &all {
        let status = &pod["status"]["containerStatuses"][0];
        ensure!(status["restartCount"] == 0 && status["started"] == true, "{pod}");
    }
    cluster.look_at_as(&all[0], "of-a-deployment")?;
    scale(0)?;
    cluster.wait_for_no_pods("app=web")?;
    delete(cluster, &path)
}

/// One pod for each node, and there is one node.
pub(super) fn daemon_set(cluster: &ClusterNode) -> Result<()> {
    let collector = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": "collector" },
        "spec": {
            "selector": { "matchLabels": { "app": "collector" } },
            "template": template("collector", &pod_spec(&["sleep", "forever"])),
        },
    });
    cluster.api().create(&format!("{APPS}/daemonsets"), &collector)?;
    let path = format!("{APPS}/daemonsets/collector");
    let ready = |generation: u32| {
        cluster.wait_for(&path, "its pod is ready", |set| {
            let status = &set?["status"];
            let is_ready = status["numberReady"] == 1 && status["updatedNumberScheduled"] == 1;
            (is_ready && status["observedGeneration"] == generation).then_some(())
        })
    };
    ready(1)?;
    let its_pod = || {
        cluster.wait_for_pods("app=collector", "its pod", |pods| {
            pods.first().filter(|pod| is_ready(pod)).cloned()
        })
    };
    let first = its_pod()?;
    cluster.look_at_as(&first, "of-a-daemon-set")?;
    // A new version: the old pod is deleted before the new one is created.
    let change =
        json!({ "spec": { "template": { "metadata": { "labels": { "version": "2" } } } } });
    cluster.api().patch(&path, Patch::Merge, &change)?;
    ready(2)?;
    ensure!(first["metadata"]["uid"] != its_pod()?["metadata"]["uid"], "it was not recreated");
    delete(cluster, &path)?;
    cluster.wait_for_no_pods("app=collector")
}

/// A job that succeeds and one that fails: their logs and statuses stay until the jobs are deleted, across GC passes.
pub(super) fn jobs(cluster: &ClusterNode) -> Result<()> {
    let kinds: [(&str, &[&str], &str, i32, &str); 2] = [
        ("good", &["args", "all", "done"], "Complete", 0, "all\ndone\n"),
        (
            "bad",
            &["write", "/dev/stderr", "went wrong", "--exit", "3"],
            "Failed",
            3,
            "went wrong\n",
        ),
    ];
    for (name, args, ..) in kinds {
        let mut spec = pod_spec(args);
        spec["restartPolicy"] = "Never".into();
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": name },
            "spec": { "backoffLimit": 0, "template": template(name, &spec) },
        });
        cluster.api().create(JOBS, &job)?;
    }
    for (name, _, end, code, printed) in kinds {
        let path = format!("{JOBS}/{name}");
        cluster.wait_for(&path, &format!("{name} is {end}"), |job| {
            (condition(job?, end)["status"] == "True").then_some(())
        })?;
        // A GC pass runs here: anything that it removed by mistake would be missing below.
        if cluster.node().agent_is_ours() {
            cluster.node().ferrolet(&["gc", "run"])?;
        }
        let pod = cluster
            .wait_for_pods(&format!("app={name}"), "its pod", |pods| pods.first().cloned())?;
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        let reason = if code == 0 { "Completed" } else { "Error" };
        ensure!(ended["exitCode"] == code && ended["reason"] == reason, "{pod}");
        cluster.wait_log(&pod, "main", |text| text == printed)?;
        cluster.look_at_as(&pod, &format!("of-a-{name}-job"))?;
        // The pod is deleted with its job, and its logs with the pod.
        delete(cluster, &path)?;
        cluster.wait_for_no_pods(&format!("app={name}"))?;
        let directory = log_directory(&pod);
        cluster.node().explained(wait::until(&format!("{directory} is gone"), CLEANED, || {
            let is_there = cluster.node().exists(&directory)?;
            Ok(if is_there { Err("it is there".to_owned()) } else { Ok(()) })
        }))?;
    }
    Ok(())
}

fn held_too_late(cluster: &ClusterNode, path: &str) -> Result<Value> {
    make_held(cluster, &pod("too-late", &["sleep", "forever"]))?;
    wait_held(cluster, path)
}

/// The node rejects a pod that it would have to evict at once. A finalizer holds the pod: without the object, nothing
/// shows whether it was started.
fn is_refused(cluster: &ClusterNode) -> Result<()> {
    let path = ClusterNode::pod_path("too-late");
    let mut held = held_too_late(cluster, &path)?;
    for _ in 0..2 {
        // The controller may delete it before the node has seen it. Then there is no admission decision.
        let was_deleted_first =
            condition(&held, "DisruptionTarget")["reason"] == "DeletionByTaintManager";
        if held["status"]["reason"] != "TaintToleration" && was_deleted_first {
            let_go(cluster, &path)?;
            held = held_too_late(cluster, &path)?;
        }
    }
    let status = &held["status"];
    ensure!(status["phase"] == "Failed" && status["reason"] == "TaintToleration", "{status}");
    let containers = status["containerStatuses"].as_array().into_iter().flatten();
    for container in containers {
        ensure!(container["containerID"].is_null(), "it was started: {status}");
    }
    let made = containerd::containers(cluster.node().instance())?;
    ensure!(made.iter().all(|one| one.pod != "too-late"), "there is no sandbox: {made:?}");
    cluster.wait_for_event("too-late", "TaintToleration", "Predicate TaintToleration failed")?;
    let_go(cluster, &path)
}

/// Creates a pod after a taint was removed. The taint controller may see the pod before it sees the taint's removal,
/// and delete it.
fn made_after_taint(cluster: &ClusterNode, name: &str) -> Result<()> {
    let path = ClusterNode::pod_path(name);
    for _ in 0..3 {
        cluster.make_pod(name, &["sleep", "forever"])?;
        if cluster.wait_ready(&path).is_ok() {
            return Ok(());
        }
        cluster.wait_gone(&path, PATIENCE)?;
    }
    bail!("{name} was deleted several times")
}

/// Pods that do not tolerate a taint are deleted at once or after their toleration seconds; others stay.
pub(super) fn taint(cluster: &ClusterNode) -> Result<()> {
    let later = Duration::from_secs(3);
    let toleration = |seconds: Option<u64>| {
        let mut toleration =
            json!({ "key": "maintenance", "operator": "Exists", "effect": "NoExecute" });
        if let Some(seconds) = seconds {
            toleration["tolerationSeconds"] = seconds.into();
        }
        json!([toleration])
    };
    let tolerations = [
        ("at-once", json!([])),
        ("later", toleration(Some(later.as_secs()))),
        ("never", toleration(None)),
    ];
    for (name, tolerations) in tolerations {
        let mut pod = pod(name, &["sleep", "forever"]);
        pod["spec"]["tolerations"] = tolerations;
        cluster.api().create(PODS, &pod)?;
    }
    for name in ["at-once", "later", "never"] {
        cluster.look_at(&cluster.wait_ready(&ClusterNode::pod_path(name))?)?;
    }
    let never = cluster.running("never")?;
    let begun = Instant::now();
    cluster.kubectl(&["taint", "nodes", NODE_NAME, "maintenance=yes:NoExecute"])?;
    cluster.wait_gone(&ClusterNode::pod_path("at-once"), PATIENCE)?;
    let seen = cluster.api().get(&ClusterNode::pod_path("later"))?;
    let goes_early = seen.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
    ensure!(!goes_early || begun.elapsed() >= later, "it should be tolerated for {later:?}");
    cluster.wait_gone(&ClusterNode::pod_path("later"), PATIENCE)?;
    ensure!(begun.elapsed() >= later, "gone after {:?}", begun.elapsed());
    is_refused(cluster)?;
    cluster.kubectl(&["taint", "nodes", NODE_NAME, "maintenance:NoExecute-"])?;
    ensure!(cluster.running("never")?.id == never.id, "it was restarted");
    made_after_taint(cluster, "at-once")?;
    cluster.remove_pods(&["at-once", "never"])?;
    let left = cluster.api().list(PODS)?;
    ensure!(left.is_empty(), "pods are left in {NAMESPACE}: {left:?}");
    Ok(())
}

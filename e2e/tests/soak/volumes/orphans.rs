//! Directories of pods that were removed while no agent ran: what the agent did not write stays.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::container_files::pod_mounts;
use e2e::node::Node;
use serde_json::Value;
use testbed::wait;

/// Housekeeping retries a failed removal each minute.
const RETRIED: Duration = Duration::from_secs(150);
const REPORT: &str = "Cannot remove directory of orphaned pod";
/// An orphan that has no pod in the runtime either.
const OTHER: &str = "0c6e5f5e-0000-4000-8000-000000000029";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: disk, emptyDir: {}}
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
    volumeMounts:
    - {name: memory, mountPath: /memory}
    - {name: disk, mountPath: /disk}
";

fn sh(node: &Node, script: &str) -> Result<String> {
    node.run("sh", &["-ec", script])
}

/// The item of a path in `gc plan`.
fn planned(node: &Node, path: &str) -> Result<Option<Value>> {
    let plan = node.ferrolet(&["gc", "plan", "-o", "json"])?;
    let plan: Value = serde_json::from_str(&plan).with_context(|| plan.clone())?;
    let items = plan["items"].as_array().context("a plan has items")?;
    Ok(items.iter().find(|item| item["id"] == path).cloned())
}

/// Waits until `gc plan` lists a path with an error that has this part.
fn wait_until_planned(node: &Node, path: &str, part: &str) -> Result<()> {
    node.explained(wait::until(&format!("{path} is planned"), RETRIED, || {
        let item = planned(node, path)?.unwrap_or_default();
        let is_so = item["rule"] == "pod-is-gone" && item["detail"].to_string().contains(part);
        Ok(if is_so { Ok(()) } else { Err(item.to_string()) })
    }))
}

/// Waits until a directory is gone, and checks the explanation.
fn wait_until_removed(node: &Node, path: &str) -> Result<()> {
    node.explained(wait::until(&format!("{path} is gone"), RETRIED, || {
        Ok(if node.exists(path)? { Err("it is there".to_owned()) } else { Ok(()) })
    }))?;
    let why = node.wait_for_answer(&["gc", "why", path], "was removed")?;
    ensure!(why.contains("pod-is-gone"), "{why}");
    ensure!(planned(node, path)?.is_none(), "{path} is still planned");
    Ok(())
}

/// How often the journal has a failed removal of a path.
fn failures(node: &Node, path: &str) -> Result<usize> {
    let why = node.ferrolet(&["gc", "why", path, "-o", "json"])?;
    let why: Value = serde_json::from_str(&why).with_context(|| why.clone())?;
    let entries = why["entries"].as_array().context("an answer has entries")?;
    Ok(entries.iter().filter(|entry| entry["outcome"] == "failed" && entry["id"] == path).count())
}

/// Waits for two more attempts, and checks that the reason of the failure was reported once.
fn reason_is_reported_once(node: &Node, uid: &str, path: &str) -> Result<()> {
    let since = Instant::now();
    wait::until("the removal was retried twice", 2 * RETRIED, || {
        Ok(if since.elapsed() > RETRIED { Ok(()) } else { Err("not long enough".to_owned()) })
    })?;
    let log = node.agent_log();
    let reports = log.lines().filter(|line| line.contains(REPORT) && line.contains(uid)).count();
    ensure!(reports == 1, "{reports} log messages about {uid}");
    let failures = failures(node, path)?;
    ensure!(failures == 1, "{failures} entries in the journal about {path}");
    Ok(())
}

#[test]
fn foreign_file_in_an_orphaned_directory_stays_and_the_reason_is_reported_once() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", POD)?;
    node.start_agent()?;
    node.wait_running("web")?;
    let pods = node.root_dir().join("pods").display().to_string();
    let names = node.names_in(&pods)?;
    let [uid] = &names[..] else { anyhow::bail!("one pod has a directory: {names:?}") };
    let directory = format!("{pods}/{uid}");
    node.kill_agent()?;
    node.remove_manifest("web.yaml")?;
    sh(&node, &format!("echo mine > {directory}/precious"))?;

    node.start_agent()?;
    let line = node.wait_for_log(&[REPORT, uid])?;
    ensure!(line.contains("precious"), "{line}");
    wait_until_planned(&node, &directory, "precious")?;
    // Its volumes are torn down first, by their own rule.
    for volume in ["kubernetes.io~empty-dir/memory", "kubernetes.io~empty-dir/disk"] {
        let volume = format!("{directory}/volumes/{volume}");
        let why = node.wait_for_answer(&["gc", "why", &volume], "was removed")?;
        ensure!(why.contains("pod-has-ended") && why.contains(&volume), "{why}");
        ensure!(!node.exists(&volume)?, "{volume} is there");
    }
    ensure!(pod_mounts(&node)?.is_empty(), "{:#?}", pod_mounts(&node)?);
    reason_is_reported_once(&node, uid, &directory)?;
    ensure!(node.read(&format!("{directory}/precious"))? == "mine\n");
    sh(&node, &format!("rm {directory}/precious"))?;
    wait_until_removed(&node, &directory)?;
    node.stop()
}

#[test]
fn host_directory_that_is_mounted_below_an_orphaned_directory_keeps_its_files() -> Result<()> {
    let mut node = Node::start()?;
    let host = node.instance().dir().join("host").display().to_string();
    let directory = node.root_dir().join("pods").join(OTHER).display().to_string();
    // One link replaces a volume, the other is where the agent mounts nothing.
    let (volume, other) =
        (format!("{directory}/volumes/kubernetes.io~empty-dir/data"), format!("{directory}/other"));
    sh(
        &node,
        &format!(
            "mkdir -p {host}/a {host}/b {volume} {other}
             echo kept > {host}/a/file
             echo kept > {host}/b/file
             mount --bind {host}/a {volume}
             mount --bind {host}/b {other}"
        ),
    )?;
    node.start_agent()?;
    node.wait_for_log(&[REPORT, OTHER])?;
    wait_until_planned(&node, &directory, "other")?;
    let mounted = pod_mounts(&node)?;
    ensure!(mounted.iter().any(|line| line.contains(&other)), "{mounted:#?}");
    reason_is_reported_once(&node, OTHER, &directory)?;
    for file in ["a/file", "b/file"] {
        ensure!(node.read(&format!("{host}/{file}"))? == "kept\n", "{file}");
    }
    sh(&node, &format!("umount {other}; rmdir {other}"))?;
    wait_until_removed(&node, &directory)?;
    for file in ["a/file", "b/file"] {
        ensure!(node.read(&format!("{host}/{file}"))? == "kept\n", "{file}");
    }
    ensure!(pod_mounts(&node)?.is_empty(), "{:#?}", pod_mounts(&node)?);
    node.stop()
}

//! A node without a cluster, as its owner uses it.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::node::{NODE_NAME, Node, PATIENCE, one_running};

fn sleeper(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  \
         terminationGracePeriodSeconds: 2\n  containers:\n  \
         - {{name: main, image: \"ferrolet.test/workload:1\", args: [logs, --rate, \"10\"]}}\n"
    )
}

#[test]
fn invalid_manifest_keeps_its_pod_across_agent_restart() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    node.write_manifest("web.yaml", "kind: Pod\nmetadata: {name: web\n")?;
    node.wait_for_log(&["web.yaml", "line"])?;
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_log(&["Pod synced", "web"])?;
    let after = node.wait_running("web")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    node.stop()
}

// behaviour: SRC-67
#[test]
fn unsupported_edit_keeps_the_container_across_agent_restart() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    let gates = "spec:\n  readinessGates: [{conditionType: x}]\n";
    node.write_manifest("web.yaml", &sleeper("web").replace("spec:\n", gates))?;
    let list =
        node.wait_for_answer(&["get", "pods", "-o", "json"], "not supported: spec.readinessGates")?;
    ensure!(list.contains("/web.yaml"), "{list}");
    let refused = node.wait_running("web")?;
    ensure!(before == refused, "{before:?}, then {refused:?}");
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_answer(&["get", "pods", "-o", "json"], "not supported: spec.readinessGates")?;
    node.wait_for_answer(&["get", "pods"], "Running")?;
    let after = node.wait_running("web")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    // The corrected manifest takes effect.
    node.write_manifest("web.yaml", &sleeper("web").replace("\"10\"", "\"20\""))?;
    node.wait_for_containers("web", "the mended version runs", |containers| {
        one_running(containers).filter(|now| now.id != before.id)
    })?;
    node.stop()
}

#[test]
fn hundred_invalid_manifests_delay_no_valid_pod() -> Result<()> {
    let mut node = Node::start()?;
    for bad in 0..100 {
        let text = match bad % 4 {
            0 => "{{{".to_owned(),
            1 => "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n".to_owned(),
            2 => sleeper("x").replace("name: main", "name: \"\""),
            _ => format!("{}\u{0}", sleeper("x")),
        };
        node.write_manifest(&format!("bad-{bad}.yaml"), &text)?;
    }
    for good in 0..30 {
        node.write_manifest(&format!("good-{good}.yaml"), &sleeper(&format!("good-{good}")))?;
    }
    node.start_agent()?;
    for good in 0..30 {
        node.wait_running(&format!("good-{good}"))?;
    }
    node.stop()
}

/// The length of the outage of the runtime.
const OUTAGE: Duration = Duration::from_secs(20);

/// The response of the agent's health port.
fn get(node: &Node, path: &str) -> Result<String> {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/10248; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    );
    node.run("bash", &["-c", &script])
}

// behaviour: WRK-22
#[test]
fn runtime_outage_of_20s_restarts_no_pod_and_logs_little() -> Result<()> {
    let mut node = Node::start()?;
    for pod in ["stays", "victim", "leaves"] {
        node.write_manifest(&format!("{pod}.yaml"), &sleeper(pod))?;
    }
    node.start_agent()?;
    let stays = node.wait_running("stays")?;
    let victim = node.wait_running("victim")?;
    node.wait_running("leaves")?;
    node.wait_for_answer(&["get", "pods"], "leaves")?;

    node.stop_runtime()?;
    let begun = Instant::now();
    let before = node.agent_log().len();
    node.write_manifest("late.yaml", &sleeper("late"))?;
    node.remove_manifest("leaves.yaml")?;
    node.run("kill", &["-9", &victim.pid.to_string()])?;
    while begun.elapsed() < OUTAGE {
        ensure!(node.agent_is_alive()?, "the agent ended: {}", node.agent_log());
        let answer = get(&node, "/healthz")?;
        ensure!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("ok"), "{answer}");
        let table = node.ferrolet(&["get", "pods"])?;
        ensure!(table.contains("stays") && table.contains("victim"), "{table}");
        std::thread::sleep(Duration::from_secs(1));
    }
    let log = node.agent_log();
    let warnings: Vec<&str> = log[before..]
        .lines()
        .filter(|line| {
            line.starts_with(['W', 'E']) && line.contains("Cannot list pods of the runtime")
        })
        .collect();
    ensure!((1..=3).contains(&warnings.len()), "{warnings:#?}");
    let words = log[before..].lines().filter(|line| line.starts_with(['W', 'E'])).count();
    ensure!(words <= 20, "{words} warnings: {}", &log[before..]);

    node.start_runtime()?;
    node.wait_running("late")?;
    node.wait_for_containers("victim", "another container runs", |containers| {
        one_running(containers).filter(|running| running.id != victim.id)
    })?;
    node.wait_for_containers("leaves", "it has ended", |containers| {
        containers.iter().all(|container| container.state != "RUNNING").then_some(())
    })?;
    let after = node.wait_running("stays")?;
    ensure!(stays == after, "{stays:?}, then {after:?}");
    node.stop()
}

#[test]
fn healthz_port_serves_health_only() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    node.wait_running("web")?;
    let answer = get(&node, "/healthz")?;
    ensure!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("ok"), "{answer}");
    let answer = get(&node, "/healthz/ping?verbose")?;
    ensure!(answer.contains("[+]ping ok") && !answer.contains("PLEG"), "{answer}");
    for elsewhere in ["/pods", "/healthzy", "/healthz/syncloop", "/healthz/nonsense"] {
        let answer = get(&node, elsewhere)?;
        ensure!(answer.starts_with("HTTP/1.0 404"), "{elsewhere}: {answer}");
    }
    node.stop()
}

#[test]
fn commands_show_a_pod_and_node_clean_removes_it() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    let running = node.wait_running("web")?;
    let pod = format!("web-{NODE_NAME}");
    let table = node.wait_for_answer(&["get", "pods"], "Running")?;
    ensure!(table.contains(&pod) && table.contains("1/1"), "{table}");
    let list = node.ferrolet(&["get", "pods", "-o", "json"])?;
    let list: serde_json::Value = serde_json::from_str(&list).context("read the pod list")?;
    let status = &list["items"][0]["status"];
    ensure!(status["phase"] == "Running", "{list:#}");
    let id = status["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
    ensure!(id == format!("containerd://{}", running.id), "{id}");
    let described = node.ferrolet(&["describe", "web"])?;
    ensure!(described.contains("Started") && described.contains(&pod), "{described}");
    node.wait_for_answer(&["logs", "web"], "\n5\n")?;
    let logs = node.ferrolet(&["logs", "web", "--tail", "2"])?;
    ensure!(logs.lines().count() == 2, "{logs}");
    node.run("kill", &["-9", &running.pid.to_string()])?;
    node.wait_for_containers("web", "another container runs", |containers| {
        one_running(containers).filter(|now| now.id != running.id)
    })?;
    node.wait_for_answer(&["get", "pods"], "1 (")?;
    let previous = node.ferrolet(&["logs", "web", "--previous", "--tail", "1"])?;
    ensure!(previous.lines().count() == 1, "{previous}");
    node.stop_agent()?;
    let cleaned = node.ferrolet(&["node", "clean"])?;
    ensure!(cleaned.ends_with("1 pod removed\n"), "{cleaned}");
    ensure!(e2e::containerd::containers(node.instance())?.is_empty());
    ensure!(node.run("find", &["/var/log/pods", "-mindepth", "1"])?.is_empty());
    node.stop()
}

#[test]
fn copy_of_a_manifest_does_not_replace_the_running_pod() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    node.write_manifest("a-copy.yaml", &sleeper("web").replace("\"10\"", "\"20\""))?;
    let list = node.wait_for_answer(&["get", "pods", "-o", "json"], "is already the pod of")?;
    let holder =
        list.split("is already the pod of ").nth(1).and_then(|rest| rest.split('"').next());
    let is_first = holder.is_some_and(|holder| holder.ends_with("/web.yaml"));
    ensure!(list.contains("/a-copy.yaml") && is_first, "{list}");
    // Nor does it after a restart, when it is read first.
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_log(&["Pod synced", "web"])?;
    node.wait_for_answer(&["get", "pods", "-o", "json"], "is already the pod of")?;
    let after = node.wait_running("web")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    node.remove_manifest("web.yaml")?;
    node.wait_for_containers("web", "the copy runs", |containers| {
        one_running(containers).filter(|now| now.id != before.id)
    })?;
    let list = node.ferrolet(&["get", "pods", "-o", "json"])?;
    ensure!(!list.contains("is already the pod of"), "{list}");
    node.stop()
}

#[test]
fn rejected_manifest_and_failed_pull_are_shown_by_commands() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    node.wait_running("web")?;
    node.write_manifest("web.yaml", &sleeper("web").replace("image:", "imagine:"))?;
    let described = node.wait_for_answer(&["describe", "pod", "web"], "Refused Manifest:")?;
    ensure!(described.contains("web.yaml was refused"), "{described}");
    ensure!(described.contains(&format!("default/web-{NODE_NAME} is unchanged")), "{described}");
    node.write_manifest("new.yaml", "kind: [")?;
    node.wait_for_answer(&["get", "pods", "-o", "json"], "/new.yaml")?;
    let described = node.ferrolet(&["describe", "new"])?;
    ensure!(described.contains("Refused") && described.contains("/new.yaml"), "{described}");
    let absent = sleeper("absent").replace("ferrolet.test/workload:1", "127.0.0.1:1/absent:1");
    node.write_manifest("absent.yaml", &absent)?;
    let table = node.wait_for_answer(&["get", "pods"], "ImagePull")?;
    ensure!(table.contains(&format!("absent-{NODE_NAME}")), "{table}");
    let events = node.ferrolet(&["describe", "absent", "-n", "default"])?;
    ensure!(events.contains("Pulling image \"127.0.0.1:1/absent:1\""), "{events}");
    node.stop()
}

#[test]
fn systemd_is_notified_of_ready_watchdog_and_stopping() -> Result<()> {
    let mut node = Node::start()?;
    let path = node.instance().dir().join("notify.sock");
    let socket = UnixDatagram::bind(&path).context("open the notification socket")?;
    socket.set_read_timeout(Some(PATIENCE)).context("set a deadline")?;
    let next = || -> Result<String> {
        let mut buffer = [0; 4096];
        let count = socket.recv(&mut buffer).context("read the agent's output")?;
        Ok(String::from_utf8_lossy(&buffer[..count]).into_owned())
    };
    node.start_agent_with(&[
        ("NOTIFY_SOCKET", path.display().to_string()),
        ("WATCHDOG_USEC", "2000000".to_owned()),
    ])?;
    let ready = next()?;
    ensure!(ready.lines().any(|line| line == "READY=1"), "{ready}");
    for _ in 0..3 {
        let alive = next()?;
        ensure!(alive.trim_end() == "WATCHDOG=1", "{alive}");
    }
    let status = node.stop_agent()?;
    ensure!(status.success(), "{status}");
    let last = loop {
        let text = next()?;
        if text.trim_end() != "WATCHDOG=1" {
            break text;
        }
    };
    ensure!(last.lines().any(|line| line == "STOPPING=1"), "{last}");
    node.stop()
}

//! A node without a cluster, as its owner uses it.

use anyhow::{Context, Result, ensure};
use e2e::node::{NODE_NAME, Node, one_running};

fn sleeper(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  \
         terminationGracePeriodSeconds: 2\n  containers:\n  \
         - {{name: main, image: \"ferrolet.test/workload:1\", args: [logs, --rate, \"10\"]}}\n"
    )
}

#[test]
fn a_manifest_that_breaks_keeps_its_pod_also_over_a_restart_of_the_agent() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    node.write_manifest("web.yaml", "kind: Pod\nmetadata: {name: web\n")?;
    node.wait_for_log(&["web.yaml", "line"])?;
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_log(&["pod is as specified", "web"])?;
    let after = node.wait_running("web")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    node.stop()
}

#[test]
fn a_hundred_bad_manifests_keep_thirty_good_pods_from_nothing() -> Result<()> {
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

#[test]
fn the_agent_says_on_its_port_that_it_is_well_and_nothing_else() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    node.wait_running("web")?;
    let get = |path: &str| {
        let ask = format!(
            "exec 3<>/dev/tcp/127.0.0.1/10248; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        );
        node.run("bash", &["-c", &ask])
    };
    let answer = get("/healthz")?;
    ensure!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("ok"), "{answer}");
    let answer = get("/healthz/syncloop?verbose")?;
    ensure!(answer.contains("[+]syncloop ok") && !answer.contains("PLEG"), "{answer}");
    for elsewhere in ["/pods", "/healthzy", "/healthz/nonsense"] {
        let answer = get(elsewhere)?;
        ensure!(answer.starts_with("HTTP/1.0 404"), "{elsewhere}: {answer}");
    }
    node.stop()
}

#[test]
fn the_commands_show_a_pod_and_clean_up_after_it() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &sleeper("web"))?;
    node.start_agent()?;
    let running = node.wait_running("web")?;
    let pod = format!("web-{NODE_NAME}");
    let table = node.wait_for_answer(&["get", "pods"], "Running")?;
    ensure!(table.contains(&pod) && table.contains("1/1"), "{table}");
    let list = node.ask(&["get", "pods", "-o", "json"])?;
    let list: serde_json::Value = serde_json::from_str(&list).context("read the pod list")?;
    let status = &list["items"][0]["status"];
    ensure!(status["phase"] == "Running", "{list:#}");
    let id = status["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
    ensure!(id == format!("containerd://{}", running.id), "{id}");
    let described = node.ask(&["describe", "web"])?;
    ensure!(described.contains("Started") && described.contains(&pod), "{described}");
    node.wait_for_answer(&["logs", "web"], "\n5\n")?;
    let logs = node.ask(&["logs", "web", "--tail", "2"])?;
    ensure!(logs.lines().count() == 2, "{logs}");
    node.run("kill", &["-9", &running.pid.to_string()])?;
    node.wait_for_containers("web", "another container runs", |containers| {
        one_running(containers).filter(|now| now.id != running.id)
    })?;
    node.wait_for_answer(&["get", "pods"], "1 (")?;
    let previous = node.ask(&["logs", "web", "--previous", "--tail", "1"])?;
    ensure!(previous.lines().count() == 1, "{previous}");
    node.stop_agent()?;
    let cleaned = node.ask(&["node", "clean"])?;
    ensure!(cleaned.contains("1 pod(s) removed"), "{cleaned}");
    ensure!(e2e::ctr::containers(node.instance())?.is_empty());
    ensure!(node.run("find", &["/var/log/pods", "-mindepth", "1"])?.is_empty());
    node.stop()
}

//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.
#![allow(clippy::wildcard_imports, reason = "tests of the module above, run elsewhere")]

use super::*;

#[test]
fn critical_pod_preempts_a_pod_of_lower_priority() -> Result<()> {
    let mut node = Node::start()?;
    let half = processors(&node)? * 500;
    let (lesser, critical) = (format!("{}m", half + 100), format!("{half}m"));
    node.write_manifest("lesser.yaml", &requesting("lesser", "priority: 0", &lesser))?;
    node.write_manifest("beside.yaml", &requesting("beside", "priority: 5", "10m"))?;
    node.start_agent()?;
    node.wait_running("lesser")?;
    let beside = node.wait_running("beside")?;
    let class = "priorityClassName: system-node-critical";
    node.write_manifest("critical.yaml", &requesting("critical", class, &critical))?;
    node.wait_running("critical")?;
    let status = failed(&node, "lesser", "Preempting")?;
    ensure!(status["message"] == "Preempted in order to admit critical pod", "{status:#}");
    let conditions = status["conditions"].as_array().context("conditions")?;
    let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget");
    let target = target.with_context(|| format!("no DisruptionTarget: {status:#}"))?;
    ensure!(target["reason"] == "TerminationByKubelet", "{target:#}");
    node.wait_for_containers("lesser", "it has ended", |containers| {
        containers.iter().all(|container| container.state != "RUNNING").then_some(())
    })?;
    ensure!(node.wait_running("beside")? == beside, "it was changed");
    let described = node.ferrolet(&["describe", "lesser"])?;
    ensure!(described.contains("Preempting"), "{described}");
    node.stop()
}

#[test]
fn node_selector_and_host_ports_decide_admission() -> Result<()> {
    let mut node = Node::start()?;
    let port = "ports: [{containerPort: 80, hostPort: 18080}]";
    node.write_manifest("a.yaml", &pod("a-first", "nodeSelector: {disk: fast}", port))?;
    node.write_manifest("b.yaml", &pod("b-second", "", port))?;
    node.write_manifest("c.yaml", &pod("c-other", "nodeSelector: {disk: slow}", ""))?;
    node.start_agent_with_flags(&["--node-labels=disk=fast"])?;
    node.wait_running("a-first")?;
    let status = failed(&node, "b-second", "NodePorts")?;
    let why = "node(s) didn't have free ports for the requested pod ports";
    let expected = format!("Pod was rejected: Predicate NodePorts failed: {why}");
    ensure!(status["message"] == *expected, "{status:#}");
    let status = failed(&node, "c-other", "NodeAffinity")?;
    let why = "node(s) didn't match Pod's node affinity/selector";
    let expected = format!("Pod was rejected: Predicate NodeAffinity failed: {why}");
    ensure!(status["message"] == *expected, "{status:#}");
    is_untouched(&node, "b-second")?;
    is_untouched(&node, "c-other")?;
    node.stop()
}

#[test]
fn running_pod_stays_when_reservations_grow() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", &requesting("web", "", "500m"))?;
    node.start_agent()?;
    let before = node.wait_running("web")?;
    node.stop_agent()?;
    let reserved = processors(&node)? * 1000 - 100;
    node.configure(&format!("systemReserved: {{cpu: {reserved}m}}"))?;
    node.write_manifest("a-new.yaml", &requesting("a-new", "", "50m"))?;
    node.start_agent()?;
    failed(&node, "a-new", "UnexpectedAdmissionError")?;
    node.wait_for_log(&["Pod synced", "web"])?;
    let after = node.wait_running("web")?;
    ensure!(before == after, "{before:?}, then {after:?}");
    is_untouched(&node, "a-new")?;
    node.stop()
}

//! `gc plan` and `gc why` on real containerd: what will be removed and what was removed, with the rule.

mod soak;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::containerd;
use e2e::node::{NODE_NAME, Node, PATIENCE, one_running, program};
use e2e::own_settings::own_settings;
use serde_json::Value;
use testbed::wait;

/// GC removes all dead containers of running pods in the next pass.
const CAP: &str = "--maximum-dead-containers-per-container=0";
/// The minimum age of a dead container for removal.
const OLD: &str = "--minimum-container-ttl-duration=15s";
/// The timeout until they have that age.
const AGEING: Duration = Duration::from_mins(2);
/// The timeout until the next regular pass.
const PASS: Duration = Duration::from_mins(2);

fn ended(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  \
         containers:\n  - {{name: main, image: \"ferrolet.test/workload:1\", args: [exit, \"0\"]}}\n"
    )
}

fn running(name: &str) -> String {
    ended(name).replace("Never", "Always").replace("exit, \"0\"", "sleep, forever")
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| text.to_owned())
}

/// Kind and id of everything with this verdict in a plan.
fn ids(plan: &Value, verdict: &str) -> BTreeSet<(String, String)> {
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let items = plan["items"].as_array().into_iter().flatten();
    let meant = items.filter(|item| item["verdict"] == verdict);
    meant.map(|item| (text(item, "kind"), text(item, "id"))).collect()
}

/// The ids of all containers and sandboxes in the runtime.
fn there(node: &Node) -> Result<BTreeSet<String>> {
    Ok(containerd::containers(node.instance())?.into_iter().map(|one| one.id).collect())
}

/// Checks the parts of an explanation of one container.
fn explains(answer: &str, id: &str) -> Result<()> {
    let of = "was removed";
    for part in [id, of, "per-container-cap", "cap 0", "of pod default/", "age "] {
        ensure!(answer.contains(part), "no {part:?} in {answer}");
    }
    Ok(())
}

/// New files cause no event; the next regular pass removes them. The agent has a shorter GC period for this.
fn regular_pass_does_as_planned(node: &mut Node) -> Result<()> {
    let own = own_settings(node, "gc: {containers: {period: 5s}}")?;
    node.stop_agent()?;
    node.start_agent_with_flags(&[OLD, CAP, &own])?;
    node.wait_for_answer(&["get", "pods"], "Running")?;
    let (logs, link) =
        ("/var/log/pods/ns_stray_123", "/var/log/containers/stray_ns_main-0123456789abcdef.log");
    let links = "/var/log/containers";
    let stray = format!("mkdir -p {logs}/main {links} && ln -sf /nowhere {link}");
    let plan = || json(&node.ferrolet(&["gc", "plan", "-o", "json"])?);
    let expected = [logs, link].map(|path| ("log".to_owned(), path.to_owned()));
    let expected = BTreeSet::from(expected);
    // A pass may come between the files and the plan; then there is time until the next one.
    node.explained(wait::until("they are planned to be removed", PATIENCE, || {
        node.run("sh", &["-c", &stray])?;
        let plan = plan()?;
        Ok(if ids(&plan, "remove") == expected { Ok(()) } else { Err(format!("{plan:#}")) })
    }))?;
    node.explained(wait::until("the next regular pass removes them", PASS, || {
        let plan = plan()?;
        Ok(if ids(&plan, "remove").is_empty() { Ok(()) } else { Err(format!("{plan:#}")) })
    }))?;
    let why = node.ferrolet(&["gc", "why", "ns/stray"])?;
    ensure!(why.contains(logs) && why.contains("pod-is-gone"), "{why}");
    Ok(())
}

#[test]
fn gc_run_removes_its_plan_and_gc_why_explains_it_after_a_crash() -> Result<()> {
    let mut node = Node::start()?;
    // For any usage of this machine's disk.
    node.configure("imageGCHighThresholdPercent: 100")?;
    for name in ["a", "b"] {
        node.write_manifest(&format!("{name}.yaml"), &running(name))?;
    }
    // No regular pass comes before the one that is requested.
    let own = own_settings(&node, "gc: {containers: {period: 10m}}")?;
    node.start_agent_with_flags(&[OLD, CAP, &own])?;
    for name in ["a", "b"] {
        let first = node.wait_running(name)?;
        node.run("kill", &["-9", &first.pid.to_string()])?;
        node.wait_for_containers(name, "it runs again", |containers| {
            one_running(containers).filter(|next| next.id != first.id)
        })?;
    }
    let young = json(&node.ferrolet(&["gc", "plan", "-o", "json"])?)?;
    ensure!(ids(&young, "remove").is_empty(), "{young:#}");
    ensure!(young["items"].to_string().contains("too-young"), "{young:#}");
    let plan = node.explained(wait::until("two are old enough", AGEING, || {
        let plan = json(&node.ferrolet(&["gc", "plan", "-o", "json"])?)?;
        Ok(if ids(&plan, "remove").len() == 2 { Ok(plan) } else { Err(format!("{plan:#}")) })
    }))?;
    let (going, before) = (ids(&plan, "remove"), there(&node)?);
    ensure!(before.len() == 6, "a plan touches nothing: {before:?}");
    let table = node.ferrolet(&["gc", "plan"])?;
    ensure!(table.contains("would remove 2 containers; would keep"), "{table}");
    let output = node.ferrolet(&["gc", "run", "-o", "json"])?;
    let lines = output.lines().map(json).collect::<Result<Vec<_>>>()?;
    let removed: BTreeSet<(String, String)> = lines
        .iter()
        .filter(|line| line["type"] == "REMOVED")
        .map(|line| &line["item"])
        .map(|item| (item["kind"].as_str().unwrap().into(), item["id"].as_str().unwrap().into()))
        .collect();
    ensure!(removed == going, "{removed:?} instead of {going:?}");
    ensure!(lines.last().is_some_and(|line| line["type"] == "DONE"), "{output}");
    let gone: BTreeSet<String> = going.into_iter().map(|(_, id)| id).collect();
    ensure!(there(&node)? == before.difference(&gone).cloned().collect(), "{:?}", there(&node)?);
    let after = json(&node.ferrolet(&["gc", "plan", "-o", "json"])?)?;
    ensure!(ids(&after, "remove").is_empty(), "{after:#}");
    regular_pass_does_as_planned(&mut node)?;
    node.kill_agent()?;
    for id in &gone {
        explains(&node.ferrolet(&["gc", "why", &id[..8]])?, id)?;
    }
    node.start_agent()?;
    node.wait_for_answer(&["get", "pods"], "Running")?;
    for id in &gone {
        explains(&node.ferrolet(&["gc", "why", &format!("containerd://{id}")])?, id)?;
        explains(&node.ferrolet(&["gc", "why", "main"])?, id)?;
    }
    let error = node.ferrolet(&["gc", "why", "missing"]).unwrap_err().to_string();
    ensure!(error.contains("nothing called \"missing\" was removed"), "{error}");
    ensure!(error.contains("exit status: 1"), "{error}");
    node.stop()
}

#[test]
fn plan_without_agent_applies_the_caps_and_keeps_unknown_objects() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("a.yaml", &ended("a"))?;
    node.write_manifest("b.yaml", &ended("b"))?;
    node.start_agent()?;
    for name in ["a", "b"] {
        node.wait_for_log(&[
            "Pod terminated and cleaned up",
            &format!("default/{name}-{NODE_NAME}"),
        ])?;
    }
    node.stop_agent()?;
    let before = there(&node)?;
    let (program, endpoint) = (program("ferrolet")?.display().to_string(), node.endpoint());
    let plan = |more: &[&str]| -> Result<Value> {
        let args = ["gc", "plan", "-o", "json", "--container-runtime-endpoint", &endpoint];
        json(&node.run(&program, &[&args, more].concat())?)
    };
    let unknown = plan(&[])?;
    ensure!(unknown["source"] == "runtime" && ids(&unknown, "remove").is_empty(), "{unknown:#}");
    let kept = unknown["items"].as_array().into_iter().flatten();
    let rules = kept.filter(|item| item["kind"] == "container").map(|item| item["rule"].clone());
    ensure!(rules.eq(["pod-state-unknown"; 2]), "{unknown:#}");
    ensure!(unknown["policy"]["assumed"].to_string().contains("imageHigh"), "{unknown:#}");
    let (links, link) = ("/var/log/links", "/var/log/links/stray_ns_main-0123456789abcdef.log");
    node.run("sh", &["-c", &format!("mkdir -p {links} && ln -s /nowhere {link}")])?;
    let linked = plan(&["--container-links-dir", links])?;
    let stray = linked["items"].as_array().into_iter().flatten().find(|item| item["id"] == link);
    let stray = stray.with_context(|| format!("{linked:#}"))?;
    ensure!(stray["verdict"] == "keep" && stray["rule"] == "pod-state-unknown", "{stray:#}");
    let capped = plan(&["--maximum-dead-containers", "1"])?;
    ensure!(ids(&capped, "remove").len() == 1, "{capped:#}");
    ensure!(there(&node)? == before, "a plan touches nothing");
    let error = node.ferrolet(&["gc", "plan"]).unwrap_err().to_string();
    ensure!(error.contains("--container-runtime-endpoint"), "{error}");
    node.clean()?;
    let why = node.ferrolet(&["gc", "why", "default/a", "-o", "json"])?;
    let entries = json(&why)?["entries"].as_array().cloned().unwrap_or_default();
    let kinds: BTreeSet<_> = entries.iter().filter_map(|entry| entry["kind"].as_str()).collect();
    ensure!(
        kinds == BTreeSet::from(["cgroup", "container", "log", "pod-directory", "sandbox"]),
        "{why}"
    );
    // It was removed after the end of its pod.
    let mut others = entries.iter().filter(|entry| entry["kind"] != "cgroup");
    ensure!(others.all(|entry| entry["rule"] == "node-clean"), "{why}");
    node.stop()
}

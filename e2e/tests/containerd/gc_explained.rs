//! What goes on real containerd is told before and after, with the rule that says so.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::ctr;
use e2e::node::{NODE_NAME, Node, one_running, program};
use serde_json::Value;
use testbed::wait;

/// How old a dead container must be here to go.
const OLD: &str = "--minimum-container-ttl-duration=20s";
/// How long it may take until they are.
const AGEING: Duration = Duration::from_secs(50);
/// How long it may take until the next regular pass has been made.
const PASS: Duration = Duration::from_secs(80);

fn ended(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  \
         containers:\n  - {{name: main, image: \"ferrolet.test/workload:1\", args: [exit, \"0\"]}}\n"
    )
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

/// What the runtime has, by id.
fn there(node: &Node) -> Result<BTreeSet<String>> {
    Ok(ctr::containers(node.instance())?.into_iter().map(|one| one.id).collect())
}

/// The parts of an answer about one container.
fn explains(answer: &str, id: &str) -> Result<()> {
    let of = "was removed";
    for part in [id, of, "node-cap", "cap 1", "of pod default/", "age "] {
        ensure!(answer.contains(part), "no {part:?} in {answer}");
    }
    Ok(())
}

/// Nobody tells of files that come; the next regular pass removes them all the same.
fn regular_pass_does_as_planned(node: &Node) -> Result<()> {
    let (logs, link) =
        ("/var/log/pods/ns_stray_123", "/var/log/containers/stray_ns_main-0123456789abcdef.log");
    let links = "/var/log/containers";
    let stray = format!("mkdir -p {logs}/main {links} && ln -s /nowhere {link}");
    node.run("sh", &["-c", &stray])?;
    let plan = || json(&node.ask(&["gc", "plan", "-o", "json"])?);
    let planned = plan()?;
    let expected = [logs, link].map(|path| ("log".to_owned(), path.to_owned()));
    ensure!(ids(&planned, "remove") == BTreeSet::from(expected), "{planned:#}");
    node.explained(wait::until("the next regular pass removes them", PASS, || {
        let plan = plan()?;
        Ok(if ids(&plan, "remove").is_empty() { Ok(()) } else { Err(format!("{plan:#}")) })
    }))?;
    let why = node.ask(&["gc", "why", "ns/stray"])?;
    ensure!(why.contains(logs) && why.contains("pod-is-gone"), "{why}");
    Ok(())
}

#[test]
fn a_pass_removes_just_what_its_plan_says_and_why_is_known_after_a_crash() -> Result<()> {
    let mut node = Node::start()?;
    // However full the disk of this machine is.
    node.configure("imageGCHighThresholdPercent: 100")?;
    node.start_agent_with_flags(&[OLD, "--maximum-dead-containers=1"])?;
    // The agent passes when the oldest is old enough, which alone is within the cap; and again some seconds later,
    // when the others are, so that there is time to plan.
    for pods in [&["a"][..], &["b", "c"]] {
        for name in pods {
            node.write_manifest(&format!("{name}.yaml"), &ended(name))?;
        }
        for name in pods {
            node.wait_for_log(&["pod has ended", &format!("default/{name}-")])?;
        }
    }
    let young = json(&node.ask(&["gc", "plan", "-o", "json"])?)?;
    ensure!(ids(&young, "remove").is_empty(), "{young:#}");
    ensure!(young["items"].to_string().contains("too-young"), "{young:#}");
    let plan = node.explained(wait::until("two are old enough", AGEING, || {
        let plan = json(&node.ask(&["gc", "plan", "-o", "json"])?)?;
        Ok(if ids(&plan, "remove").len() == 2 { Ok(plan) } else { Err(format!("{plan:#}")) })
    }))?;
    let (going, before) = (ids(&plan, "remove"), there(&node)?);
    ensure!(before.len() == 6, "a plan touches nothing: {before:?}");
    let table = node.ask(&["gc", "plan"])?;
    ensure!(table.contains("would remove 2 containers; would keep"), "{table}");
    let told = node.ask(&["gc", "run", "-o", "json"])?;
    let lines = told.lines().map(json).collect::<Result<Vec<_>>>()?;
    let removed: BTreeSet<(String, String)> = lines
        .iter()
        .filter(|line| line["type"] == "REMOVED")
        .map(|line| &line["item"])
        .map(|item| (item["kind"].as_str().unwrap().into(), item["id"].as_str().unwrap().into()))
        .collect();
    ensure!(removed == going, "{removed:?} instead of {going:?}");
    ensure!(lines.last().is_some_and(|line| line["type"] == "DONE"), "{told}");
    let gone: BTreeSet<String> = going.into_iter().map(|(_, id)| id).collect();
    ensure!(there(&node)? == before.difference(&gone).cloned().collect(), "{:?}", there(&node)?);
    let after = json(&node.ask(&["gc", "plan", "-o", "json"])?)?;
    ensure!(ids(&after, "remove").is_empty(), "{after:#}");
    regular_pass_does_as_planned(&node)?;
    node.kill_agent()?;
    for id in &gone {
        explains(&node.ask(&["gc", "why", &id[..8]])?, id)?;
    }
    node.start_agent()?;
    node.wait_for_answer(&["get", "pods"], "Completed")?;
    for id in &gone {
        explains(&node.ask(&["gc", "why", &format!("containerd://{id}")])?, id)?;
        explains(&node.ask(&["gc", "why", "main"])?, id)?;
    }
    let error = node.ask(&["gc", "why", "nobody"]).unwrap_err().to_string();
    ensure!(error.contains("nothing called \"nobody\" was removed"), "{error}");
    ensure!(error.contains("exit status: 1"), "{error}");
    node.stop()
}

// behaviour: GC-81
#[test]
fn a_regular_pass_removes_just_the_containers_and_sandboxes_of_its_plan() -> Result<()> {
    let mut node = Node::start()?;
    node.configure("imageGCHighThresholdPercent: 100")?;
    let web = ended("web").replace("Never", "Always").replace("exit, \"0\"", "sleep, forever");
    node.write_manifest("web.yaml", &web)?;
    node.start_agent_with_flags(&[OLD, "--maximum-dead-containers-per-container=0"])?;
    let first = node.wait_running("web")?;
    let all = ctr::containers(node.instance())?;
    let sandbox = all.iter().find(|one| one.is_sandbox()).context("the pod has a sandbox")?;
    // The pod starts over in another sandbox: what is left of the first goes when it is old enough.
    node.run("kill", &["-9", &sandbox.pid.to_string()])?;
    node.wait_for_containers("web", "it runs anew", |containers| {
        one_running(containers).filter(|next| next.id != first.id)
    })?;
    let plan = || json(&node.ask(&["gc", "plan", "-o", "json"])?);
    let planned = node.explained(wait::until("both are old enough", AGEING, || {
        let plan = plan()?;
        Ok(if ids(&plan, "remove").len() == 2 { Ok(plan) } else { Err(format!("{plan:#}")) })
    }))?;
    let (going, before) = (ids(&planned, "remove"), there(&node)?);
    let old = [("container", &first.id), ("sandbox", &sandbox.id)];
    let old = old.map(|(kind, id)| (kind.to_owned(), id.clone()));
    ensure!(going == BTreeSet::from(old) && before.len() == 4, "{before:?}: {planned:#}");
    node.explained(wait::until("the next regular pass removes them", PASS, || {
        let plan = plan()?;
        Ok(if ids(&plan, "remove").is_empty() { Ok(()) } else { Err(format!("{plan:#}")) })
    }))?;
    let gone: BTreeSet<String> = going.into_iter().map(|(_, id)| id).collect();
    ensure!(there(&node)? == before.difference(&gone).cloned().collect(), "{:?}", there(&node)?);
    for (id, rule) in [(&first.id, "per-container-cap"), (&sandbox.id, "sandbox-older")] {
        let why = node.ask(&["gc", "why", id])?;
        ensure!(why.contains("was removed") && why.contains(rule), "{why}");
    }
    node.stop()
}

#[test]
fn a_bare_runtime_tells_what_is_beyond_the_caps_and_keeps_what_nobody_knows() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("a.yaml", &ended("a"))?;
    node.write_manifest("b.yaml", &ended("b"))?;
    node.start_agent()?;
    for name in ["a", "b"] {
        node.wait_for_log(&["pod has ended", &format!("default/{name}-{NODE_NAME}")])?;
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
    let error = node.ask(&["gc", "plan"]).unwrap_err().to_string();
    ensure!(error.contains("--container-runtime-endpoint"), "{error}");
    node.clean()?;
    let why = node.ask(&["gc", "why", "default/a", "-o", "json"])?;
    let entries = json(&why)?["entries"].as_array().cloned().unwrap_or_default();
    let kinds: BTreeSet<_> = entries.iter().filter_map(|entry| entry["kind"].as_str()).collect();
    ensure!(
        kinds == BTreeSet::from(["cgroup", "container", "log", "pod-directory", "sandbox"]),
        "{why}"
    );
    // It went when the pod had ended.
    let mut others = entries.iter().filter(|entry| entry["kind"] != "cgroup");
    ensure!(others.all(|entry| entry["rule"] == "node-clean"), "{why}");
    node.stop()
}

//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.
#![allow(clippy::wildcard_imports, reason = "tests of the module above, run elsewhere")]

use super::*;

#[test]
fn regular_gc_pass_removes_the_containers_and_sandboxes_of_its_plan() -> Result<()> {
    let mut node = Node::start()?;
    node.configure("imageGCHighThresholdPercent: 100")?;
    node.write_manifest("web.yaml", &running("web"))?;
    // Long enough for everything before the plan.
    let own = own_settings(&node, "gc: {containers: {period: 20s}}")?;
    node.start_agent_with_flags(&[CAP, &own])?;
    let first = node.wait_running("web")?;
    let all = containerd::containers(node.instance())?;
    let sandbox = all.iter().find(|one| one.is_sandbox()).context("the pod has a sandbox")?;
    // The pod restarts in another sandbox. The first one and its container stay until the next pass.
    node.run("kill", &["-9", &sandbox.pid.to_string()])?;
    node.wait_for_containers("web", "it runs anew", |containers| {
        one_running(containers).filter(|next| next.id != first.id)
    })?;
    let plan = || json(&node.ferrolet(&["gc", "plan", "-o", "json"])?);
    let planned = node.explained(wait::until("both are planned to be removed", PASS, || {
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
        let why = node.ferrolet(&["gc", "why", id])?;
        ensure!(why.contains("was removed") && why.contains(rule), "{why}");
    }
    node.stop()
}

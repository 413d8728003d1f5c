//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.
#![allow(clippy::wildcard_imports, reason = "tests of the module above, run elsewhere")]

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn dead_containers_without_labels_are_removed_and_running_ones_stay() -> Result<()> {
    let mut node = tokio::task::block_in_place(Node::start)?;
    let runtime = node.runtime()?;
    let web = tokio::task::block_in_place(|| {
        node.write_manifest("web.yaml", &pod("web", "Always", "[sleep, forever]"))?;
        node.start_agent()?;
        let web = node.wait_running("web")?;
        node.stop_agent()?;
        anyhow::Ok(web)
    })?;
    let filter = ContainerFilter { id: Some(web.id.as_str().into()), ..<_>::default() };
    let listed = runtime.list_containers(&filter).await?;
    let home = listed.first().context("the runtime lists what runs")?;
    let sandbox = wanted::sandbox(&home.pod, &home.pod_uid);
    let mut bare = Vec::new();
    for (attempt, args) in [(0, ["exit", "0"]), (1, ["sleep", "forever"])] {
        let made = wanted::container(&sandbox, "bare", "ferrolet.test/workload:1", &args);
        let log_path = format!("bare/{attempt}.log");
        let config = ContainerConfig { attempt, labels: <_>::default(), log_path, ..made };
        let id = runtime.create_container(&home.sandbox_id, &config, &sandbox).await?;
        runtime.start_container(&id).await?;
        bare.push(id.to_string());
    }
    tokio::task::block_in_place(|| {
        node.start_agent()?;
        node.explained(wait::until("the dead container is removed", PASSES, || {
            let all = containerd::containers(node.instance())?;
            let found = all.iter().any(|one| one.id == bare[0]);
            Ok(if found { Err(format!("{all:?}")) } else { Ok(()) })
        }))
    })?;
    let without_pod = ContainerFilter { pod_uid: Some("".into()), ..<_>::default() };
    let left = runtime.list_containers(&without_pod).await?;
    let left: Vec<_> = left.iter().map(|one| (one.id.as_str(), one.state)).collect();
    ensure!(left == [(bare[1].as_str(), ContainerState::Running)], "{left:?}");
    tokio::task::block_in_place(|| {
        let logs = node.run("sh", &["-c", "cd /var/log/pods/*web*/bare && ls"])?;
        ensure!(logs.lines().eq(["1.log"]), "{logs}");
        ensure!(node.wait_running("web")?.id == web.id);
        node.stop()
    })
}

#[test]
fn gc_continues_after_an_agent_killed_in_mid_pass() -> Result<()> {
    const PODS: usize = 12;
    let mut node = Node::start()?;
    let proxy = node.put_proxy_before_runtime()?;
    // Longer than the test: a call without response must not be repeated.
    node.configure("runtimeRequestTimeout: 5m")?;
    node.write_manifest("web.yaml", &pod("web", "Always", "[sleep, forever]"))?;
    for number in 0..PODS {
        let manifest = pod(&format!("job{number}"), "Never", "[exit, \"0\"]");
        node.write_manifest(&format!("job{number}.yaml"), &manifest)?;
    }
    node.start_agent()?;
    let web = node.wait_running("web")?;
    for number in 0..PODS {
        node.wait_for_log(&["Pod terminated and cleaned up", &format!("default/job{number}-")])?;
    }
    node.stop_agent()?;
    for number in 0..PODS {
        node.remove_manifest(&format!("job{number}.yaml"))?;
    }
    let sandboxes = ids_besides(&node, "web", true)?;
    let all = &ids_besides(&node, "web", false)? | &sandboxes;
    ensure!(all.len() == 2 * PODS, "{all:?}");
    // A call that hangs has no effect; a late one has, but the agent gets no response.
    die_in_the_middle(&mut node, &proxy, "hang")?;
    let late = die_in_the_middle(&mut node, &proxy, "late")?;
    ensure!(!late.is_empty(), "all were answered");
    ensure!(ids_besides(&node, "web", true)? == sandboxes, "containers go before sandboxes");
    node.start_agent()?;
    wait_for_counts(&node, "only the desired pod is left", (1, 1))?;
    wait_for_names(&node, "/var/log/pods", |found| found.len() == 1)?;
    wait_for_names(&node, "/var/log/containers", |found| found.len() == 1)?;
    ensure!(node.wait_running("web")?.id == web.id);
    node.explained(wait::until("all removals are on record", PASSES, || {
        let recorded = on_record(&node, &all);
        Ok(if recorded == all { Ok(()) } else { Err(format!("{:?} are not", &all - &recorded)) })
    }))?;
    for id in &late {
        node.wait_for_answer(&["gc", "why", id], "foundGone after a restart")?;
    }
    node.stop()
}

//! Resource usage of a pod on real containerd.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::node::{Node, PATIENCE};
use e2e::statistics::{
    HELD, HOLDER, MEBIBYTE, PORT, complete_summary, named, number, page, sample, summary,
    write_to_volume,
};
use serde_json::Value;
use testbed::wait;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(500);

// behaviour: STA-3, STA-6
#[test]
fn usage_of_a_pod_is_plausible() -> Result<()> {
    let mut node = Node::start()?;
    node.configure(&format!("readOnlyPort: {PORT}\nvolumeStatsAggPeriod: 2s"))?;
    node.write_manifest("holder.yaml", HOLDER)?;
    node.start_agent()?;
    node.wait_container_running("holder", "main")?;
    node.wait_container_running("holder", "busy")?;
    write_to_volume(&node)?;
    let looked = || Ok(complete_summary(&node));
    let summary = wait::every(PAUSE, "the usage of the pod", PATIENCE, looked);
    let summary = node.explained(summary)?;
    node.explained(check_summary(&summary).and_then(|()| check_pages(&node)))?;
    node.stop()
}

fn check_summary(summary: &Value) -> Result<()> {
    let node = &summary["node"];
    ensure!(number(node, "/cpu/usageCoreNanoSeconds")? > 0, "{node}");
    ensure!(number(node, "/memory/workingSetBytes")? > HELD, "{node}");
    ensure!(number(node, "/fs/usedBytes")? < number(node, "/fs/capacityBytes")?, "{node}");
    ensure!(number(node, "/runtime/imageFs/capacityBytes")? > 0, "{node}");
    ensure!(number(node, "/rlimit/curproc")? < number(node, "/rlimit/maxpid")?, "{node}");
    named(&node["systemContainers"], "pods")?;

    let pod = &summary["pods"][0];
    ensure!(pod["podRef"]["name"] == "holder-e2e" && pod["podRef"]["namespace"] == "shop", "{pod}");
    let (main, busy) = (named(&pod["containers"], "main")?, named(&pod["containers"], "busy")?);
    let held = number(main, "/memory/workingSetBytes")?;
    ensure!((HELD..HELD * 105 / 100).contains(&held), "main holds {held}: {main}");
    let available = number(main, "/memory/availableBytes")?;
    ensure!(available + held == 128 * MEBIBYTE, "{main}");
    let rate = number(busy, "/cpu/usageNanoCores")?;
    ensure!((1..2_000_000_000).contains(&rate), "{busy}");
    ensure!(number(pod, "/cpu/usageNanoCores")? >= rate / 2, "{pod}");
    ensure!(number(busy, "/logs/usedBytes")? > 100_000, "{busy}");
    ensure!(number(main, "/rootfs/capacityBytes")? > 0, "{main}");
    ensure!(number(pod, "/process_stats/process_count")? == 2, "{pod}");
    ensure!(pod["network"]["name"] == "eth0", "{pod}");
    number(pod, "/network/rxBytes")?;
    let parts = [(main, "/rootfs"), (main, "/logs"), (busy, "/rootfs"), (busy, "/logs")];
    let parts = parts.map(|(of, part)| number(of, &format!("{part}/usedBytes")));
    let sum = parts.into_iter().sum::<Result<u64>>()? + number(pod, "/volume/0/usedBytes")?;
    let all = number(pod, "/ephemeral-storage/usedBytes")?;
    // The hosts file is in the sum alone.
    ensure!((sum..sum + 64 * 1024).contains(&all), "{all} of {sum}: {pod}");
    Ok(())
}

fn check_pages(node: &Node) -> Result<()> {
    let text = page(node, "/metrics/resource")?;
    let of_main = ["container=\"main\"", "pod=\"holder-e2e\"", "namespace=\"shop\""];
    let (held, time) = sample(&text, "container_memory_working_set_bytes", &of_main)?;
    ensure!((60e6..75e6).contains(&held), "{held}");
    let busy = ["container=\"busy\""];
    let (before, at) = sample(&text, "container_cpu_usage_seconds_total", &busy)?;
    let later = || {
        let text = page(node, "/metrics/resource")?;
        let found = sample(&text, "container_cpu_usage_seconds_total", &busy)?;
        Ok(if found.1 > at + 900 { Ok(found) } else { Err(format!("still {found:?}")) })
    };
    let (after, _) = wait::every(PAUSE, "a later sample", PATIENCE, later)?;
    ensure!(after > before, "{before}, then {after}");
    let text = page(node, "/metrics/cadvisor")?;
    for labels in
        [&of_main[..], &["container=\"\"", "image=\"\"", "pod=\"holder-e2e\""], &["id=\"/\""]]
    {
        let (_, sampled) = sample(&text, "container_cpu_usage_seconds_total", labels)?;
        ensure!(sampled >= time, "{labels:?}: {sampled}");
    }
    let eth0 = ["interface=\"eth0\"", "pod=\"holder-e2e\""];
    sample(&text, "container_network_receive_bytes_total", &eth0)?;
    let quota = ["container=\"main\""];
    sample(&text, "container_cpu_cfs_periods_total", &quota)?;
    let only = summary(node, "?only_cpu_and_memory=true")?;
    ensure!(only["node"]["fs"].is_null() && only["pods"][0]["network"].is_null(), "{only}");
    Ok(())
}

//! Shutdowns of a machine with systemd and its login manager.

use std::path::Path;

use anyhow::{Result, ensure};
use e2e::vm_node::{PATIENCE, VmNode, VmOptions};
use vm::Root;

use super::systemd::drop_in;

/// A pod that ignores `SIGTERM`.
fn stubborn(name: &str, priority: i64, grace: u32) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  hostNetwork: true\n  \
         priority: {priority}\n  terminationGracePeriodSeconds: {grace}\n  containers:\n  - name: main\n    \
         image: ferrolet.test/workload:1\n    args: [ignore, TERM]\n"
    )
}

/// The agent under systemd, where a shutdown waits two minutes for regular pods and one for critical ones.
fn node() -> Result<VmNode> {
    let mut root = Root::default();
    let init = vm::put_systemd(&mut root)?;
    vm::put_logind(&mut root)?;
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/systemd/ferrolet.service");
    root.copy("/etc/systemd/system/ferrolet.service", &example);
    // The log of every agent.
    let log = drop_in().replace("truncate:", "append:");
    root.text("/etc/systemd/system/ferrolet.service.d/here.conf", log);
    let options = VmOptions { root, init: Some(init), ..VmOptions::default() };
    let node = VmNode::start_with(options)?;
    node.configure("shutdownGracePeriod: 3m\nshutdownGracePeriodCriticalPods: 1m")?;
    node.vm().output(&["systemctl", "start", "systemd-logind", "ferrolet"], PATIENCE)?;
    Ok(node)
}

#[test]
fn agent_that_is_killed_during_a_shutdown_goes_on_after_its_restart() -> Result<()> {
    let node = node()?;
    node.write_manifest("web.yaml", &stubborn("web", 0, 90))?;
    node.write_manifest("dns.yaml", &stubborn("dns", 2_000_000_000, 5))?;
    let (web, dns) = (node.wait_running("web", "main")?, node.wait_running("dns", "main")?);
    node.wait_for_log(&["Shutdowns of the node are delayed"])?;
    let delay = node.vm().read("/etc/systemd/logind.conf.d/99-kubelet.conf")?;
    ensure!(delay.contains("InhibitDelayMaxSec=180"), "{delay}");

    node.vm().spawn(&["systemctl", "poweroff"], "/var/log/poweroff.log")?;
    node.wait_for_log(&["Shutdown manager killing pod", "web"])?;
    let pid = node
        .vm()
        .output(&["systemctl", "show", "ferrolet", "--value", "-p", "MainPID"], PATIENCE)?;
    node.vm().signal(pid.trim().parse()?, 9)?;
    // Without the lock in the descriptor store, the shutdown would have gone on by now, and failed.
    node.wait_for_log(&["Continuing the shutdown of an earlier agent"])?;
    ensure!(node.container(&dns.id)?.pid == dns.pid, "its phase is later");
    node.wait_for_log(&["node will shutdown shortly"])?;
    for container in [&web, &dns] {
        ensure!(node.container(&container.id).is_err(), "{container:?} runs");
    }
    // The shutdown went on only then.
    node.wait_for_log(&["Shutdown of the node was cancelled"])?;
    let log = node.agent_log()?;
    ensure!(log.matches("was cancelled").count() == 1, "{log}");
    node.stop()
}

//! The agent's changes of the machine.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::cluster_node::ClusterNode;
use e2e::node::PATIENCE;
use testbed::{ControlPlaneOptions, wait};

/// The iptables chains that other components expect.
const CHAINS: [&str; 12] = [
    "ip6tables filter -N KUBE-KUBELET-CANARY",
    "ip6tables mangle -N KUBE-IPTABLES-HINT",
    "ip6tables mangle -N KUBE-KUBELET-CANARY",
    "ip6tables nat -N KUBE-KUBELET-CANARY",
    "iptables filter -A INPUT -j KUBE-FIREWALL",
    "iptables filter -A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment \
     \"block incoming localnet connections\" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
    "iptables filter -A OUTPUT -j KUBE-FIREWALL",
    "iptables filter -N KUBE-FIREWALL",
    "iptables filter -N KUBE-KUBELET-CANARY",
    "iptables mangle -N KUBE-IPTABLES-HINT",
    "iptables mangle -N KUBE-KUBELET-CANARY",
    "iptables nat -N KUBE-KUBELET-CANARY",
];

/// The kernel parameters and their values.
const SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

fn wait_for_chains(cluster: &ClusterNode) -> Result<()> {
    let expected: BTreeMap<String, u32> =
        CHAINS.iter().map(|line| ((*line).to_owned(), 1)).collect();
    wait::until("the chains are there", PATIENCE, || {
        let found = cluster.chains()?;
        Ok(if found == expected { Ok(()) } else { Err(format!("{found:#?}")) })
    })
}

/// Starts an agent that cannot start, and waits until the cluster has its events and the agent has ended.
fn cannot_start(cluster: &mut ClusterNode, flags: &[&str], events: &[(&str, &str)]) -> Result<()> {
    cluster.start_agent_with_flags(flags)?;
    for (reason, part) in events {
        cluster.wait_for_node_event(reason, part)?;
    }
    let ended = cluster.wait_agent_ends()?;
    ensure!(ended.code() == Some(1), "{ended:?}");
    Ok(())
}

// behaviour: CGR-23, NODE-42, NODE-54, NODE-57, NODE-58
#[test]
fn agent_sets_sysctls_and_creates_the_iptables_chains_once() -> Result<()> {
    let mut cluster = ClusterNode::start(&ControlPlaneOptions::default())?;
    // These changes are inside the instance.
    let other = "echo 0 > /proc/sys/kernel/panic; echo 2 > /proc/sys/vm/overcommit_memory";
    cluster.node().run("sh", &["-c", other])?;
    let refused = "invalid kernel flag: kernel/panic, expected value: 10, actual value: 0";
    let events = [("KubeletSetupFailed", refused)];
    cannot_start(&mut cluster, &["--protect-kernel-defaults"], &events)?;
    ensure!(cluster.chains()?.is_empty(), "it did not start: {:?}", cluster.chains()?);

    cluster.start_agent()?;
    cluster.wait_node_ready()?;
    wait_for_chains(&cluster)?;
    for (name, value) in SETTINGS {
        let found = cluster.node().run("cat", &[&format!("/proc/sys/{name}")])?;
        ensure!(found.trim() == value, "{name} is {found}");
    }
    // The next agent accepts the machine, creates what is missing, and nothing twice.
    cluster.kill_agent()?;
    cluster.node().run("iptables", &["-w", "5", "-t", "mangle", "-X"])?;
    cluster.start_agent_with_flags(&["--protect-kernel-defaults"])?;
    cluster.node().wait_for_log(&["iptables chains are set up", "IPv6"])?;
    wait_for_chains(&cluster)?;
    // Another agent would have to limit a cgroup that does not exist.
    cluster.kill_agent()?;
    let flags = ["--enforce-node-allocatable=pods,kube-reserved", "--kube-reserved-cgroup=/kube"];
    let missing = "Failed to enforce Kube Reserved Cgroup Limits on \"/kube\"";
    let events = ["FailedNodeAllocatableEnforcement", "KubeletSetupFailed"];
    cannot_start(&mut cluster, &flags, &events.map(|reason| (reason, missing)))?;
    cluster.stop()
}

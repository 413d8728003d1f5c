//! A pod with limits, and its cgroups in the kernel.

use anyhow::{Result, ensure};
use e2e::vm_limits::{self, CGROUPFS};
use e2e::vm_node::VmNode;

// behaviour: CGR-22, CGR-27
#[test]
fn pod_with_limits_has_them_in_the_kernel_and_leaves_no_cgroup() -> Result<()> {
    let mut node = VmNode::start()?;
    vm_limits::play(&mut node, &CGROUPFS)?;
    let score = vm_limits::oom_score(&node, node.agent()?)?;
    ensure!(score == -999, "the agent's oom_score_adj is {score}");
    node.stop()
}

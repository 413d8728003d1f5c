//! What must happen so that the runtime matches a pod.

use k8s_openapi::api::core::v1::Pod;
use model::ids::SandboxId;
use model::observed::PodStatus;
use podspec::Sizes;

use super::actions::{PodActions, SandboxPlan};
use super::cgroup_plan::{CgroupFacts, CgroupPlan, cgroup_plan, runs_outside};
use super::ephemeral_containers::ephemeral_starts;
use super::init_containers::init_actions;
use super::probe_results::ProbeResults;
use super::reasons::KillPod;
use super::regular_containers::{regular_actions, unknown_regular};
use super::remains;
use super::resize::resizes;
use super::restart_all::resets;
use super::sandbox_plan::{Sandbox, sandbox_plan, with_new_sandbox};

/// A pod, and all that is known of it.
#[derive(Debug, Clone, Copy)]
pub struct SyncContext<'a> {
    /// What is wanted.
    pub pod: &'a Pod,
    /// What was observed.
    pub status: &'a PodStatus,
    /// What probes say.
    pub probes: &'a ProbeResults,
    /// Whether the pod is marked to start over with all its containers.
    pub restart_all: bool,
    /// What containers were given since they were made.
    pub sizes: &'a Sizes,
    /// The pod's cgroup, as it was seen.
    pub cgroup: CgroupFacts,
}

/// Compares a pod with what was observed of it; upstream's `computePodActions`.
pub fn pod_actions(context: &SyncContext<'_>) -> PodActions {
    if runs_outside(context.cgroup, context.status) {
        return PodActions { cgroup: CgroupPlan::RestartInside, ..ended(KillPod::OutsideCgroup) };
    }
    let actions = container_actions(context);
    PodActions { cgroup: cgroup_plan(context.cgroup, &actions.sandbox), ..actions }
}

fn container_actions(context: &SyncContext<'_>) -> PodActions {
    if context.restart_all {
        let reset = resets(context.pod, context.status);
        return PodActions { reset, ..PodActions::none(SandboxPlan::None) };
    }
    match sandbox_plan(context.pod, context.status) {
        Sandbox::Usable { id, spares } => {
            let actions = in_sandbox(context, id);
            PodActions { remove_sandboxes: spares, ..actions }
        }
        Sandbox::Needed { attempt, replaces } => {
            let plan = SandboxPlan::Create { attempt, replaces };
            with_new_sandbox(context.pod, context.status, plan)
        }
    }
}

fn in_sandbox(context: &SyncContext<'_>, sandbox: SandboxId) -> PodActions {
    let SyncContext { pod, status, .. } = context;
    let init = init_actions(context, &sandbox);
    if init.failed {
        return ended(KillPod::InitFailed);
    }
    let mut actions = PodActions::none(SandboxPlan::Keep(sandbox));
    actions.start = ephemeral_starts(pod, status);
    actions.start.extend(init.start);
    actions.kill = init.kill;
    if init.initialized {
        let regular = regular_actions(context);
        // Sidecars alone do not keep a pod alive.
        if regular.kept == 0 && regular.start.is_empty() {
            return ended(KillPod::NothingLeft);
        }
        actions.kill.extend(regular.kill);
        actions.start.extend(regular.start);
    } else {
        let unknown = unknown_regular(pod, status);
        // How it ended decides whether anything of the pod runs again.
        actions.start.retain(|_| unknown.is_empty());
        actions.kill.extend(unknown);
    }
    actions.kill.extend(remains::superseded(pod, status));
    actions.remove = remains::removals(pod, status);
    actions.resize = resizes(pod, status, context.sizes);
    let kill = &actions.kill;
    actions.resize.retain(|change| kill.iter().all(|kill| kill.id != change.id));
    actions
}

fn ended(why: KillPod) -> PodActions {
    PodActions { kill_pod: Some(why), ..PodActions::none(SandboxPlan::None) }
}

#[cfg(test)]
mod tests;

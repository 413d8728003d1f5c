//! The actions that converge the runtime with a pod.

use k8s_openapi::api::core::v1::Pod;
use model::ids::SandboxId;
use model::observed::RuntimePodStatus;
use podspec::Sizes;

use super::actions::{PodActions, SandboxPlan};
use super::cgroup_plan::{CgroupFacts, CgroupPlan, cgroup_plan, runs_outside};
use super::ephemeral_containers::ephemeral_starts;
use super::init_containers::init_actions;
use super::old_instances;
use super::probe_results::ProbeResults;
use super::reasons::KillPod;
use super::regular_containers::{regular_actions, unknown_regular};
use super::resize::resizes;
use super::restart_all::resets;
use super::sandbox_plan::{Sandbox, sandbox_plan, with_new_sandbox};

/// The context of a sync: a pod and its known state.
#[derive(Debug, Clone, Copy)]
pub struct SyncContext<'a> {
    /// The desired pod.
    pub pod: &'a Pod,
    /// The observed status.
    pub status: &'a RuntimePodStatus,
    /// The results of probes.
    pub probes: &'a ProbeResults,
    /// Whether all containers of the pod restart.
    pub restart_all: bool,
    /// The resources that containers were given since their creation.
    pub sizes: &'a Sizes,
    /// The facts about the pod's cgroup.
    pub cgroup: CgroupFacts,
}

/// Compares a pod with its observed status; upstream's `computePodActions`.
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
        // Sidecars alone do not keep a pod running.
        if regular.kept == 0 && regular.start.is_empty() {
            return ended(KillPod::NothingLeft);
        }
        actions.kill.extend(regular.kill);
        actions.start.extend(regular.start);
    } else {
        let unknown = unknown_regular(pod, status);
        // Its exit decides whether anything of the pod restarts.
        actions.start.retain(|_| unknown.is_empty());
        actions.kill.extend(unknown);
    }
    actions.kill.extend(old_instances::superseded(pod, status));
    actions.remove = old_instances::removals(pod, status);
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

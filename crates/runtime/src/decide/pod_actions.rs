//! What must happen so that the runtime matches a pod.

use k8s_openapi::api::core::v1::Pod;
use model::ids::SandboxId;
use model::observed::PodStatus;
use podspec::Sizes;

use super::actions::{PodActions, SandboxPlan};
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
pub struct Situation<'a> {
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
}

/// Compares a pod with what was observed of it; upstream's `computePodActions`.
pub fn pod_actions(situation: &Situation<'_>) -> PodActions {
    if situation.restart_all {
        let reset = resets(situation.pod, situation.status);
        return PodActions { reset, ..PodActions::none(SandboxPlan::None) };
    }
    match sandbox_plan(situation.pod, situation.status) {
        Sandbox::Usable { id, spares } => {
            let actions = in_sandbox(situation, id);
            PodActions { remove_sandboxes: spares, ..actions }
        }
        Sandbox::Needed { attempt, replaces } => {
            let plan = SandboxPlan::Create { attempt, replaces };
            with_new_sandbox(situation.pod, situation.status, plan)
        }
    }
}

fn in_sandbox(situation: &Situation<'_>, sandbox: SandboxId) -> PodActions {
    let Situation { pod, status, .. } = situation;
    let init = init_actions(situation, &sandbox);
    if init.failed {
        return ended(KillPod::InitFailed);
    }
    let mut actions = PodActions::none(SandboxPlan::Keep(sandbox));
    actions.start = ephemeral_starts(pod, status);
    actions.start.extend(init.start);
    actions.kill = init.kill;
    if init.initialized {
        let regular = regular_actions(situation);
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
    actions.resize = resizes(pod, status, situation.sizes);
    let kill = &actions.kill;
    actions.resize.retain(|change| kill.iter().all(|kill| kill.id != change.id));
    actions
}

fn ended(why: KillPod) -> PodActions {
    PodActions { kill_pod: Some(why), ..PodActions::none(SandboxPlan::None) }
}

#[cfg(test)]
mod tests;

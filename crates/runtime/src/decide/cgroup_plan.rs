//! The action of a sync for the pod's cgroup.

use model::observed::{ContainerState, RuntimePodStatus};

use super::actions::SandboxPlan;

/// The cgroup of a pod, as seen before the actions of a sync are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupFacts {
    /// Pods have no cgroups of their own.
    #[default]
    Unmanaged,
    /// This agent has not ensured it yet.
    NotEnsured {
        /// Whether it exists. Only checked for a running pod.
        exists: bool,
    },
    /// This agent has ensured it before.
    Ensured {
        /// Whether it has the allocated values, if known.
        values_match: bool,
        /// Whether its class counts the allocated CPU request of the pod.
        share_matches: bool,
    },
}

/// The action for the pod's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupPlan {
    /// Nothing.
    #[default]
    Keep,
    /// It is created if it is missing, and limited if it is not.
    Ensure,
    /// The pod runs outside of it, and is killed to start again inside.
    RestartInside,
    /// Its values change.
    Resize,
    /// Nothing runs in it; its class counts the pod with its new CPU request.
    Recount,
}

/// Whether containers of the pod run although its cgroup does not exist.
pub(super) fn runs_outside(facts: CgroupFacts, status: &RuntimePodStatus) -> bool {
    facts == CgroupFacts::NotEnsured { exists: false }
        && status.containers.iter().any(|one| one.state == ContainerState::Running)
}

/// The plan for the cgroup of a pod whose containers start in this sandbox.
pub(super) fn cgroup_plan(facts: CgroupFacts, sandbox: &SandboxPlan) -> CgroupPlan {
    let (values_match, share_matches) = match facts {
        CgroupFacts::Unmanaged => return CgroupPlan::Keep,
        CgroupFacts::NotEnsured { .. } => return CgroupPlan::Ensure,
        CgroupFacts::Ensured { values_match, share_matches } => (values_match, share_matches),
    };
    match sandbox {
        // It may have been removed with the last process in it.
        SandboxPlan::Create { .. } => CgroupPlan::Ensure,
        SandboxPlan::Keep(_) if !(values_match && share_matches) => CgroupPlan::Resize,
        SandboxPlan::None if !share_matches => CgroupPlan::Recount,
        SandboxPlan::Keep(_) | SandboxPlan::None => CgroupPlan::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::test_pods::{instance, status};

    // behaviour: CGR-2, CGR-11, CGR-41
    #[test]
    fn cgroup_plan_follows_facts_and_sandbox() {
        use CgroupFacts::{Ensured, NotEnsured, Unmanaged};
        use CgroupPlan::{Ensure, Keep, Recount, Resize};
        let ensured = |values_match, share_matches| Ensured { values_match, share_matches };
        let kept = SandboxPlan::Keep("s".into());
        let created = SandboxPlan::Create { attempt: 1, replaces: true };
        let rows = [
            (Unmanaged, [Keep, Keep, Keep]),
            (NotEnsured { exists: false }, [Ensure, Ensure, Ensure]),
            (NotEnsured { exists: true }, [Ensure, Ensure, Ensure]),
            (ensured(true, true), [Keep, Ensure, Keep]),
            (ensured(false, true), [Resize, Ensure, Keep]),
            (ensured(true, false), [Resize, Ensure, Recount]),
            (ensured(false, false), [Resize, Ensure, Recount]),
        ];
        for (facts, expected) in rows {
            let plans = [&kept, &created, &SandboxPlan::None].map(|plan| cgroup_plan(facts, plan));
            assert_eq!(plans, expected, "{facts:?}");
        }
    }

    // behaviour: CGR-4
    #[test]
    fn pod_runs_outside_its_cgroup_only_if_running_without_it() {
        let missing = CgroupFacts::NotEnsured { exists: false };
        let ensured = CgroupFacts::Ensured { values_match: false, share_matches: false };
        let rows = [
            (missing, ContainerState::Running, true),
            (missing, ContainerState::Exited, false),
            (missing, ContainerState::Created, false),
            (CgroupFacts::NotEnsured { exists: true }, ContainerState::Running, false),
            (ensured, ContainerState::Running, false),
            (CgroupFacts::Unmanaged, ContainerState::Running, false),
        ];
        for (facts, state, expected) in rows {
            let status = status(Vec::new(), vec![instance("c", "a", state, 0)]);
            assert_eq!(runs_outside(facts, &status), expected, "{facts:?} {state:?}");
        }
    }
}

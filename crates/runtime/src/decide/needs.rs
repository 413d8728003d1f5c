//! The preparations on the node before the actions of a pod continue.

use super::actions::{PodActions, SandboxPlan};
use super::cgroup_plan::CgroupPlan;

/// The preparations between the kills and the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// The pod's cgroup is ensured.
    pub cgroup: bool,
    /// Containers start: the pod needs its directories, its objects and its prerequisites.
    pub start: bool,
}

/// The preparations for these actions.
pub fn needs(actions: &PodActions) -> Needs {
    let start = match actions.sandbox {
        SandboxPlan::Keep(_) => !actions.start.is_empty(),
        SandboxPlan::Create { .. } => true,
        SandboxPlan::None => false,
    };
    Needs { cgroup: actions.cgroup == CgroupPlan::Ensure, start }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::{ContainerStart, Role, StartReason};

    #[test]
    fn needs_follow_the_actions() {
        let start = ContainerStart { role: Role::Regular, index: 0, why: StartReason::New };
        let kept = || SandboxPlan::Keep("s".into());
        let created = || SandboxPlan::Create { attempt: 0, replaces: false };
        let rows = [
            (kept(), false, CgroupPlan::Keep, Needs { cgroup: false, start: false }),
            (kept(), true, CgroupPlan::Keep, Needs { cgroup: false, start: true }),
            (kept(), false, CgroupPlan::Resize, Needs { cgroup: false, start: false }),
            (created(), true, CgroupPlan::Ensure, Needs { cgroup: true, start: true }),
            (created(), false, CgroupPlan::Ensure, Needs { cgroup: true, start: true }),
            (SandboxPlan::None, false, CgroupPlan::Ensure, Needs { cgroup: true, start: false }),
        ];
        for (sandbox, starts, cgroup, expected) in rows {
            let start = starts.then(|| start.clone()).into_iter().collect();
            let actions = PodActions { cgroup, start, ..PodActions::none(sandbox) };
            assert_eq!(needs(&actions), expected, "{actions:?}");
        }
    }
}

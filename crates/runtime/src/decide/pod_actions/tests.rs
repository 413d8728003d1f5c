//! Every row of the action tables, and their laws.

mod init;
mod laws;
mod regular;
mod sandbox;

use k8s_openapi::api::core::v1::{
    Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, Pod,
};
use model::observed::{ContainerStatus, RuntimePodStatus, SandboxState};

use super::*;
use crate::decide::actions::Role;
use crate::decide::reasons::StartReason;
use crate::decide::test_pods::{sandbox, status};

/// The actions for a pod without further state.
fn actions(pod: &Pod, status: &RuntimePodStatus) -> PodActions {
    let probes = ProbeResults::default();
    pod_actions(&SyncContext {
        pod,
        status,
        probes: &probes,
        restart_all: false,
        sizes: &Sizes::new(),
        cgroup: CgroupFacts::Unmanaged,
    })
}

/// A pod's status with a usable sandbox.
fn in_live_sandbox(containers: Vec<ContainerStatus>) -> RuntimePodStatus {
    status(vec![sandbox("s", 0, SandboxState::Ready)], containers)
}

/// The containers to start, by kind and index.
fn starts(actions: &PodActions) -> Vec<(Role, usize, StartReason)> {
    actions.start.iter().map(|start| (start.role, start.index, start.why)).collect()
}

fn started(actions: &PodActions) -> Vec<(Role, usize)> {
    actions.start.iter().map(|start| (start.role, start.index)).collect()
}

fn kills(actions: &PodActions) -> Vec<&str> {
    actions.kill.iter().map(|kill| kill.id.as_str()).collect()
}

fn removals(actions: &PodActions) -> Vec<&str> {
    actions.remove.iter().map(|removal| removal.id.as_str()).collect()
}

fn with_policy(mut container: Container, policy: &str) -> Container {
    container.restart_policy = Some(policy.to_owned());
    container
}

/// A container that does not restart, except by a rule for these exit codes.
fn with_rule(container: Container, action: &str, codes: Vec<i32>) -> Container {
    let rule = ContainerRestartRule {
        action: action.to_owned(),
        exit_codes: Some(ContainerRestartRuleOnExitCodes {
            operator: "In".to_owned(),
            values: Some(codes),
        }),
    };
    let restart_policy_rules = Some(vec![rule]);
    Container { restart_policy_rules, ..with_policy(container, "Never") }
}

//! Every row of the action tables, and what holds for all of them.

mod init;
mod laws;
mod regular;
mod sandbox;

use k8s_openapi::api::core::v1::{
    Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, Pod,
};
use model::observed::{ContainerStatus, PodStatus, SandboxState};

use super::*;
use crate::decide::actions::Role;
use crate::decide::reasons::StartReason;
use crate::decide::test_pods::{sandbox, status};

/// What is done for a pod of which nothing else is known.
fn actions(pod: &Pod, status: &PodStatus) -> PodActions {
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

/// A pod's status with a sandbox that can be used.
fn in_live_sandbox(containers: Vec<ContainerStatus>) -> PodStatus {
    status(vec![sandbox("s", 0, SandboxState::Ready)], containers)
}

/// What starts, by kind and place.
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

/// A container that does not start again, but for what a rule does about these exit codes.
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

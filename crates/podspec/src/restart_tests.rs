//! Tables for restart policies and rules.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, Pod, PodSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::observed::ContainerState::{Created, Exited, Running, Unknown};
use model::observed::{ContainerState, ContainerStatus, RuntimePodStatus};

use crate::restart::{
    drop_own_rules, has_finished, may_restart_all, own_rules, restarts_all_after, should_restart,
};

fn container(name: &str) -> Container {
    Container { name: name.to_owned(), ..Container::default() }
}

fn pod(policy: &str, containers: Vec<Container>) -> Pod {
    let spec =
        PodSpec { restart_policy: Some(policy.to_owned()), containers, ..PodSpec::default() };
    Pod { spec: Some(spec), ..Pod::default() }
}

fn instance(name: &str, state: ContainerState, exit_code: i32) -> ContainerStatus {
    ContainerStatus {
        id: name.into(),
        sandbox_id: "s".into(),
        name: name.into(),
        state,
        created_at: Timestamp::UNIX_EPOCH,
        started_at: None,
        finished_at: None,
        exit_code,
        image: "".into(),
        image_ref: "".into(),
        reason: "".into(),
        message: "".into(),
        log_path: "".into(),
        annotations: [].into(),
        mounts: Vec::new(),
        resources: None,
        user: None,
        stop_signal: None,
    }
}

fn status(containers: Vec<ContainerStatus>) -> RuntimePodStatus {
    RuntimePodStatus { containers, ..RuntimePodStatus::empty("uid".into()) }
}

fn rule(action: &str, operator: &str, values: Vec<i32>) -> ContainerRestartRule {
    ContainerRestartRule {
        action: action.to_owned(),
        exit_codes: Some(ContainerRestartRuleOnExitCodes {
            operator: operator.to_owned(),
            values: Some(values),
        }),
    }
}

fn with_rules(policy: Option<&str>, rules: Vec<ContainerRestartRule>) -> Container {
    Container {
        restart_policy: policy.map(Into::into),
        restart_policy_rules: Some(rules),
        ..container("main")
    }
}

#[test]
fn policy_and_last_instance_decide() {
    let rows = [
        ("Always", None, true),
        ("Never", None, true),
        ("Always", Some((Running, 0)), false),
        ("Never", Some((Created, 0)), true),
        ("Never", Some((Unknown, 0)), true),
        ("Always", Some((Exited, 0)), true),
        ("Always", Some((Exited, 1)), true),
        ("OnFailure", Some((Exited, 0)), false),
        ("OnFailure", Some((Exited, 1)), true),
        ("Never", Some((Exited, 0)), false),
        ("Never", Some((Exited, 1)), false),
    ];
    for (policy, latest, expected) in rows {
        let pod = pod(policy, vec![container("main")]);
        let latest = latest.map(|(state, code)| instance("main", state, code));
        let decided = should_restart(&pod, &container("main"), latest.as_ref());
        assert_eq!(decided, expected, "{policy} {latest:?}");
    }
}

#[test]
fn container_policy_takes_precedence_over_the_pod() {
    let main = Container { restart_policy: Some("Never".to_owned()), ..container("main") };
    let latest = instance("main", Exited, 1);
    assert!(!should_restart(&pod("Always", vec![]), &main, Some(&latest)));
}

#[test]
fn rules_restart_by_exit_code_where_the_container_has_a_policy() {
    let rows = [
        (Some("Never"), rule("Restart", "In", vec![42]), 42, true),
        (Some("Never"), rule("Restart", "In", vec![42]), 1, false),
        (Some("Never"), rule("Restart", "NotIn", vec![42]), 1, true),
        (Some("Never"), rule("Restart", "NotIn", vec![42]), 42, false),
        (Some("Never"), rule("RestartAllContainers", "In", vec![42]), 42, true),
        (Some("Never"), rule("Dance", "In", vec![42]), 42, false),
        (None, rule("Restart", "In", vec![42]), 42, false),
    ];
    for (policy, rule, code, expected) in rows {
        let main = with_rules(policy, vec![rule.clone()]);
        let latest = instance("main", Exited, code);
        assert_eq!(
            should_restart(&pod("Never", vec![]), &main, Some(&latest)),
            expected,
            "{policy:?} {rule:?} {code}"
        );
    }
}

#[test]
fn first_matching_rule_decides_whether_all_containers_restart() {
    let all = rule("RestartAllContainers", "In", vec![7]);
    let one = rule("Restart", "In", vec![7]);
    let rows = [
        (Some("Never"), vec![all.clone()], 7, true),
        (Some("Never"), vec![all.clone()], 1, false),
        (Some("Never"), vec![one.clone(), all.clone()], 7, false),
        (Some("Never"), vec![all.clone(), one.clone()], 7, true),
        (None, vec![all.clone()], 7, false),
    ];
    for (policy, rules, code, expected) in rows {
        let main = with_rules(policy, rules.clone());
        assert_eq!(restarts_all_after(&main, code), expected, "{policy:?} {rules:?} {code}");
    }
    assert!(may_restart_all(&pod(
        "Never",
        vec![with_rules(Some("Never"), vec![one.clone(), all])]
    )));
    assert!(!may_restart_all(&pod("Never", vec![with_rules(Some("Never"), vec![one])])));
}

#[test]
fn deleted_pod_is_not_restarted() {
    let mut pod = pod("Always", vec![]);
    pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert!(!should_restart(&pod, &container("main"), None));
}

#[test]
fn pod_has_finished_when_every_container_terminated_for_good() {
    let rows = [
        ("Never", vec![instance("a", Exited, 0), instance("b", Exited, 1)], true),
        ("OnFailure", vec![instance("a", Exited, 0), instance("b", Exited, 0)], true),
        ("OnFailure", vec![instance("a", Exited, 0), instance("b", Exited, 1)], false),
        ("Always", vec![instance("a", Exited, 0), instance("b", Exited, 0)], false),
        ("Never", vec![instance("a", Exited, 0), instance("b", Running, 0)], false),
        ("Never", vec![instance("a", Exited, 0)], false),
        ("Never", vec![], false),
    ];
    for (policy, instances, expected) in rows {
        let pod = pod(policy, vec![container("a"), container("b")]);
        let finished = has_finished(&pod, &status(instances.clone()));
        assert_eq!(finished, expected, "{policy} {instances:?}");
    }
    assert!(!has_finished(&pod("Never", vec![]), &status(vec![])));
}

// behaviour: ACT-22, ACT-75
#[test]
fn pod_has_finished_when_an_init_container_failed_for_good() {
    let always =
        |name: &str| Container { restart_policy: Some("Always".to_owned()), ..container(name) };
    let mut of_memory = instance("i", Exited, 0);
    of_memory.reason = "OOMKilled".into();
    let rows = vec![
        ("Never", container("i"), vec![of_memory.clone()], true),
        ("OnFailure", container("i"), vec![of_memory], false),
        ("Never", container("i"), vec![instance("i", Exited, 1)], true),
        ("Never", container("i"), vec![instance("i", Exited, 0)], false),
        ("OnFailure", container("i"), vec![instance("i", Exited, 1)], false),
        ("Never", always("i"), vec![instance("i", Exited, 1)], false),
        ("Never", container("i"), vec![instance("i", Running, 0)], false),
        // It had completed once later containers run.
        ("Never", container("i"), vec![instance("a", Running, 0), instance("i", Exited, 1)], false),
    ];
    for (policy, init, instances, expected) in rows {
        let mut pod = pod(policy, vec![container("a")]);
        pod.spec.as_mut().unwrap().init_containers = Some(vec![init]);
        let finished = has_finished(&pod, &status(instances.clone()));
        assert_eq!(finished, expected, "{policy} {instances:?}");
    }
}

// behaviour: ACT-49
#[test]
fn container_restart_rules_can_be_dropped() {
    let ruled = with_rules(Some("Never"), vec![rule("Restart", "In", vec![42])]);
    let sidecar = with_rules(Some("Always"), vec![]);
    let mut pod = pod("Always", vec![ruled.clone()]);
    let spec = pod.spec.as_mut().unwrap();
    let failing = with_rules(Some("OnFailure"), vec![]);
    spec.init_containers = Some(vec![failing, sidecar]);
    let paths = own_rules(&pod);
    let expected = [
        "spec.initContainers[0].restartPolicy",
        "spec.containers[0].restartPolicy",
        "spec.containers[0].restartPolicyRules",
    ];
    let of = |path: &&str| paths.iter().any(|found| found == path);
    assert!(expected.iter().all(of), "{paths:?}");
    drop_own_rules(&mut pod);
    let spec = pod.spec.as_ref().unwrap();
    let policies = spec.init_containers.iter().flatten().chain(&spec.containers);
    let policies: Vec<_> = policies.map(|one| one.restart_policy.as_deref()).collect();
    assert_eq!(policies, [None, Some("Always"), None], "a sidecar is still one");
    let ended = instance(&spec.containers[0].name, Exited, 0);
    assert!(should_restart(&pod, &spec.containers[0], Some(&ended)), "by the pod's policy");
    assert!(!should_restart(&pod, &ruled, Some(&ended)));
}

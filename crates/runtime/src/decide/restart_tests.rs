use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::observed::ContainerState::{Created, Exited, Running, Unknown};

use super::*;
use crate::decide::test_pods::{container, instance, pod, status};

#[test]
fn the_policy_and_the_last_instance_decide() {
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
        let latest = latest.map(|(state, code)| instance("c", "main", state, code));
        let decided = should_restart(&pod, &container("main"), latest.as_ref());
        assert_eq!(decided, expected, "{policy} {latest:?}");
    }
}

#[test]
fn the_containers_own_policy_wins_over_the_pods() {
    let pod = pod("Always", vec![]);
    let mut main = container("main");
    main.restart_policy = Some("Never".to_owned());
    assert!(!should_restart(&pod, &main, Some(&instance("c", "main", Exited, 1))));
}

#[test]
fn rules_restart_by_exit_code_where_the_container_has_a_policy() {
    let rule = |operator: &str, values: Vec<i32>| ContainerRestartRule {
        action: "Restart".to_owned(),
        exit_codes: Some(ContainerRestartRuleOnExitCodes {
            operator: operator.to_owned(),
            values: Some(values),
        }),
    };
    let rows = [
        (Some("Never"), rule("In", vec![42]), 42, true),
        (Some("Never"), rule("In", vec![42]), 1, false),
        (Some("Never"), rule("NotIn", vec![42]), 1, true),
        (Some("Never"), rule("NotIn", vec![42]), 42, false),
        (None, rule("In", vec![42]), 42, false),
    ];
    for (policy, rule, code, expected) in rows {
        let pod = pod("Never", vec![]);
        let mut main = container("main");
        main.restart_policy = policy.map(Into::into);
        main.restart_policy_rules = Some(vec![rule.clone()]);
        let latest = instance("c", "main", Exited, code);
        assert_eq!(
            should_restart(&pod, &main, Some(&latest)),
            expected,
            "{policy:?} {rule:?} {code}"
        );
    }
}

#[test]
fn nothing_of_a_pod_that_is_being_deleted_restarts() {
    let mut pod = pod("Always", vec![]);
    pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(!should_restart(&pod, &container("main"), None));
}

#[test]
fn a_pod_has_finished_when_every_container_ended_for_good() {
    let rows = [
        ("Never", vec![instance("a", "a", Exited, 0), instance("b", "b", Exited, 1)], true),
        ("OnFailure", vec![instance("a", "a", Exited, 0), instance("b", "b", Exited, 0)], true),
        ("OnFailure", vec![instance("a", "a", Exited, 0), instance("b", "b", Exited, 1)], false),
        ("Always", vec![instance("a", "a", Exited, 0), instance("b", "b", Exited, 0)], false),
        ("Never", vec![instance("a", "a", Exited, 0), instance("b", "b", Running, 0)], false),
        ("Never", vec![instance("a", "a", Exited, 0)], false),
        ("Never", vec![], false),
    ];
    for (policy, instances, expected) in rows {
        let pod = pod(policy, vec![container("a"), container("b")]);
        let finished = has_finished(&pod, &status(vec![], instances.clone()));
        assert_eq!(finished, expected, "{policy} {instances:?}");
    }
    assert!(!has_finished(&pod("Never", vec![]), &status(vec![], vec![])));
}

use k8s_openapi::api::core::v1::PodIP;
use proptest::prelude::*;

use super::*;
use crate::decide::test_pods::{at, pod, time};

const NOW: i64 = 100;

fn condition(type_: &str, status: &str) -> PodCondition {
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(time(5)),
        ..PodCondition::default()
    }
}

fn status(phase: &str, conditions: Vec<PodCondition>) -> PodStatus {
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions),
        ..PodStatus::default()
    }
}

fn merged(api: PodStatus, ours: &PodStatus, may_run: bool) -> PodStatus {
    let mut pod = pod("Always", &["main"]);
    pod.status = Some(api);
    merge(&MergeInput { api: &pod, ours, may_run, now: at(NOW) })
}

fn types(status: &PodStatus) -> Vec<String> {
    let all = listed(status).iter().map(|one| format!("{} {}", one.type_, one.status));
    all.collect()
}

// behaviour: STW-1
#[test]
fn foreign_conditions_are_kept_from_the_api() {
    let api = status("Pending", vec![condition("Gate", "True"), condition("Ready", "False")]);
    let ours = status("Running", vec![condition("Gate", "False"), condition("Ready", "True")]);
    let result = merged(api, &ours, true);
    assert_eq!(types(&result), ["Gate True", "Ready True"]);
    assert_eq!(result.phase.as_deref(), Some("Running"));
}

// behaviour: STW-2
#[test]
fn terminal_phase_is_withheld_while_containers_may_run() {
    let api = || PodStatus { reason: Some("Before".to_owned()), ..status("Running", vec![]) };
    let conditions = vec![condition("DisruptionTarget", "True"), condition("Ready", "False")];
    let mut ours = status("Failed", conditions);
    ours.reason = Some("Evicted".to_owned());
    let held = merged(api(), &ours, true);
    assert_eq!((held.phase.as_deref(), held.reason.as_deref()), (Some("Running"), Some("Before")));
    assert_eq!(types(&held), ["Ready False"]);
    let published = merged(api(), &ours, false);
    assert_eq!(
        (published.phase.as_deref(), published.reason.as_deref()),
        (Some("Failed"), Some("Evicted"))
    );
    assert_eq!(types(&published), ["DisruptionTarget True", "Ready False"], "in this order");
    assert_eq!(listed(&published)[0].last_transition_time, Some(time(NOW)));
}

// behaviour: STW-3
#[test]
fn terminal_phase_of_the_api_is_never_left() {
    for ours in ["Pending", "Running", "Succeeded"] {
        let mut api = status("Failed", vec![]);
        api.reason = Some("Evicted".to_owned());
        let result = merged(api, &status(ours, vec![]), false);
        assert_eq!(result.phase.as_deref(), Some("Failed"), "{ours}");
        assert_eq!(result.reason.as_deref(), Some("Evicted"), "{ours}");
    }
}

// behaviour: STW-4
#[test]
fn terminal_pod_is_not_ready() {
    for (phase, reason) in [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")] {
        let ours =
            status(phase, vec![condition("Ready", "True"), condition("ContainersReady", "True")]);
        let result = merged(status("Running", vec![]), &ours, false);
        assert_eq!(types(&result), ["Ready False", "ContainersReady False"]);
        assert!(listed(&result).iter().all(|one| one.reason.as_deref() == Some(reason)));
    }
}

// behaviour: STW-5
#[test]
fn observed_generation_and_start_time_are_monotonic() {
    let api = PodStatus {
        observed_generation: Some(4),
        start_time: Some(time(1)),
        ..status("Running", vec![])
    };
    let ours = PodStatus {
        observed_generation: Some(3),
        start_time: Some(time(9)),
        ..status("Running", vec![])
    };
    let result = merged(api, &ours, true);
    assert_eq!((result.observed_generation, result.start_time), (Some(4), Some(time(1))));
}

// behaviour: STW-8
#[test]
fn terminal_pod_keeps_its_addresses() {
    for (phase, kept) in [("Failed", true), ("Running", false)] {
        let mut api = status("Running", vec![]);
        api.pod_ip = Some("10.0.0.1".to_owned());
        api.pod_ips = Some(vec![PodIP { ip: "10.0.0.1".to_owned() }]);
        let result = merged(api, &status(phase, vec![]), false);
        assert_eq!((result.pod_ip.is_some(), result.pod_ips.is_some()), (kept, kept), "{phase}");
    }
}

// behaviour: STW-6
#[test]
fn irrelevant_fields_are_not_differences() {
    let one = status("Running", vec![condition("Ready", "True"), condition("Gate", "True")]);
    let mut same = one.clone();
    let conditions = same.conditions.as_mut().unwrap();
    conditions[0].last_transition_time = Some(time(77));
    conditions[0].observed_generation = Some(3);
    conditions[1].status = "False".to_owned();
    assert!(is_same(&one, &same));
    let other = status("Running", vec![condition("Ready", "False"), condition("Gate", "True")]);
    assert!(!is_same(&one, &other));
    assert!(!is_same(&one, &PodStatus { observed_generation: Some(2), ..one.clone() }));
}

fn phases() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["Pending", "Running", "Succeeded", "Failed"])
}

fn some_conditions() -> impl Strategy<Value = Vec<PodCondition>> {
    let types = vec!["Ready", "ContainersReady", "Initialized", "DisruptionTarget", "Gate"];
    let one = (prop::sample::subsequence(types, 0..5), any::<u8>());
    one.prop_map(|(types, bits)| {
        let all = types.into_iter().enumerate();
        all.map(|(at, type_)| condition(type_, if bits >> at & 1 == 1 { "True" } else { "False" }))
            .collect()
    })
}

proptest! {
    #[test]
    fn merge_is_idempotent_and_leaves_no_terminal_phase(
        (api_phase, api_conditions) in (phases(), some_conditions()),
        (our_phase, our_conditions) in (phases(), some_conditions()),
        may_run in any::<bool>(),
    ) {
        let api = status(api_phase, api_conditions);
        let ours = status(our_phase, our_conditions);
        let once = merged(api.clone(), &ours, may_run);
        prop_assert!(is_same(&once, &merged(once.clone(), &ours, may_run)));
        if ["Succeeded", "Failed"].contains(&api_phase) {
            prop_assert_eq!(once.phase.as_deref(), Some(api_phase));
        } else if may_run {
            let is_terminal = |phase: &str| ["Succeeded", "Failed"].contains(&phase);
            prop_assert!(!is_terminal(once.phase.as_deref().unwrap()));
        }
    }
}

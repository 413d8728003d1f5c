//! Tests of decisions about resizes.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use podspec::{Origin, read_manifest};
use proptest::prelude::*;

use super::*;
use crate::decide::admission::{Occupancy, admission};

fn pod(resources: &str) -> Pod {
    spec(&format!("containers: [{{name: main, image: 'image:1', resources: {{{resources}}}}}]"))
}

fn spec(spec: &str) -> Pod {
    let manifest =
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: web}}\nspec: {{{spec}}}\n");
    let origin = Origin::File("/manifests/web.yaml".into());
    read_manifest(manifest.as_bytes(), &origin, "node").unwrap().pods.remove(0)
}

fn node() -> Node {
    Node {
        name: "node".to_owned(),
        abilities: [
            Ability::InPlacePodLevelResourcesVerticalScaling,
            Ability::InPlacePodVerticalScalingInitContainers,
        ]
        .into(),
        ..Node::default()
    }
}

fn decided(desired: &Pod, allocated: &Pod, chain: Decision) -> Resize {
    resize(desired, allocated, &node(), || chain)
}

fn infeasible(resize: &Resize) -> Option<&'static str> {
    let Resize::Infeasible(why) = resize else { return None };
    Some(why.message)
}

const SOME: &str = "requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 128Mi}";

// behaviour: RSZ-1, RSZ-2, RSZ-3
#[test]
fn chain_decides_about_a_valid_resize() {
    let has = pod(SOME);
    let same = pod("requests: {cpu: 0.1, memory: 65536Ki}, limits: {cpu: 0.2, memory: 128Mi}");
    let more = pod("requests: {cpu: 150m, memory: 64Mi}, limits: {cpu: 300m, memory: 128Mi}");
    let full = Rejection::new("OutOfcpu", "no room");
    let plan = Preemption { victims: vec!["other".into()], resource: "cpu".to_owned() };
    let rows = [
        (&same, Decision::Reject(full.clone()), Resize::Same),
        (&more, Decision::Admit, Resize::Allocate),
        (&more, Decision::Preempt(plan.clone()), Resize::Preempt(plan)),
        (&more, Decision::Reject(full.clone()), Resize::Deferred(full)),
    ];
    for (desired, chain, expected) in rows {
        assert_eq!(decided(desired, &has, chain), expected);
    }
}

// behaviour: RSZ-4, RSZ-26
#[test]
fn resize_that_the_api_server_would_reject_is_infeasible() {
    let rows = [
        (SOME, "", "Pod QOS Class may not change as a result of resizing"),
        (
            SOME,
            "limits: {cpu: 200m, memory: 128Mi}",
            "Pod QOS Class may not change as a result of resizing",
        ),
        (SOME, "requests: {cpu: 100m, memory: 64Mi}", "resource limits cannot be removed"),
        (SOME, "requests: {cpu: 100m}, limits: {cpu: 200m}", "resource requests cannot be removed"),
        (
            "requests: {cpu: 100m, memory: 64Mi}",
            "requests: {memory: 64Mi}",
            "resource requests cannot be removed",
        ),
    ];
    for (has, wanted, expected) in rows {
        let answer = decided(&pod(wanted), &pod(has), Decision::Admit);
        assert_eq!(infeasible(&answer), Some(expected), "{has} to {wanted}");
    }
    let whole = |resources: &str| {
        spec(&format!(
            "{resources} containers: [{{name: main, image: 'image:1', \
             resources: {{requests: {{cpu: 10m}}}}}}]"
        ))
    };
    let has = whole("resources: {requests: {cpu: 100m}, limits: {cpu: 200m}},");
    let rows = [
        ("", "pod-level resources cannot be removed"),
        ("resources: {requests: {cpu: 100m}},", "pod-level resource limits cannot be removed"),
    ];
    for (wanted, expected) in rows {
        let answer = decided(&whole(wanted), &has, Decision::Admit);
        assert_eq!(infeasible(&answer), Some(expected), "{wanted}");
    }
    let larger = whole("resources: {requests: {cpu: 100m}, limits: {cpu: 300m}},");
    assert_eq!(decided(&larger, &has, Decision::Admit), Resize::Allocate);
    let incapable = Node { abilities: <_>::default(), ..node() };
    let answer = resize(&larger, &has, &incapable, || Decision::Admit);
    let message = "InPlacePodLevelResourcesVerticalScaling is disabled";
    let expected = InfeasibleResize { message, detail: "plr_feature_gate_off" };
    assert_eq!(answer, Resize::Infeasible(expected));
}

// behaviour: RSZ-27
#[test]
fn init_containers_are_immutable_without_their_gate() {
    let pod = |init: &str, beside: &str, main: &str| {
        let one = |name: &str, cpu: &str, more: &str| {
            format!(
                "{{name: {name}, image: 'image:1', {more}resources: {{requests: {{cpu: {cpu}}}}}}}"
            )
        };
        let beside = one("beside", beside, "restartPolicy: Always, ");
        let (init, main) = (one("init", init, ""), one("main", main, ""));
        spec(&format!("initContainers: [{init}, {beside}], containers: [{main}]"))
    };
    let has = pod("100m", "100m", "100m");
    let level = Ability::InPlacePodLevelResourcesVerticalScaling;
    let without = Node { abilities: [level].into(), ..node() };
    let message = "resources for non-sidecar init containers are immutable";
    let never = Resize::Infeasible(InfeasibleResize { message, detail: "init_feature_gate_off" });
    let rows = [
        ("the init container", pod("200m", "100m", "100m"), &never),
        ("it and another", pod("200m", "100m", "300m"), &never),
        ("less of it", pod("50m", "100m", "100m"), &never),
        ("the sidecar", pod("100m", "200m", "100m"), &Resize::Allocate),
        ("the regular one", pod("100m", "100m", "200m"), &Resize::Allocate),
        ("nothing", pod("0.1", "100m", "100m"), &Resize::Same),
    ];
    for (what, desired, expected) in rows {
        assert_eq!(&resize(&desired, &has, &without, || Decision::Admit), expected, "{what}");
        let with = decided(&desired, &has, Decision::Admit);
        assert_eq!(infeasible(&with), None, "{what}");
    }
}

// behaviour: NDF-1, NDF-2
#[test]
fn undeclared_feature_of_a_change_is_named() {
    use Ability::{
        InPlacePodLevelResourcesVerticalScaling as Whole,
        InPlacePodVerticalScalingInitContainers as Init, NodeDeclaredFeatures as Declared,
    };
    let pod = |whole: &str, init: &str, beside: &str, main: &str| {
        let one = |name: &str, cpu: &str, more: &str| {
            let resources = format!("resources: {{requests: {{cpu: {cpu}}}}}");
            format!("{{name: {name}, image: 'image:1', {more}{resources}}}")
        };
        let beside = one("beside", beside, "restartPolicy: Always, ");
        let (init, main) = (one("init", init, ""), one("main", main, ""));
        spec(&format!(
            "resources: {{requests: {{cpu: {whole}}}}}, initContainers: [{init}, {beside}], \
             containers: [{main}]"
        ))
    };
    let before = pod("1", "100m", "100m", "100m");
    let (whole, init) = (Whole.gate(), Init.gate());
    let both = format!("{whole}, {init}");
    let rows: Vec<(_, _, &[Ability], Option<&str>)> = vec![
        ("the whole", pod("2", "100m", "100m", "100m"), &[Declared], Some(whole)),
        ("the init container", pod("1", "200m", "100m", "100m"), &[Declared], Some(init)),
        ("both", pod("2", "200m", "100m", "100m"), &[Declared], Some(both.as_str())),
        ("both, one declared", pod("2", "200m", "100m", "100m"), &[Declared, Whole], Some(init)),
        ("both, all declared", pod("2", "200m", "100m", "100m"), &[Declared, Whole, Init], None),
        ("both, gate off", pod("2", "200m", "100m", "100m"), &[], None),
        ("the sidecar", pod("1", "100m", "200m", "100m"), &[Declared], None),
        ("the regular one", pod("1", "100m", "100m", "200m"), &[Declared], None),
        ("nothing", pod("1000m", "0.1", "100m", "100m"), &[Declared], None),
    ];
    for (what, now, abilities, missing) in rows {
        let node = Node { abilities: abilities.iter().copied().collect(), ..node() };
        let expected = missing
            .map(|missing| format!("Pod requires node features that are not available: {missing}"));
        assert_eq!(undeclared_for_change(&before, &now, &node), expected, "{what}");
    }
}

// behaviour: RSZ-22, RSZ-23
#[test]
fn refusal_event_is_recorded_once_per_request() {
    let refused = |cpu: &str, infeasible: bool, message: &str| RefusedResize {
        wanted: Allocation::of(&pod(&format!("requests: {{cpu: {cpu}}}"))),
        infeasible,
        message: message.to_owned(),
    };
    let before = refused("1", false, "no room");
    let rows = [
        (None, before.clone(), (true, true)),
        (Some(&before), before.clone(), (false, false)),
        (Some(&before), refused("1", false, "less room"), (false, true)),
        (Some(&before), refused("2", false, "no room"), (true, false)),
        (Some(&before), refused("1", true, "no room"), (true, true)),
    ];
    for (before, now, expected) in rows {
        let news = refusal_report(before, &now);
        assert_eq!((news.event, news.status), expected, "{now:?}");
    }
}

// behaviour: RSZ-24
#[test]
fn requests_are_counted_by_resource_and_direction() {
    let rows: [(&str, &str, &[Request]); 4] = [
        (SOME, SOME, &[]),
        (
            "requests: {cpu: 100m}, limits: {memory: 64Mi}",
            "requests: {cpu: 200m}, limits: {memory: 32Mi}",
            &[
                ("memory", "requests", "decrease"),
                ("memory", "limits", "decrease"),
                ("cpu", "requests", "increase"),
            ],
        ),
        ("", "requests: {cpu: 1}", &[("cpu", "requests", "add")]),
        ("requests: {cpu: 1}", "", &[("cpu", "requests", "remove")]),
    ];
    for (before, now, expected) in rows {
        assert_eq!(requested(&pod(before), &pod(now)), expected, "{before} to {now}");
    }
}

// behaviour: RSZ-6
#[test]
fn waiting_resizes_are_sorted_by_size_priority_class_and_age() {
    let at = |second| Timestamp::from_second(second).ok();
    let requests = |priority: i32, cpu: &str| {
        spec(&format!(
            "priority: {priority}, containers: [{{name: main, image: 'image:1', \
             resources: {{requests: {{cpu: {cpu}}}}}}}]"
        ))
    };
    let promised = |cpu: &str| pod(&format!("limits: {{cpu: {cpu}, memory: 1Gi}}"));
    let rows = [
        ("shrinks", Box::new(requests(0, "1")), Box::new(requests(0, "2")), at(9)),
        ("matters", Box::new(requests(7, "2")), Box::new(requests(7, "1")), at(9)),
        ("promised", Box::new(promised("2")), Box::new(promised("1")), at(9)),
        ("waited", Box::new(requests(0, "2")), Box::new(requests(0, "1")), at(3)),
        ("waits", Box::new(requests(0, "2")), Box::new(requests(0, "1")), at(5)),
        ("new", Box::new(requests(0, "2")), Box::new(requests(0, "1")), None),
    ];
    let mut order: Vec<usize> = (0..rows.len()).rev().collect();
    order.sort_by_key(|row| {
        let (_, desired, allocated, since) = &rows[*row];
        turn(&Waiting { desired, allocated, since: *since })
    });
    let names: Vec<&str> = order.iter().map(|row| rows[*row].0).collect();
    assert_eq!(names, ["shrinks", "matters", "promised", "waited", "waits", "new"]);
}

proptest! {
    /// For any requests: the sum of allocations never exceeds the node, and a pod
    /// that requests no more is always granted.
    #[test]
    fn allocations_fit_and_smaller_requests_are_always_granted(
        asks in prop::collection::vec((0_usize..4, 1_i64..3000), 1..30),
    ) {
        let node = Node {
            name: "node".to_owned(),
            allocatable: [("cpu", "4"), ("pods", "10")]
                .map(|(name, amount)| (name.to_owned(), amount.parse().unwrap()))
                .into(),
            ..Node::default()
        };
        let requesting = |which: usize, milli: i64| {
            let mut pod = pod(&format!("requests: {{cpu: {milli}m}}"));
            pod.metadata.uid = Some(format!("{which}"));
            pod.metadata.annotations = None;
            Arc::new(pod)
        };
        let mut given: Vec<Arc<Pod>> = (0..4).map(|which| requesting(which, 500)).collect();
        for (which, milli) in asks {
            let desired = requesting(which, milli);
            let others = given.iter().enumerate().filter(|(other, _)| *other != which);
            let others: Occupancy = others.map(|(_, pod)| Arc::clone(pod)).collect();
            let answer = resize(&desired, &given[which], &node, || admission(&desired, &others, &node));
            let mut rest: Occupancy = given.iter().cloned().collect();
            prop_assert!(rest.remove(&which.to_string().as_str().into()).is_some());
            let beside = |there: &Occupancy| format!("{:?}", admission(&desired, there, &node));
            prop_assert_eq!(beside(&rest), beside(&others));
            if !requests_more(&desired, &given[which]) {
                prop_assert!(matches!(answer, Resize::Allocate | Resize::Same), "{:?}", answer);
            }
            if answer == Resize::Allocate {
                given[which] = desired;
            }
            let sum: i64 = given.iter().map(|pod| Allocation::of(pod).containers["main"].cpu_request).sum();
            prop_assert!(sum <= 4000, "{}", sum);
        }
    }
}

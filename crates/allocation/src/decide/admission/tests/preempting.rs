//! Tests of preemption.

use super::*;

/// A pod with this CPU request, QoS class and priority.
fn of_class(name: &str, class: &str, cpu: &str, priority: Option<i32>) -> Pod {
    let resources = match class {
        "guaranteed" => {
            format!("limits: {{cpu: {cpu}, memory: 1Mi}}, requests: {{cpu: {cpu}, memory: 1Mi}}")
        }
        "burstable" => format!("requests: {{cpu: {cpu}}}"),
        _ => String::new(),
    };
    let resources = format!("containers: [{{name: main, resources: {{{resources}}}}}]");
    let mut pod = with_containers(name, &resources);
    pod.spec.as_mut().unwrap().priority = priority;
    pod
}

/// The victims of a critical pod with these requests, or its rejection.
fn meets(new: &Pod, there: &[Pod]) -> Result<Vec<String>, String> {
    match admission(new, &occupied(there.iter().cloned()), &node()) {
        Decision::Admit => Ok(Vec::new()),
        Decision::Preempt(plan) => Ok(plan.victims.iter().map(ToString::to_string).collect()),
        Decision::Reject(Rejection { reason, message }) => Err(format!("{reason}: {message}")),
    }
}

fn critical(requests: &str) -> Pod {
    made_static(requesting("critical", requests))
}

// behaviour: ADM-12
#[test]
fn only_critical_pods_preempt_and_only_less_important_ones() {
    let (high, low) = (Some(2_000_001_000), Some(100));
    let requests_of = |priority: Option<i32>| of_class("new", "burstable", "3", priority);
    let there = |priority: Option<i32>| of_class("there", "burstable", "2", priority);
    let rows = vec![
        ("critical over another", requests_of(high), there(low), true),
        ("over one without a priority", requests_of(high), there(None), true),
        ("higher, but not critical", requests_of(Some(200)), there(low), false),
        ("not over an equal priority", requests_of(high), there(high), false),
        (
            "of two critical ones over the lower",
            requests_of(high),
            there(Some(2_000_000_000)),
            true,
        ),
        ("static over another", made_static(requests_of(None)), there(low), true),
        (
            "static without a priority",
            made_static(requests_of(None)),
            made_static(there(None)),
            false,
        ),
        (
            "static over static",
            made_static(requests_of(Some(5))),
            made_static(there(Some(4))),
            true,
        ),
        (
            "not the other way",
            made_static(requests_of(Some(4))),
            made_static(there(Some(5))),
            false,
        ),
    ];
    for (case, new, there, preempts) in rows {
        let is_critical = view::is_critical(&new);
        match meets(&new, &[there]) {
            Ok(victims) => assert!(preempts && victims == ["there"], "{case}: {victims:?}"),
            Err(refusal) if is_critical => {
                let expected = "UnexpectedAdmissionError: Unexpected error while attempting to \
                                recover from admission failure: preemption: error finding a set of \
                                pods to preempt: no set of running pods found to reclaim \
                                resources: [(res: cpu, q: 1000), ]. Not enough cpu:";
                assert!(!preempts && refusal.starts_with(expected), "{case}: {refusal}");
            }
            Err(refusal) => assert!(!preempts && refusal.starts_with("OutOfcpu"), "{case}"),
        }
    }
}

// behaviour: ADM-23
#[test]
fn built_in_priority_classes_are_known_by_name() {
    let of = |class: &str| {
        let of_api = pod("one", &format!("priorityClassName: {class}"));
        assert_eq!(view::priority(&of_api), None, "the API server did not set it");
        assert!(!view::is_critical(&of_api));
        view::priority(&made_static(of_api))
    };
    assert_eq!(of("system-node-critical"), Some(2_000_001_000));
    assert_eq!(of("system-cluster-critical"), Some(2_000_000_000));
    assert_eq!(of("mine"), None);
    let said = pod("one", "priorityClassName: system-node-critical, priority: 7");
    assert_eq!(view::priority(&said), Some(7));
}

// behaviour: ADM-13
#[test]
fn cheapest_victims_are_selected() {
    let guaranteed = |name, cpu| of_class(name, "guaranteed", cpu, None);
    let burstable = |name, cpu| of_class(name, "burstable", cpu, None);
    let best_effort = |name| of_class(name, "best effort", "", None);
    let rows: Vec<(&str, &str, Vec<Pod>, Vec<&str>)> = vec![
        ("enough resources", "cpu: 1", vec![burstable("a", "3")], vec![]),
        (
            "a lower class before a higher",
            "cpu: 2",
            vec![guaranteed("g", "2"), burstable("b", "2")],
            vec!["b"],
        ),
        (
            "a higher class only for the rest",
            "cpu: 3",
            vec![guaranteed("g", "2"), burstable("b", "1"), guaranteed("h", "1")],
            vec!["b", "g"],
        ),
        (
            "the best fit",
            "cpu: 2",
            vec![burstable("small", "500m"), burstable("large", "2"), burstable("fits", "1500m")],
            // 2000 requested, 4000 used: 2000 missing; only the large one provides them alone.
            vec!["large"],
        ),
        (
            "the smallest one that is sufficient",
            "cpu: 1",
            vec![burstable("b", "1500m"), burstable("c", "2500m")],
            vec!["b"],
        ),
        (
            "few rather than many",
            "cpu: 1500m",
            vec![burstable("a", "1"), burstable("b", "1"), burstable("c", "2")],
            vec!["c"],
        ),
        (
            "two if one is not enough",
            "cpu: 3",
            vec![burstable("a", "2"), burstable("b", "2")],
            vec!["b", "a"],
        ),
        (
            "a pod without requests frees a place",
            "",
            (0..10)
                .map(|each| best_effort(["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"][each]))
                .collect(),
            vec!["9"],
        ),
    ];
    for (case, requests, there, expected) in rows {
        let victims = meets(&critical(requests), &there);
        let expected = expected.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(victims, Ok(expected), "{case}");
    }
}

// behaviour: ADM-13
#[test]
fn resources_have_equal_weight() {
    let there = [
        requesting("processors", "cpu: 3, memory: 1Gi"),
        requesting("memory", "cpu: 500m, memory: 6Gi"),
        requesting("both", "cpu: 500m, memory: 1Gi"),
    ];
    // One provides all processors and a quarter of the memory, the other the reverse: the one that requests
    // less memory is preempted first.
    let both = critical("cpu: 2, memory: 4Gi");
    assert_eq!(meets(&both, &there), Ok(vec!["processors".to_owned(), "memory".to_owned()]));
    let plan = admission(&critical("memory: 4Gi"), &occupied(there), &node());
    let victims = vec!["memory".into()];
    assert_eq!(plan, Decision::Preempt(Preemption { victims, resource: "memory".to_owned() }));
}

// behaviour: ADM-14
#[test]
fn no_victims_are_selected_when_they_would_not_suffice() {
    let there = [requesting("a", "cpu: 1"), made_static(requesting("b", "cpu: 2500m"))];
    let refusal = meets(&critical("cpu: 2500m, memory: 9Gi"), &there).unwrap_err();
    let missing = "[(res: cpu, q: 1000), (res: memory, q: 1073741824), ]. Not enough cpu: the pod \
                   requests 2500m, the node has 4, other pods request 3500m. Not enough memory: the pod \
                   requests 9Gi, the node has 8Gi, other pods request 0.";
    assert!(
        refusal.starts_with("UnexpectedAdmissionError: ") && refusal.ends_with(missing),
        "{refusal}"
    );
}

//! Properties of admission for any pods.

use model::ids::PodUid;
use proptest::prelude::*;

use super::*;

fn any_pod() -> impl Strategy<Value = Pod> {
    let cpu = prop_oneof![Just(0_u32), 1_u32..3000];
    let memory = prop_oneof![Just(0_u32), 1_u32..6000];
    let priority = prop_oneof![Just(None), (0..4_i32).prop_map(Some), Just(Some(2_000_000_000))];
    let port = prop_oneof![4 => Just(0), 1 => 80..83];
    (cpu, memory, priority, any::<bool>(), any::<bool>(), port).prop_map(
        |(cpu, memory, priority, limited, fixed, port)| {
            let requests = format!("requests: {{cpu: {cpu}m, memory: {memory}Mi}}");
            let limits = format!("limits: {{cpu: {cpu}m, memory: {memory}Mi}}, {requests}");
            let resources = if limited { limits } else { requests };
            let port = format!("ports: [{{containerPort: 1, hostPort: {port}}}]");
            let container = format!("{{name: main, {port}, resources: {{{resources}}}}}");
            let mut pod = with_containers("pod", &format!("containers: [{container}]"));
            pod.spec.as_mut().unwrap().priority = priority;
            if fixed { made_static(pod) } else { pod }
        },
    )
}

fn any_pods() -> impl Strategy<Value = Vec<Pod>> {
    proptest::collection::vec(any_pod(), 1..30).prop_map(|mut pods| {
        for (index, pod) in pods.iter_mut().enumerate() {
            pod.metadata.uid = Some(format!("pod-{index}"));
        }
        pods
    })
}

fn is_within(there: &Occupancy, node: &Node) -> bool {
    let of = |name: &str, milli: bool| {
        let amount = &node.allocatable[name];
        if milli { amount.milli_value() } else { amount.value() }
    };
    let used = |name: &str| there.requests().get(name).copied().unwrap_or(0);
    used("cpu") <= of("cpu", true)
        && used("memory") <= of("memory", false)
        && there.count() <= of("pods", false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // behaviour: ADM-15
    #[test]
    fn admitted_pods_never_exceed_the_node(pods in any_pods()) {
        let node = node();
        let mut there = Occupancy::default();
        for pod in pods {
            let decision = admission(&pod, &there, &node);
            prop_assert_eq!(&decision, &admission(&pod, &there, &node), "equal inputs");
            let pod = Arc::new(pod);
            match decision {
                Decision::Admit => there.add(pod),
                Decision::Reject(_) => {}
                Decision::Preempt(plan) => {
                    there = there.without(&plan.victims);
                    there.add(pod);
                }
            }
            prop_assert!(is_within(&there, &node));
        }
    }

    // behaviour: ADM-12, ADM-15
    #[test]
    fn preemption_is_sufficient_and_only_of_less_important_pods(pods in any_pods()) {
        let node = node();
        let (new, others) = pods.split_first().unwrap();
        let mut there = Occupancy::default();
        for pod in others {
            if admission(pod, &there, &node) == Decision::Admit {
                there.add(Arc::new(pod.clone()));
            }
        }
        let Decision::Preempt(plan) = admission(new, &there, &node) else { return Ok(()) };
        prop_assert!(view::is_critical(new));
        prop_assert!(!plan.victims.is_empty());
        let fits = |gone: &[PodUid]| admission(new, &there.without(gone), &node) == Decision::Admit;
        prop_assert!(fits(&plan.victims), "{plan:?} is not enough");
        for pod in others.iter().filter(|pod| plan.victims.contains(&view::uid(pod))) {
            let higher = view::priority(new).zip(view::priority(pod)).is_some_and(|(a, b)| a > b);
            prop_assert!(higher || !view::is_critical(pod), "{:?}", pod.metadata.uid);
        }
        // Every preempted pod of a class was needed.
        let guaranteed = |uid: &PodUid| {
            let pod = others.iter().find(|pod| view::uid(pod) == *uid).unwrap();
            podspec::qos_class(pod) == podspec::QosClass::Guaranteed
        };
        let lower: Vec<PodUid> =
            plan.victims.iter().filter(|uid| !guaranteed(uid)).cloned().collect();
        prop_assert!(lower.len() == plan.victims.len() || !fits(&lower));
    }
}

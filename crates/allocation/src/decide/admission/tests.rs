use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Taint};
use model::ports::runtime::RuntimeFeatures;
use podspec::quantity::Quantity;
use podspec::resources::Amounts;
use podspec::{annotations, decode};

use super::*;

mod laws;
mod preempting;

/// A pod of the API with one container and the fields of `more`.
pub(super) fn pod(name: &str, more: &str) -> Pod {
    with_containers(name, &format!("containers: [{{name: main}}], {more}"))
}

/// A pod of the API with these requests.
pub(super) fn requesting(name: &str, requests: &str) -> Pod {
    let resources = format!("resources: {{requests: {{{requests}}}}}");
    with_containers(name, &format!("containers: [{{name: main, {resources}}}]"))
}

pub(super) fn with_containers(name: &str, spec: &str) -> Pod {
    let manifest = format!("# YAML\n{{apiVersion: v1, kind: Pod, spec: {{{spec}}}}}");
    let mut pod = decode(manifest.as_bytes()).expect(spec).pods.remove(0);
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(name.to_owned());
    pod
}

pub(super) fn made_static(mut pod: Pod) -> Pod {
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(annotations::CONFIG_SOURCE.to_owned(), "file".to_owned());
    pod
}

fn amounts(list: &[(&str, &str)]) -> Amounts {
    let each = list
        .iter()
        .map(|(name, text)| ((*name).to_owned(), Quantity::parse(text).expect("an amount")));
    each.collect()
}

/// Four processors, 8 GiB, ten pods.
pub(super) fn node() -> Node {
    let labels = [("kubernetes.io/os", "linux"), ("zone", "north"), ("cores", "4")];
    Node {
        name: "node-1".to_owned(),
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        allocatable: amounts(&[
            ("cpu", "4"),
            ("memory", "8Gi"),
            ("ephemeral-storage", "100Gi"),
            ("hugepages-2Mi", "64Mi"),
            ("example.com/gpu", "2"),
            ("pods", "10"),
        ]),
        runtime: RuntimeFeatures {
            supplemental_groups_policy: false,
            user_namespaces_host_network: true,
        },
        abilities: Ability::ALL.into(),
        ..Node::default()
    }
}

fn occupied(pods: impl IntoIterator<Item = Pod>) -> Occupancy {
    pods.into_iter().map(Arc::new).collect()
}

/// The reason and message of a rejected pod; empty for an admitted one.
fn refused(pod: &Pod, there: &Occupancy, node: &Node) -> (String, String) {
    match admission(pod, there, node) {
        Decision::Admit => (String::new(), String::new()),
        Decision::Reject(Rejection { reason, message }) => (reason.into_owned(), message),
        Decision::Preempt(plan) => panic!("{plan:?}"),
    }
}

// behaviour: ADM-26
#[test]
fn admission_retries_only_when_node_labels_are_the_sole_obstacle() {
    let south = "nodeSelector: {zone: south}";
    let there = occupied([pod("there", "")]);
    let full = Node { allocatable: amounts(&[("pods", "1")]), ..node() };
    let rows = [
        (pod("new", ""), node(), false),
        (pod("new", south), node(), true),
        (pod("new", south), full, false),
        (pod("new", &format!("{south}, nodeName: other")), node(), false),
        (pod("new", &format!("{south}, os: {{name: windows}}")), node(), false),
        (pod("new", "nodeName: other"), node(), false),
    ];
    for (row, (pod, node, expected)) in rows.into_iter().enumerate() {
        assert_eq!(only_labels_mismatch(&pod, &there, &node), expected, "row {row}");
    }
}

// behaviour: ADM-1, ADM-3
#[test]
fn pod_is_rejected_when_requests_exceed_free_resources() {
    let there = occupied([requesting(
        "there",
        "cpu: 1500m, memory: 2Gi, ephemeral-storage: 60Gi, hugepages-2Mi: 32Mi, \
         example.com/gpu: 1, example.com/license: 3",
    )]);
    let rows = [
        ("", ""),
        ("cpu: 2500m, memory: 6Gi, ephemeral-storage: 40Gi", ""),
        ("cpu: 2501m", "cpu, requested: 2501, used: 1500, capacity: 4000"),
        (
            "memory: 6442450945",
            "memory, requested: 6442450945, used: 2147483648, capacity: 8589934592",
        ),
        (
            "ephemeral-storage: 41Gi",
            "ephemeral-storage, requested: 44023414784, used: 64424509440, capacity: 107374182400",
        ),
        (
            "hugepages-2Mi: 34Mi",
            "hugepages-2Mi, requested: 35651584, used: 33554432, capacity: 67108864",
        ),
        ("hugepages-1Gi: 1Gi", "hugepages-1Gi, requested: 1073741824, used: 0, capacity: 0"),
        ("example.com/gpu: 2", "example.com/gpu, requested: 2, used: 1, capacity: 2"),
        ("example.com/gpu: 1", ""),
        // Of the cluster, not of the node.
        ("example.com/license: 9", ""),
        // The first insufficient resource is named.
        ("memory: 9Gi, cpu: 9", "cpu, requested: 9000, used: 1500, capacity: 4000"),
    ];
    for (requests, expected) in rows {
        let (reason, message) = refused(&requesting("new", requests), &there, &node());
        if expected.is_empty() {
            assert_eq!((reason.as_str(), message.as_str()), ("", ""), "{requests}");
            continue;
        }
        let resource = expected.split(',').next().unwrap();
        assert_eq!(reason, format!("OutOf{resource}"), "{requests}");
        assert_eq!(message, format!("Node didn't have enough resource: {expected}"), "{requests}");
    }
}

// behaviour: ADM-1
#[test]
fn pod_count_is_limited_by_the_node() {
    let pods = |count: usize| occupied((0..count).map(|each| pod(&format!("pod-{each}"), "")));
    assert_eq!(admission(&pod("new", ""), &pods(9), &node()), Decision::Admit);
    let (reason, message) = refused(&requesting("new", "cpu: 9"), &pods(10), &node());
    assert_eq!(reason, "OutOfpods");
    let expected = "Node didn't have enough resource: pods, requested: 1, used: 10, capacity: 10";
    assert_eq!(message, expected);
}

// behaviour: ADM-2
#[test]
fn requests_include_init_containers_sidecars_overhead_and_pod_level() {
    let main = "containers: [{name: a, resources: {requests: {cpu: 1}}}]";
    let rows = [
        (main.to_owned(), 1000),
        (format!("{main}, overhead: {{cpu: 250m}}"), 1250),
        (
            format!("{main}, initContainers: [{{name: i, resources: {{requests: {{cpu: 3}}}}}}]"),
            3000,
        ),
        (
            format!(
                "{main}, initContainers: [{{name: s, restartPolicy: Always, resources: \
                 {{requests: {{cpu: 500m}}}}}}]"
            ),
            1500,
        ),
        (format!("{main}, resources: {{requests: {{cpu: 2}}}}, overhead: {{cpu: 1}}"), 3000),
    ];
    for (spec, milli) in rows {
        let there = occupied([with_containers("there", &spec)]);
        let free = 4000 - milli;
        let fits = requesting("new", &format!("cpu: {free}m"));
        assert_eq!(admission(&fits, &there, &node()), Decision::Admit, "{spec}");
        let (reason, message) =
            refused(&requesting("new", &format!("cpu: {}m", free + 1)), &there, &node());
        assert_eq!(reason, "OutOfcpu", "{spec}");
        assert!(message.contains(&format!("used: {milli},")), "{message}");
    }
}

// behaviour: ADM-4
#[test]
fn node_selector_and_affinity_are_required() {
    let required = |terms: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{terms}]}}}}}}"
        )
    };
    let label = |expression: &str| required(&format!("{{matchExpressions: [{{{expression}}}]}}"));
    let field = |expression: &str| required(&format!("{{matchFields: [{{{expression}}}]}}"));
    let rows = [
        ("nodeSelector: {zone: north}".to_owned(), true),
        ("nodeSelector: {zone: south}".to_owned(), false),
        ("nodeSelector: {zone: north, disk: fast}".to_owned(), false),
        (required(""), false),
        (required("{}"), false),
        (required("{}, {matchExpressions: [{key: zone, operator: Exists}]}"), true),
        (label("key: zone, operator: In, values: [south, north]"), true),
        (label("key: zone, operator: In, values: [south]"), false),
        (label("key: zone, operator: In, values: []"), false),
        (label("key: zone, operator: NotIn, values: [south]"), true),
        (label("key: zone, operator: NotIn, values: [north]"), false),
        (label("key: disk, operator: NotIn, values: [fast]"), true),
        (label("key: disk, operator: Exists"), false),
        (label("key: disk, operator: DoesNotExist"), true),
        (label("key: zone, operator: DoesNotExist"), false),
        (label("key: zone, operator: Exists, values: [north]"), false),
        (label("key: cores, operator: Gt, values: ['3']"), true),
        (label("key: cores, operator: Gt, values: ['4']"), false),
        (label("key: cores, operator: Lt, values: ['5']"), true),
        (label("key: zone, operator: Lt, values: ['5']"), false),
        (label("key: cores, operator: Lt, values: [many]"), false),
        (label("key: zone, operator: Near, values: [north]"), false),
        (label("key: 'a b', operator: DoesNotExist"), false),
        (field("key: metadata.name, operator: In, values: [node-1]"), true),
        (field("key: metadata.name, operator: In, values: [node-2]"), false),
        (field("key: metadata.name, operator: NotIn, values: [node-2]"), true),
        (field("key: metadata.name, operator: Exists"), false),
        (
            required(
                "{matchExpressions: [{key: zone, operator: Exists}], \
                 matchFields: [{key: metadata.name, operator: In, values: [node-2]}]}",
            ),
            false,
        ),
    ];
    for (spec, fits) in rows {
        let (reason, message) = refused(&pod("new", &spec), &Occupancy::default(), &node());
        if fits {
            assert_eq!(reason, "", "{spec}");
        } else {
            assert_eq!(reason, "NodeAffinity", "{spec}");
            let why = "node(s) didn't match Pod's node affinity/selector";
            assert_eq!(message, format!("Predicate NodeAffinity failed: {why}"));
        }
    }
}

// behaviour: ADM-5
#[test]
fn pod_for_another_node_is_rejected() {
    let (reason, message) =
        refused(&pod("new", "nodeName: node-2"), &Occupancy::default(), &node());
    assert_eq!(reason, "NodeName");
    let expected = "Predicate NodeName failed: node(s) didn't match the requested node name";
    assert_eq!(message, expected);
    let ours = pod("new", "nodeName: node-1");
    assert_eq!(admission(&ours, &Occupancy::default(), &node()), Decision::Admit);
}

// behaviour: ADM-6
#[test]
fn host_port_is_used_once() {
    let with = |ports: &str| {
        with_containers("one", &format!("containers: [{{name: main, ports: [{ports}]}}]"))
    };
    let init = |policy: &str| {
        with_containers(
            "one",
            &format!(
                "containers: [{{name: main}}], initContainers: [{{name: i, {policy} \
                 ports: [{{containerPort: 1, hostPort: 80}}]}}]"
            ),
        )
    };
    let web = || with("{containerPort: 1, hostPort: 80}");
    let rows = vec![
        (web(), web(), false),
        (web(), with("{containerPort: 1, hostPort: 81}"), true),
        (web(), with("{containerPort: 80}"), true),
        (web(), with("{containerPort: 1, hostPort: 80, protocol: UDP}"), true),
        (web(), with("{containerPort: 1, hostPort: 80, hostIP: 10.0.0.1}"), false),
        (with("{containerPort: 1, hostPort: 80, hostIP: 10.0.0.1}"), web(), false),
        (
            with("{containerPort: 1, hostPort: 80, hostIP: 10.0.0.1}"),
            with("{containerPort: 1, hostPort: 80, hostIP: 10.0.0.2}"),
            true,
        ),
        (
            with("{containerPort: 1, hostPort: 80, hostIP: 10.0.0.1}"),
            with("{containerPort: 1, hostPort: 80, hostIP: 10.0.0.1}"),
            false,
        ),
        (init("restartPolicy: Always,"), web(), false),
        // Its ports are free before later containers start.
        (init(""), web(), true),
    ];
    for (there, new, fits) in rows {
        let found = refused(&new, &occupied([there.clone()]), &node());
        let why = "node(s) didn't have free ports for the requested pod ports";
        let expected = format!("Predicate NodePorts failed: {why}");
        let expected = if fits { Default::default() } else { ("NodePorts".to_owned(), expected) };
        assert_eq!(found, expected, "{:?} {:?}", there.spec, new.spec);
    }
}

// behaviour: ADM-7
#[test]
fn no_execute_taint_rejects_pods_unless_static() {
    let taint = |value: &str, effect: &str| Taint {
        key: "maintenance".to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        ..Taint::default()
    };
    let tolerating = |toleration: &str| format!("tolerations: [{{{toleration}}}]");
    let rows = [
        ("5", "NoExecute", String::new(), false),
        ("5", "NoSchedule", String::new(), true),
        ("5", "PreferNoSchedule", String::new(), true),
        ("5", "NoExecute", tolerating("operator: Exists"), true),
        ("5", "NoExecute", tolerating("key: maintenance, operator: Exists"), true),
        ("5", "NoExecute", tolerating("key: other, operator: Exists"), false),
        ("5", "NoExecute", tolerating("key: maintenance, value: '5'"), true),
        ("5", "NoExecute", tolerating("key: maintenance, operator: Equal, value: '6'"), false),
        ("5", "NoExecute", tolerating("operator: Exists, effect: NoSchedule"), false),
        ("5", "NoExecute", tolerating("key: maintenance, operator: Lt, value: '6'"), true),
        ("5", "NoExecute", tolerating("key: maintenance, operator: Lt, value: '5'"), false),
        ("5", "NoExecute", tolerating("key: maintenance, operator: Gt, value: '4'"), true),
        ("5", "NoExecute", tolerating("key: maintenance, operator: Gt, value: '04'"), false),
    ];
    for (value, effect, spec, fits) in rows {
        let node = Node { taints: vec![taint(value, effect)], ..node() };
        let new = pod("new", &spec);
        let (reason, message) = refused(&new, &Occupancy::default(), &node);
        assert_eq!(reason, if fits { "" } else { "TaintToleration" }, "{effect} {spec}");
        let why = "node(s) had taints that the pod didn't tolerate";
        assert!(fits || message == format!("Predicate TaintToleration failed: {why}"));
        let fixed = admission(&made_static(new), &Occupancy::default(), &node);
        assert_eq!(fixed, Decision::Admit, "{effect} {spec}");
    }
    let mut plain = Node { taints: vec![taint("5", "NoExecute")], ..node() };
    plain.abilities.remove(&Ability::TaintTolerationComparisonOperators);
    let new = pod("new", &tolerating("key: maintenance, operator: Lt, value: '6'"));
    assert_eq!(refused(&new, &Occupancy::default(), &plain).0, "TaintToleration");
}

// behaviour: ADM-8
#[test]
fn pod_for_another_operating_system_is_rejected() {
    let mut labelled = pod("new", "");
    labelled.metadata.labels = Some([(OS_LABEL.to_owned(), "windows".to_owned())].into());
    let rows = [
        (
            labelled,
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ),
        (
            pod("new", "os: {name: windows}"),
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        (pod("new", "os: {name: linux}"), "", ""),
        (
            pod("new", "securityContext: {supplementalGroupsPolicy: Strict}"),
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        ),
        (pod("new", "securityContext: {supplementalGroupsPolicy: Merge}"), "", ""),
    ];
    for (pod, reason, message) in rows {
        let found = refused(&pod, &Occupancy::default(), &node());
        assert_eq!((found.0.as_str(), found.1.as_str()), (reason, message));
    }
    let strict = pod("new", "securityContext: {supplementalGroupsPolicy: Strict}");
    let mut node = node();
    node.runtime.supplemental_groups_policy = true;
    assert_eq!(admission(&strict, &Occupancy::default(), &node), Decision::Admit);
}

// behaviour: ADM-9
#[test]
fn first_failure_is_reported_and_for_critical_pods_the_first_not_preemptable() {
    let new = with_containers(
        "new",
        "nodeName: node-2, nodeSelector: {zone: south}, \
         containers: [{name: main, resources: {requests: {cpu: 9}}}]",
    );
    assert_eq!(refused(&new, &Occupancy::default(), &node()).0, "OutOfcpu");
    let fixed = made_static(new);
    assert_eq!(refused(&fixed, &Occupancy::default(), &node()).0, "NodeAffinity");
}

/// All reasons for a rejection by the node, in order; then none.
const ORDER: [&str; 13] = [
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PodOSNotSupported",
    "SupplementalGroupsPolicyNotSupported",
    "OutOfpods",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfephemeral-storage",
    "OutOfexample.com/gpu",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "TaintToleration",
    "",
];

// behaviour: ADM-1, ADM-8, ADM-9
#[test]
fn failures_are_reported_in_order_of_the_checks() {
    let port = "ports: [{containerPort: 1, hostPort: 80}]";
    let taint =
        Taint { key: "full".to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
    for (first, expected) in ORDER.into_iter().enumerate() {
        // The pod fails the check of this reason, and all later ones.
        let is_wrong = |reason: &str| ORDER[first..].contains(&reason);
        let wrong = |all: &[(&str, &str)]| {
            let wrong = all.iter().filter(|(reason, _)| reason.is_empty() || is_wrong(reason));
            wrong.map(|(_, text)| *text).collect::<Vec<_>>().join(", ")
        };
        let requests = wrong(&[
            ("OutOfcpu", "cpu: 9"),
            ("OutOfmemory", "memory: 9Gi"),
            ("OutOfephemeral-storage", "ephemeral-storage: 101Gi"),
            ("OutOfexample.com/gpu", "example.com/gpu: 3"),
        ]);
        let container = format!(
            "containers: [{{name: main, {port}, resources: {{requests: {{{requests}}}}}}}]"
        );
        let spec = wrong(&[
            ("", &container),
            ("PodOSNotSupported", "os: {name: windows}"),
            (
                "SupplementalGroupsPolicyNotSupported",
                "securityContext: {supplementalGroupsPolicy: Strict}",
            ),
            ("NodeAffinity", "nodeSelector: {zone: south}"),
            ("NodeName", "nodeName: node-2"),
        ]);
        let mut new = with_containers("new", &spec);
        if is_wrong("PodOSSelectorNodeLabelDoesNotMatch") {
            new.metadata.labels = Some([(OS_LABEL.to_owned(), "windows".to_owned())].into());
        }
        let taken = if is_wrong("NodePorts") { port } else { "image: i" };
        let there = with_containers("there", &format!("containers: [{{name: main, {taken}}}]"));
        let mut node = node();
        if is_wrong("OutOfpods") {
            node.allocatable.extend(amounts(&[("pods", "1")]));
        }
        node.taints.extend(is_wrong("TaintToleration").then(|| taint.clone()));
        let (reason, _) = refused(&new, &occupied([there]), &node);
        assert_eq!(reason, expected, "{spec}");
    }
}

// behaviour: ADM-10
#[test]
fn pod_is_rejected_for_missing_node_features() {
    let restarting = "restartPolicy: Never, containers: [{name: main, restartPolicy: Never, \
                      restartPolicyRules: [{action: RestartAllContainers}]}]";
    let rows = [
        (
            pod("new", "resources: {limits: {cpu: 1}}"),
            Ability::PodLevelResources,
            "PodLevelResourcesNotSupported",
            "PodLevelResources feature gate is disabled",
        ),
        (
            with_containers("new", restarting),
            Ability::RestartAllContainersOnContainerExits,
            "PodFeatureUnsupported",
            "Pod requires node features that are not available: \
             RestartAllContainersOnContainerExits",
        ),
        (
            pod("new", "hostNetwork: true, hostUsers: false"),
            Ability::UserNamespacesHostNetworkSupport,
            "PodFeatureUnsupported",
            "Pod requires node features that are not available: UserNamespacesHostNetworkSupport",
        ),
    ];
    for (pod, ability, reason, message) in rows {
        let mut node = node();
        assert_eq!(features(&pod, &node), None, "{reason}");
        node.abilities.remove(&ability);
        assert_eq!(features(&pod, &node), Some(Rejection::new(reason, message)));
        if reason == "PodFeatureUnsupported" {
            node.abilities.remove(&Ability::NodeDeclaredFeatures);
            assert_eq!(features(&pod, &node), None, "the gate is off");
        }
    }
    let mut plain = node();
    plain.runtime.user_namespaces_host_network = false;
    let own_users = pod("new", "hostNetwork: true, hostUsers: false");
    let refusal = features(&own_users, &plain).expect("the runtime does not support it");
    assert_eq!(refusal.reason, "PodFeatureUnsupported");
    let node = Node { shutting_down: true, ..node() };
    let message = "Pod was rejected as the node is shutting down.";
    assert_eq!(features(&pod("new", ""), &node), Some(Rejection::new("NodeShutdown", message)));
}

use k8s_openapi::api::core::v1::{Container, PodCondition, PodReadinessGate, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use testkit::pods::pod;

use super::*;

const NOTHING: SourceUpdate = SourceUpdate { changed: false, wanted: false, unread: false };
const CHANGED: SourceUpdate = SourceUpdate { changed: true, wanted: false, unread: false };
const WANTED: SourceUpdate = SourceUpdate { changed: true, wanted: true, unread: false };

fn at(name: &str, version: u32) -> Arc<Pod> {
    Arc::new(
        pod(name).with(|pod| pod.metadata.resource_version = Some(version.to_string())).build(),
    )
}

fn mirror(name: &str, of: &str, version: u32) -> Arc<Pod> {
    let mut mirror = Arc::unwrap_or_clone(at(name, version));
    let marks = mirror.metadata.annotations.get_or_insert_default();
    marks.insert(annotations::CONFIG_MIRROR.to_owned(), of.to_owned());
    marks.insert(annotations::CONFIG_SOURCE.to_owned(), "file".to_owned());
    mirror.spec.get_or_insert_default().node_name = Some("node".to_owned());
    let (api_version, kind, name) = ("v1".to_owned(), "Node".to_owned(), "node".to_owned());
    let owner = OwnerReference { api_version, kind, name, ..OwnerReference::default() };
    mirror.metadata.owner_references = Some(vec![owner]);
    Arc::new(mirror)
}

fn listed(pods: &[Arc<Pod>]) -> ApiPods {
    let mut all = ApiPods::default();
    list(&mut all, pods);
    all
}

fn list(all: &mut ApiPods, pods: &[Arc<Pod>]) -> SourceUpdate {
    assert_eq!(all.receive(Change::Restarted), NOTHING);
    for pod in pods {
        assert_eq!(all.receive(Change::Applied(Arc::clone(pod))), NOTHING);
    }
    all.receive(Change::Complete)
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

/// Conditions by type, status and reason, and what their update changes.
type GateRow = (&'static [(&'static str, &'static str, &'static str)], SourceUpdate);

// behaviour: STW-48
#[test]
fn status_update_changes_the_pod_when_a_readiness_gate_changes() {
    let with = |version: u32, conditions: &[(&str, &str, &str)]| {
        let mut pod = Arc::unwrap_or_clone(at("a", version));
        let gate = PodReadinessGate { condition_type: "example.com/up".to_owned() };
        pod.spec.get_or_insert_default().readiness_gates = Some(vec![gate]);
        let conditions = conditions.iter().map(|(type_, status, reason)| PodCondition {
            type_: (*type_).to_owned(),
            status: (*status).to_owned(),
            reason: Some((*reason).to_owned()),
            ..PodCondition::default()
        });
        pod.status =
            Some(PodStatus { conditions: Some(conditions.collect()), ..PodStatus::default() });
        Arc::new(pod)
    };
    let mut all = listed(&[with(1, &[])]);
    let rows: [GateRow; 6] = [
        (&[("Other", "True", "")], CHANGED),
        (&[("example.com/up", "False", "a")], WANTED),
        (&[("example.com/up", "False", "b"), ("Ready", "False", "")], CHANGED),
        (&[("example.com/up", "True", "b")], WANTED),
        (&[("example.com/up", "True", "b"), ("Ready", "True", "")], CHANGED),
        (&[], WANTED),
    ];
    for (version, (conditions, expected)) in (2..).zip(rows) {
        let pod = with(version, conditions);
        assert_eq!(all.receive(Change::Applied(Arc::clone(&pod))), expected, "{conditions:?}");
        if expected == WANTED {
            assert_eq!(all.wanted()[0].status, pod.status, "the worker gets the condition");
        }
    }
}

// behaviour: API-1
#[test]
fn nothing_is_known_before_the_first_list_is_complete() {
    let mut all = ApiPods::default();
    all.receive(Change::Restarted);
    all.receive(Change::Applied(at("a", 1)));
    assert!(!all.is_complete() && all.wanted().is_empty());
    assert_eq!(all.receive(Change::Complete), WANTED);
    assert!(all.is_complete());
    assert_eq!(names(&all.wanted()), ["a"]);
    let mut empty = ApiPods::default();
    assert_eq!(list(&mut empty, &[]), WANTED, "an empty list is a change too");
    assert_eq!(list(&mut empty, &[]), NOTHING);
}

// behaviour: ACT-49
#[test]
fn container_restart_rules_are_dropped_when_disabled() {
    let rules = |version| {
        let mut ruled = Arc::unwrap_or_clone(at("a", version));
        let main = Container { restart_policy: Some("Never".to_owned()), ..Container::default() };
        ruled.spec.get_or_insert_default().containers = vec![main];
        Arc::new(ruled)
    };
    let policy = |all: &ApiPods| {
        let wanted = all.wanted();
        wanted[0].spec.as_ref().unwrap().containers[0].restart_policy.clone()
    };
    assert_eq!(policy(&listed(&[rules(1)])).as_deref(), Some("Never"));
    let mut all = ApiPods::default();
    all.drop_restart_rules();
    list(&mut all, &[rules(1)]);
    assert_eq!(policy(&all), None);
    assert_eq!(all.receive(Change::Applied(rules(2))), CHANGED, "the specification is the same");
    let copy = all.copy(&view::uid(&rules(2)), None).unwrap();
    assert!(copy.spec == rules(2).spec, "the copy is unchanged");
}

// behaviour: API-2
#[test]
fn relist_replaces_known_pods_once_complete() {
    let mut all = listed(&[at("a", 1), at("b", 2)]);
    all.receive(Change::Restarted);
    all.receive(Change::Applied(at("b", 2)));
    all.receive(Change::Applied(at("c", 3)));
    assert_eq!(names(&all.wanted()), ["a", "b"], "as before, until the list is complete");
    assert_eq!(all.receive(Change::Complete), WANTED);
    assert_eq!(names(&all.wanted()), ["b", "c"]);
    all.receive(Change::Restarted);
    all.receive(Change::Applied(at("z", 4)));
    // The connection broke within the list.
    assert_eq!(list(&mut all, &[at("b", 2), at("c", 3)]), NOTHING);
    assert_eq!(names(&all.wanted()), ["b", "c"]);
}

// behaviour: STW-36
#[test]
fn change_with_a_reused_resource_version_is_found() {
    let with = |phase: &str| {
        let mut pod = Arc::unwrap_or_clone(at("a", 7));
        pod.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
        Arc::new(pod)
    };
    let mut all = listed(&[with("Running")]);
    assert_eq!(list(&mut all, &[with("Running")]), NOTHING);
    assert_eq!(list(&mut all, &[with("Pending")]), CHANGED, "the current version of the store");
    assert!(all.copy(&view::uid(&with("Pending")), None) == Some(with("Pending")));
}

// behaviour: API-3
#[test]
fn new_status_changes_the_pod_only_when_terminal() {
    let mut all = listed(&[at("a", 1)]);
    let before = all.wanted().remove(0);
    let with_phase = |phase: &str, version| {
        let mut pod = Arc::unwrap_or_clone(at("a", version));
        pod.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
        Arc::new(pod)
    };
    assert_eq!(all.receive(Change::Applied(with_phase("Running", 2))), CHANGED);
    assert!(Arc::ptr_eq(&before, &all.wanted()[0]));
    let copy = all.copy(&"uid-of-a".into(), None).unwrap();
    assert_eq!(copy.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(all.receive(Change::Applied(with_phase("Running", 2))), NOTHING, "the same again");
    assert_eq!(all.receive(Change::Applied(with_phase("Failed", 3))), WANTED);
    let mut evicted = Arc::unwrap_or_clone(with_phase("Failed", 4));
    evicted.status.get_or_insert_default().reason = Some("Evicted".to_owned());
    assert_eq!(all.receive(Change::Applied(Arc::new(evicted))), WANTED);
    let mut going = Arc::unwrap_or_clone(with_phase("Failed", 5));
    going.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert_eq!(all.receive(Change::Applied(Arc::new(going))), WANTED);
    assert_eq!(all.receive(Change::Gone("uid-of-a".into())), WANTED);
    assert_eq!(all.receive(Change::Gone("uid-of-a".into())), NOTHING);
}

// behaviour: API-4
#[test]
fn mirror_pod_is_not_run_and_shows_its_static_pod() {
    let mut all = listed(&[at("a", 1), mirror("m", "static-uid", 2)]);
    assert_eq!(names(&all.wanted()), ["a"]);
    assert_eq!(names(&all.mirrors()), ["m"]);
    let name = PodName::new("default", "m");
    let copy = |fixed: Option<&PodName>| all.copy(&"static-uid".into(), fixed);
    assert_eq!(view::uid(&copy(Some(&name)).unwrap()), "uid-of-m".into());
    assert_eq!(copy(None), None, "no such static pod");
    assert_eq!(all.copy(&"uid-of-m".into(), None), None);
    let before = all.number();
    assert_eq!(all.receive(Change::Applied(mirror("m", "static-uid", 3))), CHANGED);
    assert_eq!(all.changed_since(before), ["static-uid".into()]);
    assert_eq!(all.receive(Change::Gone("uid-of-m".into())), CHANGED);
}

// behaviour: API-14
#[test]
fn undecodable_update_keeps_the_known_pod() {
    let mut all = listed(&[at("a", 1), at("b", 2)]);
    assert_eq!(all.receive(Change::Unread("uid-of-a".into())), NOTHING);
    all.receive(Change::Restarted);
    all.receive(Change::Unread("uid-of-a".into()));
    all.receive(Change::Unread("uid-of-c".into()));
    assert_eq!(all.receive(Change::Complete), SourceUpdate { unread: true, ..WANTED });
    assert_eq!(names(&all.wanted()), ["a"]);
    let newer = at("a", 5);
    all.receive(Change::Restarted);
    all.receive(Change::Applied(Arc::clone(&newer)));
    all.receive(Change::Unread("uid-of-a".into()));
    all.receive(Change::Complete);
    assert_eq!(
        all.copy(&"uid-of-a".into(), None),
        Some(newer),
        "the last version that was decoded"
    );
}

// behaviour: API-38
#[test]
fn undecodable_new_pod_is_listed_as_unread() {
    let mut all = ApiPods::default();
    let unread = |all: &ApiPods| all.unread().iter().map(ToString::to_string).collect::<Vec<_>>();
    let others = |update| SourceUpdate { unread: true, ..update };
    all.receive(Change::Restarted);
    for name in ["a", "b", "c"] {
        all.receive(Change::Unread(format!("uid-of-{name}").into()));
    }
    all.receive(Change::Gone("uid-of-b".into()));
    all.receive(Change::Applied(at("c", 3)));
    assert_eq!(unread(&all), [""; 0], "not before the list is complete");
    assert_eq!(all.receive(Change::Complete), others(WANTED));
    assert_eq!((names(&all.wanted()), unread(&all)), (vec!["c"], vec!["uid-of-a".to_owned()]));
    // It is added, becomes readable, and is removed.
    assert_eq!(all.receive(Change::Unread("uid-of-d".into())), others(NOTHING));
    assert_eq!(all.receive(Change::Unread("uid-of-d".into())), NOTHING, "already known");
    assert_eq!(all.receive(Change::Applied(at("d", 4))), others(WANTED));
    assert_eq!(all.receive(Change::Unread("uid-of-d".into())), NOTHING, "unchanged");
    assert_eq!(all.receive(Change::Gone("uid-of-a".into())), others(NOTHING));
    assert_eq!(unread(&all), [""; 0]);
    // All are listed again.
    all.receive(Change::Unread("uid-of-e".into()));
    all.receive(Change::Restarted);
    all.receive(Change::Complete);
    assert_eq!(unread(&all), [""; 0]);
}

// behaviour: API-5
#[test]
fn api_pod_cannot_pose_as_a_manifest_pod() {
    let mut posing = Arc::unwrap_or_clone(at("a", 1));
    let marks = posing.metadata.annotations.get_or_insert_default();
    marks.insert(annotations::CONFIG_SOURCE.to_owned(), "file".to_owned());
    assert!(view::is_static(&posing));
    let all = listed(&[Arc::new(posing)]);
    assert!(!view::is_static(&all.wanted()[0]));
}

// behaviour: API-4
#[test]
fn mirror_annotation_without_node_owner_is_not_a_mirror_pod() {
    let unowned = |mut pod: Pod| {
        pod.metadata.owner_references = None;
        Arc::new(pod)
    };
    let forged = unowned(Arc::unwrap_or_clone(mirror("forged", "static-uid", 2)));
    // The right uid and owner, but the name of no static pod.
    let other = mirror("other", "static-uid", 3);
    let mut all = listed(&[forged, other, mirror("web", "static-uid", 4)]);
    assert_eq!(names(&all.wanted()), ["forged"], "a pod like any other");
    assert_eq!(names(&all.mirrors()), ["other", "web"]);
    let name = PodName::new("default", "web");
    let copy = all.copy(&"static-uid".into(), Some(&name)).unwrap();
    assert_eq!(view::pod_name(&copy), name, "the status of the static pod is for its mirror alone");
    let before = all.number();
    let changed = unowned(Arc::unwrap_or_clone(mirror("forged", "static-uid", 9)));
    assert_eq!(all.receive(Change::Applied(changed)), CHANGED);
    assert_eq!(all.changed_since(before), ["uid-of-forged".into()]);
}

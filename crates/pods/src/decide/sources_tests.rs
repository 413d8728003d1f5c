use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const BOTH: [SourceName; 2] = [SourceName::File, SourceName::Http];

fn pod(uid: &str, name: &str, hostname: &str) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.spec.get_or_insert_default().hostname = Some(hostname.to_owned());
    Arc::new(pod)
}

fn list(pods: &[Arc<Pod>]) -> Arc<Vec<Arc<Pod>>> {
    Arc::new(pods.to_vec())
}

fn uids(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| view::uid(pod).to_string()).collect()
}

fn all(merged: &Merged) -> Vec<String> {
    merged.pods().map(|(uid, _)| uid.to_string()).collect()
}

// behaviour: SRC-1, SRC-40
#[test]
fn pods_of_a_source_are_removed_added_and_updated() {
    let mut merged = Merged::new(BOTH);
    let first = list(&[pod("a", "a", ""), pod("b", "b", ""), pod("c", "c", "")]);
    let change = merged.set_latest(SourceName::File, first).unwrap();
    assert_eq!(uids(&change.changes.added), ["a", "b", "c"]);
    let second = list(&[pod("b", "b", "other"), pod("c", "c", ""), pod("d", "d", "")]);
    let change = merged.set_latest(SourceName::File, second).unwrap();
    assert_eq!(change.source, SourceName::File);
    assert_eq!(uids(&change.changes.removed), ["a"]);
    assert_eq!(uids(&change.changes.added), ["d"]);
    assert_eq!(uids(&change.changes.updated), ["b"]);
    assert_eq!(merged.follow_up(), None);
    assert_eq!(all(&merged), ["b", "c", "d"]);
}

// behaviour: SRC-40
#[test]
fn first_set_is_a_change_even_if_empty() {
    let mut merged = Merged::new(BOTH);
    assert!(!merged.all_ready());
    let change = merged.set_latest(SourceName::Http, list(&[])).unwrap();
    assert_eq!(change.changes, Changes::default());
    assert!(!merged.all_ready());
    assert_eq!(merged.set_latest(SourceName::Http, list(&[])), None, "no change");
    assert!(merged.set_latest(SourceName::File, list(&[])).is_some());
    assert!(merged.all_ready());
    assert!(Merged::new([]).all_ready(), "there is no source to wait for");
}

// behaviour: SRC-41
#[test]
fn first_source_holds_a_name() {
    let mut merged = Merged::new(BOTH);
    merged.set_latest(SourceName::Http, list(&[pod("b", "x", "")])).unwrap();
    let change = merged.set_latest(SourceName::File, list(&[pod("a", "x", ""), pod("c", "c", "")]));
    let change = change.unwrap();
    assert_eq!(uids(&change.changes.added), ["c"]);
    let holder = Some(SourceName::Http);
    let refused = RejectedPod { pod: PodName::new("default", "x"), uid: "a".into(), holder };
    assert_eq!(refused.to_string(), "a pod of the source http has the same name or uid");
    assert_eq!(change.refused, [refused]);
    // It is returned once, also after an update of the other pod.
    let again = merged.set_latest(SourceName::File, list(&[pod("a", "x", "")])).unwrap();
    assert_eq!((uids(&again.changes.removed), again.refused), (vec!["c".to_owned()], vec![]));
    merged.set_latest(SourceName::Http, list(&[pod("b", "x", "other")])).unwrap();
    assert_eq!(merged.follow_up(), None);
    assert_eq!(all(&merged), ["b"]);
}

// behaviour: SRC-41
#[test]
fn freed_name_goes_to_the_rejected_pod() {
    let mut merged = Merged::new(BOTH);
    merged.set_latest(SourceName::Http, list(&[pod("b", "x", "")])).unwrap();
    merged.set_latest(SourceName::File, list(&[pod("a", "x", "")])).unwrap();
    let change = merged.set_latest(SourceName::Http, list(&[])).unwrap();
    assert_eq!(uids(&change.changes.removed), ["b"]);
    assert!(merged.get(&"a".into()).is_none(), "not before the follow-up");
    let change = merged.follow_up().unwrap();
    assert_eq!(change.source, SourceName::File);
    assert_eq!(uids(&change.changes.added), ["a"]);
    assert!(merged.get(&"a".into()).is_some());
    assert_eq!(merged.follow_up(), None);
    // Now the other pod is rejected, which is returned once more.
    let change = merged.set_latest(SourceName::Http, list(&[pod("b", "x", "")])).unwrap();
    assert_eq!(change.refused.len(), 1);
    assert_eq!(all(&merged), ["a"]);
}

#[test]
fn uid_is_held_by_one_source() {
    let mut merged = Merged::new(BOTH);
    merged.set_latest(SourceName::File, list(&[pod("a", "x", "")])).unwrap();
    let change = merged.set_latest(SourceName::Http, list(&[pod("a", "y", "")])).unwrap();
    assert_eq!(change.changes, Changes::default());
    assert_eq!(change.refused[0].holder, Some(SourceName::File));
}

// behaviour: SRC-5
#[test]
fn second_pod_of_a_name_in_one_source_is_rejected_once() {
    let mut merged = Merged::new(BOTH);
    let pods = [pod("a", "x", ""), pod("b", "x", "")];
    let change = merged.set_latest(SourceName::File, list(&pods)).unwrap();
    assert_eq!(uids(&change.changes.added), ["a"]);
    assert!(change.changes.refused.is_empty());
    assert_eq!((change.refused[0].uid.as_str(), change.refused[0].holder), ("b", None));
    let more = [&pods[..], &[pod("c", "c", "")]].concat();
    assert!(merged.set_latest(SourceName::File, list(&more)).unwrap().refused.is_empty());
}

// behaviour: SRC-42
#[test]
fn api_pod_may_share_its_name_with_a_manifest_pod() {
    for sources in [[SourceName::File, SourceName::Api], [SourceName::Api, SourceName::File]] {
        let mut merged = Merged::new(sources);
        for (source, uid) in sources.into_iter().zip(["a", "b"]) {
            let change = merged.set_latest(source, list(&[pod(uid, "x", "")])).unwrap();
            assert_eq!(
                (uids(&change.changes.added), change.refused),
                (vec![uid.to_owned()], vec![])
            );
        }
        let change = merged.set_latest(sources[0], list(&[])).unwrap();
        assert_eq!(uids(&change.changes.removed), ["a"]);
        assert_eq!(all(&merged), ["b"]);
    }
}

proptest! {
    /// For any sets in any order, each name and uid is held once, the changes lead
    /// from one state to the next, and no pod is rejected without a conflict.
    #[test]
    fn names_and_uids_are_held_once(
        words in proptest::collection::vec(
            (0usize..3, proptest::collection::vec((0u8..5, 0u8..3), 0..5)),
            1..12,
        ),
    ) {
        let names = [SourceName::File, SourceName::Http, SourceName::Api];
        let mut merged = Merged::new(names);
        let mut replayed: BTreeMap<PodUid, Arc<Pod>> = BTreeMap::new();
        let mut latest: BTreeMap<SourceName, Arc<Vec<Arc<Pod>>>> = BTreeMap::new();
        for (source, pods) in words {
            let pods: Vec<_> =
                pods.iter().map(|(uid, name)| pod(&uid.to_string(), &name.to_string(), "")).collect();
            latest.insert(names[source], list(&pods));
            let mut change = merged.set_latest(names[source], list(&pods));
            while let Some(next) = change {
                for pod in &next.changes.removed {
                    prop_assert!(replayed.remove(&view::uid(pod)).is_some());
                }
                for pod in &next.changes.added {
                    prop_assert!(replayed.insert(view::uid(pod), Arc::clone(pod)).is_none());
                }
                for pod in &next.changes.updated {
                    prop_assert!(replayed.insert(view::uid(pod), Arc::clone(pod)).is_some());
                }
                change = merged.follow_up();
            }
            let held: Vec<_> = merged.pods().map(|(uid, pod)| (uid.clone(), view::pod_name(pod))).collect();
            let uids: BTreeSet<_> = held.iter().map(|(uid, _)| uid).collect();
            prop_assert_eq!((uids.len(), replayed.len()), (held.len(), held.len()));
            // Names are unique among manifests, and among pods of the API.
            let is_of_the_api = |uid: &PodUid| merged.sources[&SourceName::Api].set.contains_key(uid);
            let names: BTreeSet<_> =
                held.iter().map(|(uid, name)| (is_of_the_api(uid), name.clone())).collect();
            prop_assert_eq!(names.len(), held.len());
            // Every rejected pod lost its name or uid to another.
            for (source, pods) in &latest {
                for pod in pods.iter() {
                    let name = (*source == SourceName::Api, view::pod_name(pod));
                    let uid = view::uid(pod);
                    prop_assert!(uids.contains(&uid) || names.contains(&name), "{uid} {name:?}");
                }
            }
        }
    }
}

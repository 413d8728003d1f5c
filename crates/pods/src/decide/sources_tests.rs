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
    let change = merged.tell(SourceName::File, first).unwrap();
    assert_eq!(uids(&change.changes.added), ["a", "b", "c"]);
    let second = list(&[pod("b", "b", "other"), pod("c", "c", ""), pod("d", "d", "")]);
    let change = merged.tell(SourceName::File, second).unwrap();
    assert_eq!(change.source, SourceName::File);
    assert_eq!(uids(&change.changes.removed), ["a"]);
    assert_eq!(uids(&change.changes.added), ["d"]);
    assert_eq!(uids(&change.changes.updated), ["b"]);
    assert_eq!(merged.follow_up(), None);
    assert_eq!(all(&merged), ["b", "c", "d"]);
}

// behaviour: SRC-40
#[test]
fn the_first_word_of_a_source_counts_even_if_it_is_empty() {
    let mut merged = Merged::new(BOTH);
    assert!(!merged.all_told());
    let change = merged.tell(SourceName::Http, list(&[])).unwrap();
    assert_eq!(change.changes, Changes::default());
    assert!(!merged.all_told());
    assert_eq!(merged.tell(SourceName::Http, list(&[])), None, "that is no news");
    assert!(merged.tell(SourceName::File, list(&[])).is_some());
    assert!(merged.all_told());
    assert!(Merged::new([]).all_told(), "nobody to wait for");
}

// behaviour: SRC-41
#[test]
fn a_name_belongs_to_the_source_that_had_it_first() {
    let mut merged = Merged::new(BOTH);
    merged.tell(SourceName::Http, list(&[pod("b", "x", "")])).unwrap();
    let change = merged.tell(SourceName::File, list(&[pod("a", "x", ""), pod("c", "c", "")]));
    let change = change.unwrap();
    assert_eq!(uids(&change.changes.added), ["c"]);
    let holder = Some(SourceName::Http);
    let refused = Refused { pod: PodName::new("default", "x"), uid: "a".into(), holder };
    assert_eq!(refused.to_string(), "a pod of the source http has the same name or uid");
    assert_eq!(change.refused, [refused]);
    // It is said once, and an update of the other one changes nothing about it.
    let again = merged.tell(SourceName::File, list(&[pod("a", "x", "")])).unwrap();
    assert_eq!((uids(&again.changes.removed), again.refused), (vec!["c".to_owned()], vec![]));
    merged.tell(SourceName::Http, list(&[pod("b", "x", "other")])).unwrap();
    assert_eq!(merged.follow_up(), None);
    assert_eq!(all(&merged), ["b"]);
}

// behaviour: SRC-41
#[test]
fn a_name_that_becomes_free_goes_to_the_one_that_was_refused() {
    let mut merged = Merged::new(BOTH);
    merged.tell(SourceName::Http, list(&[pod("b", "x", "")])).unwrap();
    merged.tell(SourceName::File, list(&[pod("a", "x", "")])).unwrap();
    let change = merged.tell(SourceName::Http, list(&[])).unwrap();
    assert_eq!(uids(&change.changes.removed), ["b"]);
    assert!(merged.get(&"a".into()).is_none(), "not before it is told");
    let change = merged.follow_up().unwrap();
    assert_eq!(change.source, SourceName::File);
    assert_eq!(uids(&change.changes.added), ["a"]);
    assert!(merged.get(&"a".into()).is_some());
    assert_eq!(merged.follow_up(), None);
    // Now it is the other that comes too late, and is told so once more.
    let change = merged.tell(SourceName::Http, list(&[pod("b", "x", "")])).unwrap();
    assert_eq!(change.refused.len(), 1);
    assert_eq!(all(&merged), ["a"]);
}

#[test]
fn a_uid_belongs_to_one_source_too() {
    let mut merged = Merged::new(BOTH);
    merged.tell(SourceName::File, list(&[pod("a", "x", "")])).unwrap();
    let change = merged.tell(SourceName::Http, list(&[pod("a", "y", "")])).unwrap();
    assert_eq!(change.changes, Changes::default());
    assert_eq!(change.refused[0].holder, Some(SourceName::File));
}

// behaviour: SRC-5
#[test]
fn the_second_pod_of_a_name_in_one_source_is_refused_once() {
    let mut merged = Merged::new(BOTH);
    let pods = [pod("a", "x", ""), pod("b", "x", "")];
    let change = merged.tell(SourceName::File, list(&pods)).unwrap();
    assert_eq!(uids(&change.changes.added), ["a"]);
    assert!(change.changes.refused.is_empty());
    assert_eq!((change.refused[0].uid.as_str(), change.refused[0].holder), ("b", None));
    let more = [&pods[..], &[pod("c", "c", "")]].concat();
    assert!(merged.tell(SourceName::File, list(&more)).unwrap().refused.is_empty());
}

// behaviour: SRC-42
#[test]
fn a_pod_of_the_api_may_have_the_name_of_one_of_a_manifest() {
    for sources in [[SourceName::File, SourceName::Api], [SourceName::Api, SourceName::File]] {
        let mut merged = Merged::new(sources);
        for (source, uid) in sources.into_iter().zip(["a", "b"]) {
            let change = merged.tell(source, list(&[pod(uid, "x", "")])).unwrap();
            assert_eq!(
                (uids(&change.changes.added), change.refused),
                (vec![uid.to_owned()], vec![])
            );
        }
        let change = merged.tell(sources[0], list(&[])).unwrap();
        assert_eq!(uids(&change.changes.removed), ["a"]);
        assert_eq!(all(&merged), ["b"]);
    }
}

proptest! {
    /// Whatever sources say in whatever order, names and uids are each held once, the changes lead
    /// from one state to the next, and nothing is left out that could be there.
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
            let mut change = merged.tell(names[source], list(&pods));
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
            // Names of manifests are held once, and so are those of the API.
            let is_of_the_api = |uid: &PodUid| merged.sources[&SourceName::Api].set.contains_key(uid);
            let names: BTreeSet<_> =
                held.iter().map(|(uid, name)| (is_of_the_api(uid), name.clone())).collect();
            prop_assert_eq!(names.len(), held.len());
            // Every pod that is not there has its name or its uid taken.
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

//! What changed between two complete sets of pods from one source.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use podspec::{annotations, view};

/// Annotations that sources write themselves: a difference in them does not count as a change of the pod.
const LOCAL_ANNOTATIONS: [&str; 3] =
    [annotations::CONFIG_SOURCE, annotations::CONFIG_MIRROR, annotations::CONFIG_SEEN];

/// The pods of one source.
pub type PodSet = BTreeMap<PodUid, Arc<Pod>>;

/// Changes from an old set to a new one, in the order in which they are processed.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    /// No longer in the set.
    pub removed: Vec<Arc<Pod>>,
    /// New in the set.
    pub added: Vec<Arc<Pod>>,
    /// Specified differently.
    pub updated: Vec<Arc<Pod>>,
    /// Deletion was requested.
    pub deleted: Vec<Arc<Pod>>,
    /// Rejected: another pod of the set has the same name.
    pub refused: Vec<(PodName, PodUid)>,
}

/// Compares the previous set of a source with a new one; returns the changes and the set to remember.
pub fn merge(old: &PodSet, new: impl IntoIterator<Item: Into<Arc<Pod>>>) -> (Changes, PodSet) {
    let mut changes = Changes::default();
    let mut set = PodSet::new();
    let new: Vec<Arc<Pod>> = new.into_iter().map(Into::into).collect();
    // A pod that already holds a name keeps it, wherever in the list it is.
    let known = new.iter().filter(|pod| {
        let before = old.get(&view::uid(pod));
        before.is_some_and(|before| view::pod_name(before) == view::pod_name(pod))
    });
    let known: BTreeMap<PodUid, PodName> =
        known.map(|pod| (view::uid(pod), view::pod_name(pod))).collect();
    let mut names: BTreeMap<PodName, PodUid> =
        known.iter().map(|(uid, name)| (name.clone(), uid.clone())).collect();
    for pod in new {
        let (uid, name) = (view::uid(&pod), view::pod_name(&pod));
        let has_other_name = known.get(&uid).is_some_and(|known| *known != name);
        if set.contains_key(&uid)
            || has_other_name
            || *names.entry(name.clone()).or_insert_with(|| uid.clone()) != uid
        {
            changes.refused.push((name, uid));
            continue;
        }
        let pod = match old.get(&uid) {
            Some(known) if same_specification(known, &pod) => Arc::clone(known),
            Some(known) if view::pod_name(known) != view::pod_name(&pod) => {
                // The same uid under another name: remove the old pod and add the new one.
                changes.removed.push(Arc::clone(known));
                changes.added.push(Arc::clone(&pod));
                pod
            }
            known => {
                let list = match known {
                    None => &mut changes.added,
                    Some(_) if view::is_being_deleted(&pod) => &mut changes.deleted,
                    Some(_) => &mut changes.updated,
                };
                list.push(Arc::clone(&pod));
                pod
            }
        };
        set.insert(uid, pod);
    }
    let gone = old.iter().filter(|(uid, _)| !set.contains_key(*uid));
    changes.removed.extend(gone.map(|(_, pod)| Arc::clone(pod)));
    (changes, set)
}

/// Whether two versions of a pod have the same specification. These parts of the status count, because other
/// clients may write them: whether the pod is terminal, whether it was evicted, and the conditions of its
/// readiness gates.
pub(crate) fn same_specification(old: &Arc<Pod>, new: &Arc<Pod>) -> bool {
    if Arc::ptr_eq(old, new) {
        return true;
    }
    let annotations = |pod: &Pod| {
        let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
        annotations.retain(|name, _| !LOCAL_ANNOTATIONS.contains(&name.as_str()));
        annotations
    };
    view::pod_name(old) == view::pod_name(new)
        && old.spec == new.spec
        && view::is_terminal(old) == view::is_terminal(new)
        && view::is_evicted(old) == view::is_evicted(new)
        && gate_statuses(old).eq(gate_statuses(new))
        && old.metadata.labels == new.metadata.labels
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && old.metadata.deletion_grace_period_seconds == new.metadata.deletion_grace_period_seconds
        && annotations(old) == annotations(new)
}

/// The statuses of the conditions that a pod's readiness gates name. `Ready` depends on no other part of them.
fn gate_statuses(pod: &Pod) -> impl Iterator<Item = Option<&str>> {
    let gates = view::spec(pod).and_then(|spec| spec.readiness_gates.as_deref());
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    gates.unwrap_or_default().iter().map(move |gate| {
        let mut named = conditions.unwrap_or_default().iter();
        let found = named.find(|condition| condition.type_ == gate.condition_type);
        found.map(|condition| condition.status.as_str())
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;

    use super::*;

    fn pod(uid: &str, name: &str, hostname: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        pod.spec.get_or_insert_default().hostname = Some(hostname.to_owned());
        pod
    }

    fn uids(pods: &[Arc<Pod>]) -> Vec<String> {
        pods.iter().map(|pod| view::uid(pod).to_string()).collect()
    }

    // behaviour: SRC-1
    #[test]
    fn pods_are_removed_added_and_updated_by_uid() {
        let (_, old) =
            merge(&PodSet::new(), vec![pod("a", "a", ""), pod("b", "b", ""), pod("c", "c", "")]);
        let (changes, set) =
            merge(&old, vec![pod("b", "b", "other"), pod("c", "c", ""), pod("d", "d", "")]);
        assert_eq!(uids(&changes.removed), ["a"]);
        assert_eq!(uids(&changes.added), ["d"]);
        assert_eq!(uids(&changes.updated), ["b"]);
        assert!(Arc::ptr_eq(&set[&PodUid::from("c")], &old[&PodUid::from("c")]));
    }

    // behaviour: SRC-2
    #[test]
    fn unchanged_set_yields_no_changes() {
        let pods = || vec![pod("a", "a", ""), pod("b", "b", "")];
        let (_, old) = merge(&PodSet::new(), pods());
        let (changes, set) = merge(&old, pods());
        assert_eq!(changes, Changes::default());
        assert_eq!(set, old);
    }

    // behaviour: SRC-3
    #[test]
    fn source_annotations_are_ignored() {
        let annotated = |name: &str, value: &str| {
            let mut pod = pod("a", "a", "");
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(name.to_owned(), value.to_owned());
            pod
        };
        for name in LOCAL_ANNOTATIONS {
            let (_, old) = merge(&PodSet::new(), vec![annotated(name, "1")]);
            let (changes, _) = merge(&old, vec![annotated(name, "2")]);
            assert_eq!(changes, Changes::default(), "{name}");
        }
        let (_, old) = merge(&PodSet::new(), vec![annotated("mine", "1")]);
        let (changes, _) = merge(&old, vec![annotated("mine", "2")]);
        assert_eq!(uids(&changes.updated), ["a"]);
    }

    // behaviour: SRC-4
    #[test]
    fn pod_with_deletion_timestamp_is_deleted_and_not_updated() {
        let (_, old) = merge(&PodSet::new(), vec![pod("a", "a", "")]);
        let mut going = pod("a", "a", "");
        going.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let (changes, _) = merge(&old, vec![going]);
        assert_eq!(uids(&changes.deleted), ["a"]);
        assert!(changes.updated.is_empty());
    }

    // behaviour: SRC-5
    #[test]
    fn second_pod_of_a_name_is_rejected() {
        let (changes, set) = merge(&PodSet::new(), vec![pod("a", "x", ""), pod("b", "x", "")]);
        assert_eq!(uids(&changes.added), ["a"]);
        assert_eq!(changes.refused, [(PodName::new("default", "x"), "b".into())]);
        assert_eq!(set.len(), 1);
    }

    // behaviour: SRC-6
    #[test]
    fn known_pod_keeps_its_name_against_earlier_list_entry() {
        let (_, old) = merge(&PodSet::new(), vec![pod("z", "x", "")]);
        let (changes, set) = merge(&old, vec![pod("a", "x", ""), pod("z", "x", "")]);
        assert_eq!(changes.refused, [(PodName::new("default", "x"), "a".into())]);
        assert!(changes.added.is_empty() && changes.removed.is_empty());
        let (changes, _) = merge(&set, vec![pod("a", "x", "")]);
        assert_eq!(
            (uids(&changes.removed), uids(&changes.added)),
            (vec!["z".into()], vec!["a".into()])
        );
    }

    #[test]
    fn renamed_pod_is_removed_and_added() {
        let (_, old) = merge(&PodSet::new(), vec![pod("a", "before", "")]);
        let (changes, set) = merge(&old, vec![pod("a", "after", "")]);
        assert_eq!(
            (uids(&changes.removed), uids(&changes.added)),
            (vec!["a".into()], vec!["a".into()])
        );
        assert_eq!(set.len(), 1);
    }

    proptest! {
        #[test]
        fn changes_lead_from_old_set_to_new_one(
            old in proptest::collection::btree_map(0u8..6, 0u8..3, 0..6),
            new in proptest::collection::btree_map(0u8..6, 0u8..3, 0..6),
        ) {
            let pods = |set: &BTreeMap<u8, u8>| -> Vec<Pod> {
                set.iter().map(|(n, h)| pod(&n.to_string(), &n.to_string(), &h.to_string())).collect()
            };
            let (_, old) = merge(&PodSet::new(), pods(&old));
            let (changes, set) = merge(&old, pods(&new));
            let mut replayed = old.clone();
            for pod in &changes.removed {
                replayed.remove(&view::uid(pod));
            }
            for pod in changes.added.iter().chain(&changes.updated).chain(&changes.deleted) {
                replayed.insert(view::uid(pod), Arc::clone(pod));
            }
            prop_assert_eq!(&replayed, &set);
            prop_assert_eq!(set.len(), new.len());
        }
    }
}

//! Which pods refer to which objects.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::PodUid;
use model::objects::ObjectKey;

/// Which pods refer to which objects.
#[derive(Debug, Clone, Default)]
pub struct References {
    by_pod: BTreeMap<PodUid, BTreeSet<ObjectKey>>,
    /// The pods that refer to each.
    pods: BTreeMap<ObjectKey, BTreeSet<PodUid>>,
}

/// The effect of a change of references.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Objects that this pod did not refer to before.
    pub added: Vec<ObjectKey>,
    /// Objects without references now.
    pub unused: Vec<ObjectKey>,
}

impl References {
    /// Sets the references of a pod.
    pub fn set(&mut self, pod: &PodUid, objects: BTreeSet<ObjectKey>) -> Difference {
        let before = self.by_pod.get(pod);
        if before.map_or(objects.is_empty(), |before| *before == objects) {
            return Difference::default();
        }
        let before = before.cloned().unwrap_or_default();
        let added: Vec<ObjectKey> = objects.difference(&before).cloned().collect();
        for key in &added {
            self.pods.entry(key.clone()).or_default().insert(pod.clone());
        }
        let dropped = before.difference(&objects);
        let unused = dropped.filter(|key| self.drop_one(pod, key)).cloned().collect();
        if objects.is_empty() {
            self.by_pod.remove(pod);
        } else {
            self.by_pod.insert(pod.clone(), objects);
        }
        Difference { added, unused }
    }

    /// Whether any pod refers to it.
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.pods.contains_key(key)
    }

    /// The pods that refer to it.
    pub fn pods(&self, key: &ObjectKey) -> impl Iterator<Item = &PodUid> {
        self.pods.get(key).into_iter().flatten()
    }

    /// Drops the reference of a pod. Whether it was the last one.
    fn drop_one(&mut self, pod: &PodUid, key: &ObjectKey) -> bool {
        let Some(pods) = self.pods.get_mut(key) else { return false };
        pods.remove(pod);
        let is_last = pods.is_empty();
        if is_last {
            self.pods.remove(key);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::secret("ns", name)
    }

    fn keys(names: &str) -> BTreeSet<ObjectKey> {
        names.split_whitespace().map(key).collect()
    }

    // behaviour: OBJ-2
    #[test]
    fn object_is_used_while_one_pod_refers_to_it() {
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let mut references = References::default();
        let rows = [
            (&a, "x y", "x y", ""),
            (&a, "x y", "", ""),
            (&b, "y z", "y z", ""),
            (&a, "x", "", ""),
            (&a, "", "", "x"),
            (&b, "z w", "w", "y"),
            (&b, "", "", "w z"),
            (&b, "", "", ""),
        ];
        for (pod, refers, added, unused) in rows {
            let difference = references.set(pod, keys(refers));
            assert_eq!(difference.added.into_iter().collect::<BTreeSet<_>>(), keys(added));
            assert_eq!(difference.unused.into_iter().collect::<BTreeSet<_>>(), keys(unused));
        }
        assert!(references.pods.is_empty() && references.by_pod.is_empty());
    }

    proptest! {
        #[test]
        fn used_objects_are_those_with_references(
            changes in prop::collection::vec((0..4u8, prop::collection::btree_set(0..6u8, 0..4)), 0..40),
        ) {
            let mut references = References::default();
            let mut used = BTreeSet::new();
            for (pod, objects) in changes {
                let objects = objects.iter().map(|number| key(&number.to_string())).collect();
                let difference = references.set(&PodUid::from(pod.to_string()), objects);
                used.extend(difference.added);
                for key in difference.unused {
                    prop_assert!(used.remove(&key));
                }
                let expected: BTreeSet<_> = references.by_pod.values().flatten().cloned().collect();
                prop_assert_eq!(&used, &expected);
                prop_assert!(used.iter().all(|key| references.has(key)));
            }
        }
    }
}

//! The changes between two states of the node.

use std::collections::BTreeMap;

/// A difference between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<V> {
    /// It is new.
    Added(V),
    /// It changed.
    Modified(V),
    /// It was removed; its last value.
    Deleted(V),
}

/// The differences between two states: removals first, then additions and changes, each in key order. So a pod
/// that takes the name of another comes after the removal of the other.
pub fn changes<'a, K: Ord, V: PartialEq>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> Vec<Change<&'a V>> {
    let deleted = old.iter().filter(|(key, _)| !new.contains_key(key));
    let deleted = deleted.map(|(_, value)| Change::Deleted(value));
    let others = new.iter().filter_map(|(key, value)| match old.get(key) {
        None => Some(Change::Added(value)),
        Some(before) if before != value => Some(Change::Modified(value)),
        Some(_) => None,
    });
    deleted.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn differences_of_every_kind_are_reported_removals_first() {
        let old = BTreeMap::from([(1, "same"), (2, "old"), (3, "gone")]);
        let new = BTreeMap::from([(0, "new"), (1, "same"), (2, "changed")]);
        let expected =
            [Change::Deleted(&"gone"), Change::Added(&"new"), Change::Modified(&"changed")];
        assert_eq!(changes(&old, &new), expected);
    }

    proptest! {
        #[test]
        fn equal_states_have_no_differences(state: BTreeMap<u8, u8>) {
            prop_assert_eq!(changes(&state, &state), []);
        }

        #[test]
        fn applied_differences_give_the_new_state(
            old: BTreeMap<u8, u8>,
            new: BTreeMap<u8, u8>,
        ) {
            // Each value contains its key, as a pod contains its uid.
            let keyed = |map: BTreeMap<u8, u8>| -> BTreeMap<u8, (u8, u8)> {
                map.into_iter().map(|(key, value)| (key, (key, value % 3))).collect()
            };
            let (mut old, new) = (keyed(old), keyed(new));
            for change in changes(&old.clone(), &new) {
                let before = match change {
                    Change::Added(value) | Change::Modified(value) => old.insert(value.0, *value),
                    Change::Deleted(value) => old.remove(&value.0),
                };
                prop_assert_eq!(before.is_none(), matches!(change, Change::Added(_)));
            }
            prop_assert_eq!(old, new);
        }
    }
}

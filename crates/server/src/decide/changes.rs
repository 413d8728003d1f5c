//! What changed between two states of the node.

use std::collections::BTreeMap;

/// One difference between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<V> {
    /// It was not there before.
    Added(V),
    /// It was different before.
    Modified(V),
    /// It was there before; this is how.
    Deleted(V),
}

/// The differences between two states: what went, then what came or changed, each in the order of
/// the keys. So a pod that took another's name comes after the other has gone.
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
            // Each value tells its key, as a pod tells its uid.
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

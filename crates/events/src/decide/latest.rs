//! A bounded least-recently-used map.

use std::collections::BTreeMap;

/// At most `most` values by their keys.
#[derive(Debug, Clone)]
pub(super) struct Latest<V> {
    most: usize,
    uses: u64,
    values: BTreeMap<u64, (u64, V)>,
    /// Keys by their last use.
    by_use: BTreeMap<u64, u64>,
}

impl<V> Latest<V> {
    /// Creates a map with this capacity.
    pub(super) fn new(most: usize) -> Self {
        Self { most, uses: 0, values: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// The value of a key, created if it does not exist; marks it as used.
    pub(super) fn get_or(&mut self, key: u64, new: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if let Some((used, _)) = self.values.get(&key) {
            self.by_use.remove(used);
        } else if self.values.len() >= self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.by_use.insert(self.uses, key);
        let entry = self.values.entry(key).or_insert_with(|| (0, new()));
        entry.0 = self.uses;
        &mut entry.1
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn least_recently_used_value_is_evicted() {
        let mut latest = Latest::new(2);
        *latest.get_or(1, || 10) += 1;
        latest.get_or(2, || 20);
        latest.get_or(1, || 0);
        latest.get_or(3, || 30);
        assert_eq!(*latest.get_or(1, || 0), 11);
        assert_eq!(*latest.get_or(2, || 99), 99, "evicted for the third");
        assert_eq!(latest.len(), 2);
    }

    proptest! {
        #[test]
        fn capacity_is_never_exceeded(keys in prop::collection::vec(0..20u64, 0..200)) {
            let mut latest = Latest::new(5);
            for key in keys {
                latest.get_or(key, || key);
                prop_assert!(latest.len() <= 5 && latest.by_use.len() == latest.len());
                prop_assert_eq!(*latest.get_or(key, || 99), key);
            }
        }
    }
}

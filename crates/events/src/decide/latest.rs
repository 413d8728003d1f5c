//! A bounded memory: what was not used for longest is forgotten first.

use std::collections::BTreeMap;

/// Values by their keys, so many at most.
#[derive(Debug, Clone)]
pub(super) struct Latest<V> {
    most: usize,
    uses: u64,
    values: BTreeMap<u64, (u64, V)>,
    /// Keys by their last use.
    by_use: BTreeMap<u64, u64>,
}

impl<V> Latest<V> {
    /// Room for so many.
    pub(super) fn new(most: usize) -> Self {
        Self { most, uses: 0, values: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// The value of a key, which counts as used; a new one if there is none.
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
    fn what_was_not_used_for_longest_goes() {
        let mut latest = Latest::new(2);
        *latest.get_or(1, || 10) += 1;
        latest.get_or(2, || 20);
        latest.get_or(1, || 0);
        latest.get_or(3, || 30);
        assert_eq!(*latest.get_or(1, || 0), 11);
        assert_eq!(*latest.get_or(2, || 99), 99, "forgotten for the third");
        assert_eq!(latest.len(), 2);
    }

    proptest! {
        #[test]
        fn there_are_never_more_than_fit(keys in prop::collection::vec(0..20u64, 0..200)) {
            let mut latest = Latest::new(5);
            for key in keys {
                latest.get_or(key, || key);
                prop_assert!(latest.len() <= 5 && latest.by_use.len() == latest.len());
                prop_assert_eq!(*latest.get_or(key, || 99), key);
            }
        }
    }
}

//! All objects of a kind, from the changes of a watch.

use std::collections::{BTreeMap, BTreeSet};

use model::ports::cluster::Change;

/// All objects of a kind.
#[derive(Debug, Clone)]
pub struct Listed<K, V> {
    all: BTreeMap<K, V>,
    /// The keys of an incomplete list so far.
    seen: Option<BTreeSet<K>>,
    is_complete: bool,
}

impl<K, V> Default for Listed<K, V> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), seen: None, is_complete: false }
    }
}

impl<K: Ord + Clone, V> Listed<K, V> {
    /// Applies a change. Objects that an incomplete list has not delivered yet stay.
    pub fn receive(&mut self, change: Change<V, K>, key: impl Fn(&V) -> K) {
        match change {
            Change::Restarted => self.seen = Some(BTreeSet::new()),
            Change::Applied(object) => {
                let key = key(&object);
                if let Some(seen) = &mut self.seen {
                    seen.insert(key.clone());
                }
                self.all.insert(key, object);
            }
            Change::Gone(key) => {
                self.all.remove(&key);
            }
            // Its known version stays.
            Change::Unread(key) => {
                if let Some(seen) = &mut self.seen {
                    seen.insert(key);
                }
            }
            Change::Complete => {
                if let Some(seen) = self.seen.take() {
                    self.all.retain(|key, _| seen.contains(key));
                }
                self.is_complete = true;
            }
        }
    }

    /// All of them, once a list was complete.
    pub fn all(&self) -> Option<&BTreeMap<K, V>> {
        self.is_complete.then_some(&self.all)
    }
}

#[cfg(test)]
mod tests {
    use model::ports::cluster::Change::{Applied, Complete, Gone, Restarted, Unread};

    use super::*;

    // behaviour: OBJ-18
    #[test]
    fn objects_missing_from_a_complete_list_are_removed() {
        let mut listed = Listed::default();
        let mut receive = |changes: Vec<Change<u8, u8>>| {
            for change in changes {
                listed.receive(change, |one| *one);
            }
            listed.all().map(|all| all.keys().copied().collect::<Vec<_>>())
        };
        assert_eq!(receive(vec![Restarted, Applied(1), Applied(2)]), None);
        assert_eq!(receive(vec![Complete]), Some(vec![1, 2]));
        assert_eq!(receive(vec![Applied(3), Gone(1)]), Some(vec![2, 3]));
        assert_eq!(receive(vec![Restarted, Applied(4)]), Some(vec![2, 3, 4]));
        assert_eq!(receive(vec![Restarted, Applied(3), Complete]), Some(vec![3]));
        assert_eq!(receive(vec![Restarted, Unread(3), Unread(9), Complete]), Some(vec![3]));
    }
}

//! The state of one object, from the changes of a watch.

use crate::ports::cluster::Change;

/// The state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectState<T> {
    /// It does not exist.
    Missing,
    /// It exists.
    Present(T),
}

/// An object that is watched.
#[derive(Debug, Clone)]
pub struct WatchedObject<T> {
    list: List<T>,
}

/// An initial list that is being received.
#[derive(Debug, Clone)]
enum List<T> {
    /// None: changes count at once.
    None,
    /// The state of the object so far.
    State(ObjectState<T>),
    /// The list contains the object, but it could not be decoded.
    Unread,
}

impl<T> Default for WatchedObject<T> {
    fn default() -> Self {
        Self { list: List::None }
    }
}

impl<T> WatchedObject<T> {
    /// Applies a change. Returns the new state, if it is known. During a list the previous state holds, and also
    /// if the object cannot be decoded.
    pub fn apply(&mut self, change: Change<T, ()>) -> Option<ObjectState<T>> {
        let item = match change {
            Change::Restarted => {
                self.list = List::State(ObjectState::Missing);
                return None;
            }
            Change::Complete => {
                return match std::mem::replace(&mut self.list, List::None) {
                    List::State(state) => Some(state),
                    List::None | List::Unread => None,
                };
            }
            Change::Applied(object) => List::State(ObjectState::Present(object)),
            Change::Gone(()) => List::State(ObjectState::Missing),
            Change::Unread(()) => List::Unread,
        };
        match (&mut self.list, item) {
            (List::None, List::State(state)) => Some(state),
            (List::None, _) => None,
            (list, item) => {
                *list = item;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Change::{Applied, Complete, Gone, Restarted, Unread};

    // behaviour: OBJ-3
    #[test]
    fn list_counts_when_complete_and_changes_count_at_once() {
        let missing = || Some(ObjectState::Missing);
        let present = |version| Some(ObjectState::Present(version));
        let rows = [
            (vec![Restarted, Complete], vec![None, missing()]),
            (vec![Restarted, Applied(1), Complete], vec![None, None, present(1)]),
            (
                vec![Restarted, Applied(1), Complete, Applied(2), Gone(())],
                vec![None, None, present(1), present(2), missing()],
            ),
            (vec![Restarted, Applied(1), Gone(()), Complete], vec![None, None, None, missing()]),
            // A list that is cut off and restarted.
            (vec![Restarted, Applied(1), Restarted, Complete], vec![None, None, None, missing()]),
            (vec![Complete], vec![None]),
            // An object that cannot be decoded does not change the state, nor is it missing.
            (vec![Unread(()), Restarted, Unread(()), Complete], vec![None, None, None, None]),
            (vec![Restarted, Unread(()), Applied(3), Complete], vec![None, None, None, present(3)]),
        ];
        for (changes, expected) in rows {
            let mut watched = WatchedObject::default();
            let states: Vec<_> = changes.into_iter().map(|change| watched.apply(change)).collect();
            assert_eq!(states, expected);
        }
    }
}

//! What is known of one object, from what is heard of it.

use crate::ports::cluster::Change;

/// What was said of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told<T> {
    /// There is none.
    Missing,
    /// It is there, like this.
    There(T),
}

/// What was heard of an object so far.
#[derive(Debug, Clone)]
pub struct Heard<T> {
    list: List<T>,
}

/// Whether all there is is being told from the beginning.
#[derive(Debug, Clone)]
enum List<T> {
    /// It is not: what is heard is a change.
    None,
    /// It is; this was said so far.
    Told(Told<T>),
    /// It is, and the object is among it, but could not be understood.
    Unread,
}

impl<T> Default for Heard<T> {
    fn default() -> Self {
        Self { list: List::None }
    }
}

impl<T> Heard<T> {
    /// Takes what is heard; what is known now, if something was said. While a list is told, what was
    /// known before it stays, and so it does when the object cannot be understood.
    pub fn hear(&mut self, change: Change<T, ()>) -> Option<Told<T>> {
        let said = match change {
            Change::Restarted => {
                self.list = List::Told(Told::Missing);
                return None;
            }
            Change::Complete => {
                return match std::mem::replace(&mut self.list, List::None) {
                    List::Told(told) => Some(told),
                    List::None | List::Unread => None,
                };
            }
            Change::Applied(object) => List::Told(Told::There(object)),
            Change::Gone(()) => List::Told(Told::Missing),
            Change::Unread(()) => List::Unread,
        };
        match (&mut self.list, said) {
            (List::None, List::Told(told)) => Some(told),
            (List::None, _) => None,
            (list, said) => {
                *list = said;
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
    fn a_list_counts_when_it_is_whole_and_changes_count_at_once() {
        let missing = || Some(Told::Missing);
        let there = |version| Some(Told::There(version));
        let rows = [
            (vec![Restarted, Complete], vec![None, missing()]),
            (vec![Restarted, Applied(1), Complete], vec![None, None, there(1)]),
            (
                vec![Restarted, Applied(1), Complete, Applied(2), Gone(())],
                vec![None, None, there(1), there(2), missing()],
            ),
            (vec![Restarted, Applied(1), Gone(()), Complete], vec![None, None, None, missing()]),
            // A list that is cut off and begun anew.
            (vec![Restarted, Applied(1), Restarted, Complete], vec![None, None, None, missing()]),
            (vec![Complete], vec![None]),
            // What cannot be understood says nothing, not even that there is nothing.
            (vec![Unread(()), Restarted, Unread(()), Complete], vec![None, None, None, None]),
            (vec![Restarted, Unread(()), Applied(3), Complete], vec![None, None, None, there(3)]),
        ];
        for (changes, expected) in rows {
            let mut heard = Heard::default();
            let known: Vec<_> = changes.into_iter().map(|change| heard.hear(change)).collect();
            assert_eq!(known, expected);
        }
    }
}

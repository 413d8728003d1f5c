//! What is known of one object, from what is heard of it.

use std::sync::Arc;

use model::objects::DataObject;
use model::ports::cluster::Change;

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Known {
    /// Nothing yet.
    #[default]
    NotYet,
    /// There is none.
    Missing,
    /// It is there, as told.
    There(Arc<DataObject>),
}

impl Known {
    /// Whether it is there and never changes.
    pub fn is_immutable(&self) -> bool {
        matches!(self, Self::There(object) if object.is_immutable)
    }
}

/// What was heard of an object so far.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// What a list that is not at its end told.
    listed: Option<Known>,
}

impl Heard {
    /// Takes what is heard; what is known now, if that is another thing than before. While a list is
    /// told, what was known before it stays.
    pub fn hear(&mut self, change: Change<DataObject, ()>) -> Option<Known> {
        match (change, &mut self.listed) {
            (Change::Restarted, listed) => {
                *listed = Some(Known::Missing);
                None
            }
            (Change::Applied(object), Some(listed)) => {
                *listed = Known::There(Arc::new(object));
                None
            }
            (Change::Gone(()), Some(listed)) => {
                *listed = Known::Missing;
                None
            }
            // What was known before the list stays after it, too.
            (Change::Unreadable(()), listed) => {
                *listed = None;
                None
            }
            (Change::Applied(object), None) => Some(Known::There(Arc::new(object))),
            (Change::Gone(()), None) => Some(Known::Missing),
            (Change::Complete, listed) => listed.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::cluster::Version;
    use model::ports::cluster::Change::{Applied, Complete, Gone, Restarted, Unreadable};

    use super::*;

    fn object(version: u64) -> DataObject {
        DataObject { version: Version::from(version), ..DataObject::default() }
    }

    fn known(version: u64) -> Known {
        Known::There(Arc::new(object(version)))
    }

    // behaviour: OBJ-3
    #[test]
    fn a_list_counts_when_it_is_whole_and_changes_count_at_once() {
        let missing = || Some(Known::Missing);
        let there = |version| Some(known(version));
        let rows = [
            (vec![Restarted, Complete], vec![None, missing()]),
            (vec![Restarted, Applied(object(1)), Complete], vec![None, None, there(1)]),
            (
                vec![Restarted, Applied(object(1)), Complete, Applied(object(2)), Gone(())],
                vec![None, None, there(1), there(2), missing()],
            ),
            (
                vec![Restarted, Applied(object(1)), Gone(()), Complete],
                vec![None, None, None, missing()],
            ),
            // A list that is cut off and begun anew.
            (
                vec![Restarted, Applied(object(1)), Restarted, Complete],
                vec![None, None, None, missing()],
            ),
            (vec![Complete], vec![None]),
            (vec![Restarted, Unreadable(()), Complete], vec![None, None, None]),
            (vec![Unreadable(()), Gone(())], vec![None, missing()]),
        ];
        for (changes, expected) in rows {
            let mut heard = Heard::default();
            let known: Vec<_> = changes.into_iter().map(|change| heard.hear(change)).collect();
            assert_eq!(known, expected);
        }
    }
}

//! What goes as soon as a container has died, without waiting for the next pass: upstream's
//! `podContainerDeletor`.

use std::sync::Arc;

use jiff::Timestamp;
use model::ids::PodName;
use model::observed::{ContainerState, Instance, PodStatus};
use model::verdict::{Detail, Input, Owner, Subject};

use super::containers::count;
use crate::plan::{Fate, Item};

/// Which containers of a pod are in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// Those of the same name as this one, which died. An id that the pod does not have, such as that
    /// of a sandbox, selects none.
    SameAs(&'a str),
    /// All of them; the number that is kept counts over all names together.
    All,
}

/// The instances to remove beyond the newest `keep`, the newest first, as the status has them. Only those that ended are
/// counted; neither age nor the node's cap is asked.
pub fn beyond<'a>(status: &'a PodStatus, which: Which<'_>, keep: usize) -> Vec<Instance<'a>> {
    let name = match which {
        Which::All => None,
        Which::SameAs(id) => match status.instances().find(|one| one.id.as_str() == id) {
            Some(died) => Some(died.name),
            None => return Vec::new(),
        },
    };
    let ended = status.instances().filter(|one| {
        one.state == ContainerState::Exited && name.is_none_or(|name| one.name == name)
    });
    ended.skip(keep).collect()
}

/// Why one goes.
pub fn item(
    instance: &Instance<'_>,
    (status, pod): (&PodStatus, &PodName),
    rule: &'static str,
    (keep, now): (usize, Timestamp),
) -> Item {
    let age = now.duration_since(instance.created_at).unsigned_abs();
    Item {
        subject: Subject::Container(instance.id.clone()),
        name: Arc::clone(instance.name),
        owner: Owner::of(&status.uid, pod),
        fate: Fate::Remove,
        rule,
        detail: Detail::default()
            .with("cap", count(keep))
            .with("created", Input::Time(instance.created_at))
            .with("age", Input::Span(age)),
    }
}

/// How many dead instances of a container are kept when one dies: at least one, whatever the cap.
pub fn keep(per_container: Option<usize>) -> usize {
    per_container.unwrap_or(1).max(1)
}

#[cfg(test)]
#[path = "deletor_tests.rs"]
mod tests;

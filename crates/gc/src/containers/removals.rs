//! Coordinates removals: a pass and the deletor may remove the same container.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ids::ContainerId;
use tokio::sync::Notify;

/// The containers that are being removed. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Removals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Written by all tasks that remove containers. Never held across an await.
    state: Mutex<State>,
    /// Notified at the end of each removal.
    over: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: BTreeSet<ContainerId>,
    /// Containers removed by the deletor: a pass may have listed them before.
    gone: BTreeSet<ContainerId>,
}

/// Who may remove a container.
enum Turn {
    Ours,
    Others,
    /// The container is removed.
    Done,
}

impl Removals {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a removal of the container that is in progress; `None` if the deletor has removed it.
    pub(super) async fn begin<'a>(&'a self, id: &'a ContainerId) -> Option<Removal<'a>> {
        loop {
            // Before the check, so that no notification is lost.
            let over = self.0.over.notified();
            match self.turn(id) {
                Turn::Ours => return Some(Removal { removals: self, id }),
                Turn::Others => over.await,
                Turn::Done => return None,
            }
        }
    }

    fn turn(&self, id: &ContainerId) -> Turn {
        let mut state = self.state();
        if state.gone.contains(id) {
            Turn::Done
        } else if state.under_way.insert(id.clone()) {
            Turn::Ours
        } else {
            Turn::Others
        }
    }

    /// The pass has ended: the next one makes a new list.
    pub(super) fn pass_is_over(&self) {
        self.state().gone.clear();
    }
}

/// The right to remove a container, until it is dropped.
#[derive(Debug)]
pub(super) struct Removal<'a> {
    removals: &'a Removals,
    id: &'a ContainerId,
}

impl Removal<'_> {
    /// The container is removed, even if an older list contains it.
    pub(super) fn mark_removed(self) {
        self.removals.state().gone.insert(self.id.clone());
    }
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.removals.state().under_way.remove(self.id);
        self.removals.0.over.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn removed_containers_are_remembered_until_the_pass_ends() {
        let (removals, id) = (Removals::default(), ContainerId::from("c1"));
        removals.begin(&id).await.expect("no other removal is in progress").mark_removed();
        assert!(removals.begin(&id).await.is_none());
        removals.pass_is_over();
        drop(removals.begin(&id).await.expect("the end of the pass cleared the entry"));
        let state = removals.state();
        assert!(state.under_way.is_empty() && state.gone.is_empty(), "{state:?}");
    }
}

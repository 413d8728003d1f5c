//! Telling what changes.

use std::collections::BTreeMap;

use model::cluster::{NodeRecord, PodRecord, Uid};
use model::ports::cluster::{Change, Sink};

use super::{History, MemoryCluster, State};

/// Tells all from the beginning, and then what follows, for ever.
pub(super) async fn follow<T: Clone, K: Clone + Ord>(
    cluster: &MemoryCluster,
    history: impl Fn(&mut State) -> &mut History<Change<T, K>>,
    key: impl Fn(&T) -> K,
    sink: &dyn Sink<T, K>,
) {
    let mut changed = cluster.shared.subscribe();
    let mut place: Option<(u64, usize)> = None;
    loop {
        let mut told = Vec::new();
        {
            let mut state = cluster.shared.state();
            let history = history(&mut state);
            if !history.is_frozen {
                let expired = history.expired;
                let from = match place {
                    Some((seen, from)) if seen == expired => from,
                    _ => {
                        let known = history.changes.len().saturating_sub(history.behind);
                        history.behind = 0;
                        told.push(Change::Restarted);
                        told.extend(all(&history.changes[..known], &key).map(Change::Applied));
                        told.push(Change::Complete);
                        known
                    }
                };
                told.extend_from_slice(&history.changes[from..]);
                place = Some((expired, history.changes.len()));
            }
        }
        for change in told {
            sink.hear(change);
        }
        if changed.changed().await.is_err() {
            // The cluster is gone; there is nothing to hear.
            std::future::pending::<()>().await;
        }
    }
}

/// What is there after some changes.
fn all<T: Clone, K: Clone + Ord>(
    changes: &[Change<T, K>],
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = T> {
    let mut there = BTreeMap::new();
    for change in changes {
        match change {
            Change::Applied(object) => drop(there.insert(key(object), object.clone())),
            Change::Gone(key) => drop(there.remove(key)),
            Change::Restarted | Change::Unread(_) | Change::Complete => {}
        }
    }
    there.into_values()
}

impl MemoryCluster {
    pub(super) async fn tell_pods(&self, sink: &dyn Sink<PodRecord, Uid>) {
        follow(self, |state| &mut state.pod_history, |pod| pod.uid.clone(), sink).await;
    }

    pub(super) async fn tell_nodes(&self, sink: &dyn Sink<NodeRecord, String>) {
        follow(self, |state| &mut state.node_history, |node| node.name.clone(), sink).await;
    }
}

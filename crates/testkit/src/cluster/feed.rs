//! Watches: sending lists and changes.

use std::collections::BTreeMap;

use model::cluster::{NodeRecord, PodRecord, Uid};
use model::ports::cluster::{Change, Sink};
use tokio::sync::watch;

use super::{History, MemoryCluster, State};

/// The next changes to send.
struct Batch<T, K> {
    changes: Vec<Change<T, K>>,
    /// The number of objects after which the list pauses.
    held_after: Option<usize>,
    /// The number of expirations before it.
    expired: u64,
}

/// Sends a list and then the changes. Never ends.
pub(super) async fn follow<T: Clone, K: Clone + Ord>(
    cluster: &MemoryCluster,
    history: impl Fn(&mut State) -> &mut History<Change<T, K>>,
    key: impl Fn(&T) -> K,
    sink: &dyn Sink<T, K>,
) {
    let mut changed = cluster.shared.subscribe();
    let mut place: Option<(u64, usize)> = None;
    loop {
        let batch = next_batch(history(&mut cluster.shared.state()), &mut place, &key);
        let is_quiet = batch.changes.is_empty();
        for (sent, change) in batch.changes.into_iter().enumerate() {
            let is_held = |state: &mut State| {
                let history = history(state);
                history.expired == batch.expired && (history.held.is_some() || history.is_frozen)
            };
            while batch.held_after == Some(sent) && is_held(&mut cluster.shared.state()) {
                await_change(&mut changed).await;
            }
            if history(&mut cluster.shared.state()).expired != batch.expired {
                // The list is interrupted; the next one begins.
                break;
            }
            sink.receive(change);
        }
        if is_quiet {
            await_change(&mut changed).await;
        }
    }
}

async fn await_change(changed: &mut watch::Receiver<u64>) {
    if changed.changed().await.is_err() {
        // The cluster was dropped; no changes follow.
        std::future::pending::<()>().await;
    }
}

/// A list if one is due, and the changes since then.
fn next_batch<T: Clone, K: Clone + Ord>(
    history: &mut History<Change<T, K>>,
    place: &mut Option<(u64, usize)>,
    key: impl Fn(&T) -> K,
) -> Batch<T, K> {
    let expired = history.expired;
    let mut batch = Batch { changes: Vec::new(), held_after: None, expired };
    if history.is_frozen {
        return batch;
    }
    let from = match *place {
        Some((seen, from)) if seen == expired => from,
        _ => {
            let known = history.changes.len().saturating_sub(history.behind);
            history.behind = 0;
            batch.changes.push(Change::Restarted);
            batch.changes.extend(all(&history.changes[..known], key).map(Change::Applied));
            let listed = batch.changes.len();
            batch.held_after = history.held.map(|objects| listed.min(objects + 1));
            batch.changes.push(Change::Complete);
            known
        }
    };
    batch.changes.extend_from_slice(&history.changes[from..]);
    *place = Some((expired, history.changes.len()));
    batch
}

/// The objects after these changes.
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
    pub(super) async fn watch_pods(&self, sink: &dyn Sink<PodRecord, Uid>) {
        follow(self, |state| &mut state.pod_history, |pod| pod.uid.clone(), sink).await;
    }

    pub(super) async fn watch_nodes(&self, sink: &dyn Sink<NodeRecord, String>) {
        follow(self, |state| &mut state.node_history, |node| node.name.clone(), sink).await;
    }
}

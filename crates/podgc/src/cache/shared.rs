//! The cache, shared by its writers and readers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use model::cluster::{NodeRecord, PodRecord, Uid};
use model::ports::cluster::{Change, Sink};
use tokio::sync::watch;

use super::Cache;

/// Filled from watch events, read by the cycle. The lock is held for one read or change, never across an
/// await.
#[derive(Debug)]
pub struct SharedCache {
    cache: Mutex<Cache>,
    /// Whether all pods, and all nodes, were listed at least once. Written with the cache.
    synced: watch::Sender<Synced>,
}

/// The kinds that were listed completely at least once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Synced {
    pods: bool,
    nodes: bool,
}

impl SharedCache {
    /// An empty cache.
    pub fn new(cache: Cache) -> Self {
        Self { cache: Mutex::new(cache), synced: watch::Sender::new(Synced::default()) }
    }

    /// Locks the cache for a short time.
    pub fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether pods and nodes were listed at least once.
    pub fn is_synced(&self) -> bool {
        let synced = *self.synced.borrow();
        synced.pods && synced.nodes
    }

    /// Waits until pods and nodes are listed.
    pub async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // The sender lives as long as this cache.
        let waited = synced.wait_for(|synced| synced.pods && synced.nodes).await;
        drop(waited);
    }
}

impl Sink<PodRecord, Uid> for SharedCache {
    fn receive(&self, change: Change<PodRecord, Uid>) {
        match change {
            Change::Restarted => self.lock().restart_pods(),
            Change::Applied(pod) => self.lock().apply(pod),
            Change::Gone(uid) => self.lock().forget(&uid),
            Change::Unread(uid) => self.lock().keep(&uid),
            Change::Complete => {
                self.lock().complete_pods();
                self.synced.send_if_modified(|synced| !std::mem::replace(&mut synced.pods, true));
            }
        }
    }
}

impl Sink<NodeRecord, String> for SharedCache {
    fn receive(&self, change: Change<NodeRecord, String>) {
        match change {
            Change::Restarted => self.lock().restart_nodes(),
            Change::Applied(node) => self.lock().apply_node(&node),
            Change::Gone(name) => self.lock().forget_node(&name),
            Change::Unread(name) => self.lock().keep_node(name),
            Change::Complete => {
                self.lock().complete_nodes();
                self.synced.send_if_modified(|synced| !std::mem::replace(&mut synced.nodes, true));
            }
        }
    }
}

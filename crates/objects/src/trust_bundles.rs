//! The trust bundles of the cluster.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::objects::TrustBundleRecord;
use model::ports::cluster::{Change, Sink};
use model::ports::objects::TrustBundleFeed;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::decide::Listed;

/// How long a reader waits for the first list.
const PATIENCE: Duration = Duration::from_secs(1);

/// The trust bundles are not known yet. The text is upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ClusterTrustBundle informer has not yet synced")]
pub struct NotSynced;

/// All trust bundles of the cluster. They are watched from the first read on. Clones share the store.
#[derive(Debug, Clone)]
pub struct TrustBundles {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Written by the feed.
    listed: Mutex<Listed<String, TrustBundleRecord>>,
    /// All of them, once they were listed. Written by the feed.
    all: watch::Sender<Option<Arc<[TrustBundleRecord]>>>,
    /// Wakes the task: a reader needs them.
    needed: Notify,
}

impl Default for TrustBundles {
    fn default() -> Self {
        let (all, needed) = (watch::Sender::new(None), Notify::new());
        Self { shared: Arc::new(Shared { listed: Mutex::default(), all, needed }) }
    }
}

impl TrustBundles {
    /// Watches the trust bundles from the first read on, until it is stopped.
    pub async fn run(self, feed: Arc<dyn TrustBundleFeed>, stop: CancellationToken) {
        let follow = async {
            self.shared.needed.notified().await;
            feed.follow_trust_bundles(&self).await;
        };
        stop.run_until_cancelled(follow).await;
    }

    /// All trust bundles, ordered by name.
    pub async fn all(&self) -> Result<Arc<[TrustBundleRecord]>, NotSynced> {
        self.shared.needed.notify_one();
        let mut all = self.shared.all.subscribe();
        let listed = timeout(PATIENCE, all.wait_for(Option::is_some)).await;
        let known = listed.ok().and_then(Result::ok).and_then(|all| all.clone());
        known.ok_or(NotSynced)
    }

    /// Changes of the trust bundles.
    pub fn changes(&self) -> watch::Receiver<Option<Arc<[TrustBundleRecord]>>> {
        self.shared.all.subscribe()
    }
}

impl Sink<TrustBundleRecord, String> for TrustBundles {
    fn receive(&self, change: Change<TrustBundleRecord, String>) {
        let mut listed = self.shared.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.receive(change, |bundle| bundle.name.clone());
        let all: Option<Arc<[_]>> = listed.all().map(|all| all.values().cloned().collect());
        drop(listed);
        self.shared.all.send_if_modified(|before| {
            let is_new = *before != all;
            if is_new {
                *before = all;
            }
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use testkit::cluster::{ApiCall, MemoryCluster};
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    fn bundle(name: &str) -> TrustBundleRecord {
        TrustBundleRecord { name: name.to_owned(), ..TrustBundleRecord::default() }
    }

    // behaviour: VOL-49
    #[tokio::test(start_paused = true)]
    async fn trust_bundles_are_watched_from_the_first_read_on_and_report_changes() {
        let cluster = MemoryCluster::default();
        cluster.put_trust_bundle(bundle("a"));
        let bundles = TrustBundles::default();
        assert_eq!(bundles.all().await, Err(NotSynced));
        let bundles = TrustBundles::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(bundles.clone().run(Arc::new(cluster.clone()), CancellationToken::new()));
        sleep(Duration::from_hours(1)).await;
        assert_eq!(cluster.calls_of(ApiCall::Watch), [""; 0]);
        assert_eq!(*bundles.all().await.unwrap(), [bundle("a")]);
        let mut changes = bundles.changes();
        changes.mark_unchanged();
        cluster.put_trust_bundle(bundle("b"));
        changes.changed().await.unwrap();
        assert_eq!(*bundles.all().await.unwrap(), [bundle("a"), bundle("b")]);
    }
}

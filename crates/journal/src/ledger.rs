//! Records every removal: in the journal, a metric, the log, and for watchers of a GC pass.

use std::fmt;
use std::sync::Arc;

use model::ports::journal::{Journal, Outcome, WhenRecorded};
use model::verdict::Verdict;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::broadcast;
use tracing::{debug, info};

use crate::entry::EntryOutcome;

/// How many removals a watcher may lag behind before it misses the oldest.
const BEHIND: usize = 1024;

/// A removal that happened.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The object, and why.
    pub verdict: Verdict,
    /// The outcome.
    pub outcome: EntryOutcome,
    /// Why it still exists.
    pub error: Option<String>,
}

/// Records removals.
pub struct Ledger {
    journal: Arc<dyn Journal>,
    removals: IntCounterVec,
    /// Closed with the ledger.
    progress: broadcast::Sender<Arc<Progress>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl Ledger {
    /// A ledger with metrics in the given registry.
    pub fn new(journal: Arc<dyn Journal>, registry: &Registry) -> Result<Self, prometheus::Error> {
        let help = "Removals from the node, by kind of object, rule and outcome.";
        let opts = Opts::new("ferrolet_removals_total", help);
        let removals = IntCounterVec::new(opts, &["kind", "rule", "outcome"])?;
        registry.register(Box::new(removals.clone()))?;
        Ok(Self { journal, removals, progress: broadcast::Sender::new(BEHIND) })
    }

    /// Subscribes to removals from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Progress>> {
        self.progress.subscribe()
    }

    /// Records that a removal begins. Returns its number, and a future that ends when it is recorded.
    pub(crate) fn begun(&self, verdict: &Verdict) -> (u64, WhenRecorded) {
        self.journal.begun(verdict)
    }

    /// Drops a removal in progress: it has ended, and was recorded if anything was removed.
    pub(crate) fn ended(&self, number: u64) {
        self.journal.ended(number);
    }

    /// Counts a removal that shares an entry with others.
    pub(crate) fn count_removed(&self, verdict: &Verdict) {
        let labels = [verdict.subject.kind(), verdict.rule, EntryOutcome::Removed.as_str()];
        self.removals.with_label_values(&labels).inc();
        debug!(%verdict, "Removed");
    }

    /// Records removals that were [counted](Self::count_removed).
    pub(crate) fn record_series(&self, verdict: &Verdict) {
        info!(%verdict, "Removed");
        self.journal.record(verdict, Outcome::Removed);
    }

    /// Records a removal.
    pub(crate) fn record(&self, verdict: &Verdict, outcome: Outcome<'_>) {
        let entry_outcome = EntryOutcome::from(outcome);
        let labels = [verdict.subject.kind(), verdict.rule, entry_outcome.as_str()];
        self.removals.with_label_values(&labels).inc();
        let error = match outcome {
            Outcome::Removed => {
                info!(%verdict, "Removed");
                None
            }
            Outcome::AlreadyGone => {
                debug!(%verdict, "Already removed");
                None
            }
            Outcome::Held => {
                info!(%verdict, "Deleted, finalizers still hold it");
                None
            }
            Outcome::Failed(error) => {
                // The caller logs the error.
                debug!(%verdict, %error, "Removal failed");
                Some(error.to_owned())
            }
        };
        self.journal.record(verdict, outcome);
        if self.progress.receiver_count() > 0 {
            let progress = Progress { verdict: verdict.clone(), outcome: entry_outcome, error };
            // There may be no watcher.
            drop(self.progress.send(Arc::new(progress)));
        }
    }
}

//! Where every removal is told: the journal, a metric, the log, and whoever watches a pass.

use std::fmt;
use std::sync::Arc;

use model::ports::journal::{Journal, Noted, Outcome};
use model::verdict::Verdict;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::broadcast;
use tracing::{debug, info};

use crate::entry::Became;

/// How many removals somebody who watches may be behind before the oldest are not told to them.
const BEHIND: usize = 1024;

/// A removal, as it happened.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What was to go, and why.
    pub verdict: Verdict,
    /// What became of it.
    pub became: Became,
    /// Why it is still there.
    pub error: Option<String>,
}

/// Puts removals on record.
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
    /// One that counts in the given registry.
    pub fn new(journal: Arc<dyn Journal>, registry: &Registry) -> Result<Self, prometheus::Error> {
        let help = "What was removed from the node, by what it was, the rule that said so, \
                    and what became of it.";
        let opts = Opts::new("ferrolet_removals_total", help);
        let removals = IntCounterVec::new(opts, &["kind", "rule", "outcome"])?;
        registry.register(Box::new(removals.clone()))?;
        Ok(Self { journal, removals, progress: broadcast::Sender::new(BEHIND) })
    }

    /// All removals from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Progress>> {
        self.progress.subscribe()
    }

    /// Notes down that a removal begins; its number, and when it is noted down.
    pub(crate) fn begun(&self, verdict: &Verdict) -> (u64, Noted) {
        self.journal.begun(verdict)
    }

    /// A removal has ended, and is on record if there was anything to it.
    pub(crate) fn ended(&self, number: u64) {
        self.journal.ended(number);
    }

    /// Counts a removal that shares an entry with others.
    pub(crate) fn count_removed(&self, verdict: &Verdict) {
        let labels = [verdict.subject.kind(), verdict.rule, Became::Removed.as_str()];
        self.removals.with_label_values(&labels).inc();
        debug!(%verdict, "removed");
    }

    /// Puts removals on record that were [counted](Self::count_removed).
    pub(crate) fn record_series(&self, verdict: &Verdict) {
        info!(%verdict, "removed");
        self.journal.record(verdict, Outcome::Removed);
    }

    /// Puts a removal on record.
    pub(crate) fn record(&self, verdict: &Verdict, outcome: Outcome<'_>) {
        let became = Became::from(outcome);
        let labels = [verdict.subject.kind(), verdict.rule, became.as_str()];
        self.removals.with_label_values(&labels).inc();
        let error = match outcome {
            Outcome::Removed => {
                info!(%verdict, "removed");
                None
            }
            Outcome::AlreadyGone => {
                debug!(%verdict, "was gone already");
                None
            }
            Outcome::Held => {
                info!(%verdict, "deleted; finalizers still hold it");
                None
            }
            Outcome::Failed(error) => {
                // Who asked for it knows what that means, and says so.
                debug!(%verdict, %error, "not removed");
                Some(error.to_owned())
            }
        };
        self.journal.record(verdict, outcome);
        if self.progress.receiver_count() > 0 {
            let progress = Progress { verdict: verdict.clone(), became, error };
            // Whoever watched may have gone meanwhile.
            drop(self.progress.send(Arc::new(progress)));
        }
    }
}

//! Where removals are put on record, and asked for.

use std::sync::Arc;

use async_trait::async_trait;
use journal::{
    DiskJournal, Found, Ledger, Query, RecordedCgroups, RecordedFiles, RecordedPods,
    RecordedRuntime,
};
use model::chain::Chain;

use crate::version::FERROLET;
use crate::wiring::{Ports, Settings};

/// The journal, and what writes to it.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) journal: Arc<DiskJournal>,
    pub(crate) ledger: Arc<Ledger>,
}

impl Records {
    /// Puts the ports that remove behind others that keep a record, so that no part of the agent can
    /// remove without one.
    pub(crate) fn new(settings: &Settings, ports: &mut Ports) -> Self {
        let (segments, clock) = (Arc::clone(&ports.journal), Arc::clone(&ports.clock));
        let journal = DiskJournal::new(segments, clock, FERROLET, settings.journal_bytes);
        let journal = Arc::new(journal);
        let ledger = Ledger::new(Arc::clone(&journal) as _, &ports.metrics);
        let ledger = Arc::new(ledger.expect("a new registry has no metrics yet"));
        let (inner, told) = (Arc::clone(&ports.runtime), Arc::clone(&ledger));
        ports.runtime = Arc::new(RecordedRuntime { inner, ledger: told });
        let (inner, told) = (Arc::clone(&ports.files), Arc::clone(&ledger));
        ports.files = Arc::new(RecordedFiles { inner, ledger: told });
        if let Some(inner) = ports.cgroups.take() {
            let ledger = Arc::clone(&ledger);
            ports.cgroups = Some(Arc::new(RecordedCgroups { inner, ledger }));
        }
        if let Some(cluster) = &mut ports.cluster {
            let (inner, ledger) = (Arc::clone(&cluster.pod_writes), Arc::clone(&ledger));
            cluster.pod_writes = Arc::new(RecordedPods { inner, ledger });
        }
        Self { journal, ledger }
    }
}

/// Answers from the journal, without holding anybody up.
#[derive(Debug)]
pub(crate) struct JournalView(pub(crate) Arc<DiskJournal>);

#[async_trait]
impl server::Removals for JournalView {
    async fn why(&self, query: Query, limit: usize) -> Result<Found, String> {
        let journal = Arc::clone(&self.0);
        let found = tokio::task::spawn_blocking(move || journal.find(&query, limit)).await;
        let found = found.map_err(|error| error.to_string())?;
        found.map_err(|error| Chain(&error).to_string())
    }
}

//! The journal of removals, sessions and incidents: its writers and its readers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostfs::{Call, Pool, Size};
use journal::{
    DiskJournal, ExistenceChecks, IncidentJournal, Ledger, Query, Recording, SearchResult,
    SessionJournal,
};
use model::chain::Chain;
use model::image_claims::ImageClaims;
use model::intercept::Intercepted;
use model::ports::files::FileError;
use node::NodeHandle;
use process::version::FERROLET;
use tokio_util::sync::CancellationToken;

use crate::wiring::{ClusterPorts, Ports, Settings};

/// How long a search of the journal may take.
const SEARCH: Duration = Duration::from_secs(30);

/// The journal and its writers.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) journal: Arc<DiskJournal>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) sessions: Arc<SessionJournal>,
    pub(crate) incidents: Arc<IncidentJournal>,
    checks: Arc<ExistenceChecks>,
    recording: Arc<Recording>,
    /// Images that must not be removed.
    claims: ImageClaims,
}

impl Records {
    /// Opens the journal.
    pub(crate) fn new(settings: &Settings, ports: &Ports) -> Self {
        let (segments, clock) = (Arc::clone(&ports.journal), Arc::clone(&ports.clock));
        let bytes = settings.journal_bytes;
        let sessions = SessionJournal::new(&*segments, Arc::clone(&clock), FERROLET, bytes);
        let incidents = IncidentJournal::new(&*segments, Arc::clone(&clock), FERROLET, bytes);
        let (sessions, incidents) = (Arc::new(sessions), Arc::new(incidents));
        let journal = DiskJournal::new(segments, clock, FERROLET, bytes);
        let journal = Arc::new(journal);
        let ledger = Ledger::new(Arc::clone(&journal) as _, &ports.metrics);
        let ledger = Arc::new(ledger.expect("a new registry has no metrics yet"));
        let checks = Arc::new(ExistenceChecks {
            runtime: Some(ports.runtime.clone()),
            files: Some(Arc::clone(&ports.files)),
            cgroups: ports.cgroups.clone(),
        });
        let claims = ImageClaims::default();
        let recording = Arc::new(Recording::new(Arc::clone(&ledger), claims.clone()));
        Self { journal, ledger, sessions, incidents, checks, recording, claims }
    }

    /// Makes the ports record every removal: no part of the agent can remove anything without a
    /// record.
    pub(crate) fn recorded(&self, ports: Ports) -> Ports {
        let recording = &self.recording;
        Ports {
            runtime: ports.runtime.intercepted(recording),
            files: Arc::new(Intercepted::new(ports.files, recording)),
            cgroups: ports.cgroups.map(|inner| Arc::new(Intercepted::new(inner, recording)) as _),
            cluster: ports.cluster.map(|cluster| ClusterPorts {
                pod_writes: Arc::new(Intercepted::new(cluster.pod_writes, recording)),
                ..cluster
            }),
            ..ports
        }
    }

    /// The claims on images that its runtime honours; the node is notified when images are added or
    /// removed.
    pub(crate) fn claims(&self, node: Option<&NodeHandle>) -> ImageClaims {
        let claims = self.claims.clone();
        match node {
            Some(node) => claims.with_listener(Arc::new(node.clone())),
            None => claims,
        }
    }

    /// Syncs the journal, and records the removals that were in progress when an earlier agent was killed.
    pub(crate) fn keep(&self, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
        let sessions = self.sessions.keep(stop.clone());
        let incidents = self.incidents.keep(stop.clone());
        let removals = Arc::clone(&self.checks).keep(Arc::clone(&self.journal), stop.clone());
        let series = Arc::clone(&self.recording).keep(stop);
        async move {
            tokio::join!(removals, series, sessions, incidents);
        }
    }
}

/// Answers from the journal, on threads that nothing else waits for.
#[derive(Debug)]
pub(crate) struct JournalView {
    journal: Arc<DiskJournal>,
    sessions: Arc<SessionJournal>,
    incidents: Arc<IncidentJournal>,
    pool: Pool,
}

impl JournalView {
    pub(crate) fn new(records: &Records) -> Self {
        let (journal, sessions) = (Arc::clone(&records.journal), Arc::clone(&records.sessions));
        let incidents = Arc::clone(&records.incidents);
        let pool = Pool::new("journal", Size { threads: 2, spare: 2 });
        Self { journal, sessions, incidents, pool }
    }

    /// Runs a search, and reports why it failed.
    async fn search(
        &self,
        search: impl FnOnce() -> Result<SearchResult, FileError> + Send + 'static,
    ) -> Result<SearchResult, String> {
        let subject = Path::new("the journal");
        let call = Call { operation: "search", subject, limit: SEARCH };
        let found = self.pool.run(call, search).await;
        let found = found.map_err(|error| error.to_string())?;
        found.map_err(|error: FileError| Chain(&error).to_string())
    }
}

#[async_trait]
impl server::Removals for JournalView {
    async fn why(&self, query: Query, limit: usize) -> Result<SearchResult, String> {
        let (journal, sessions) = (Arc::clone(&self.journal), Arc::clone(&self.sessions));
        let search =
            move || Ok(journal.find(&query, limit)?.merged_with(sessions.find(&query, limit)?));
        self.search(search).await
    }

    async fn history(&self, query: Query, limit: usize) -> Result<SearchResult, String> {
        let (journal, sessions) = (Arc::clone(&self.journal), Arc::clone(&self.sessions));
        let incidents = Arc::clone(&self.incidents);
        let search = move || {
            let removals = journal.find(&query, limit)?;
            let found = removals.merged_with(sessions.find(&query, limit)?);
            Ok(found.merged_with(incidents.find(&query, limit)?))
        };
        self.search(search).await
    }
}

//! Garbage collection with results set by a test.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use jiff::Timestamp;
use journal::{
    DiskJournal, IncidentJournal, Inputs, Query, SMALLEST, SearchResult, find, find_incidents,
};
use model::ports::incidents::{Incident, IncidentRecord as _};
use model::ports::journal::{Journal as _, Outcome};
use model::verdict::Verdict;
use server::wire::{EvictPlan, GcItem, GcLine, GcPlan, GcSource, GcVerdict};
use server::{Collector, EvictionView, Removals};
use testkit::clock::VirtualClock;
use testkit::segments::MemorySegments;

/// The journal, the plan, and the lines of a pass.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    segments: MemorySegments,
    pub(crate) items: Mutex<Vec<GcItem>>,
    pub(crate) problems: Mutex<Vec<String>>,
    pub(crate) lines: Mutex<Vec<GcLine>>,
}

impl Garbage {
    /// Records a removal.
    pub(crate) fn removed(&self, verdict: &Verdict) {
        let (segments, clock) = (Arc::new(self.segments.clone()), Arc::new(VirtualClock::new()));
        DiskJournal::new(segments, clock, "0.1.0", SMALLEST).record(verdict, Outcome::Removed);
    }
}

impl Garbage {
    /// Records an incident.
    pub(crate) fn happened(&self, incident: Incident) {
        let clock = Arc::new(VirtualClock::new());
        IncidentJournal::new(&self.segments, clock, "0.1.0", SMALLEST).record_incident(incident);
    }
}

/// An item of a plan.
pub(crate) fn item(kind: &str, id: &str, verdict: GcVerdict, rule: &str, detail: &str) -> GcItem {
    GcItem {
        kind: kind.to_owned(),
        id: id.to_owned(),
        name: if kind == "container" { "main".to_owned() } else { String::new() },
        pod: (kind != "image").then(|| "default/web".to_owned()),
        pod_uid: (kind != "image").then(|| "u1".to_owned()),
        verdict,
        rule: rule.to_owned(),
        detail: serde_json::from_str::<Inputs>(detail).unwrap(),
    }
}

#[async_trait]
impl Removals for Garbage {
    async fn why(&self, query: Query, limit: usize) -> Result<SearchResult, String> {
        find(&self.segments, &query, limit).map_err(|error| error.to_string())
    }

    async fn history(&self, query: Query, limit: usize) -> Result<SearchResult, String> {
        let found = self.why(query.clone(), limit).await?;
        let incidents = find_incidents(&self.segments, &query, limit);
        Ok(found.merged_with(incidents.map_err(|error| error.to_string())?))
    }
}

#[async_trait]
impl Collector for Garbage {
    async fn plan(&self) -> GcPlan {
        GcPlan {
            generated_at: Timestamp::UNIX_EPOCH,
            source: GcSource::Agent,
            policy: Inputs::default(),
            items: self.items.lock().unwrap().clone(),
            warnings: Vec::new(),
            problems: self.problems.lock().unwrap().clone(),
        }
    }

    async fn run(&self) -> BoxStream<'static, GcLine> {
        stream::iter(std::mem::take(&mut *self.lines.lock().unwrap())).boxed()
    }
}

#[async_trait]
impl EvictionView for Garbage {
    async fn plan(&self) -> EvictPlan {
        let problems = self.problems.lock().unwrap().clone();
        EvictPlan { layout: Some("split".to_owned()), problems, ..EvictPlan::default() }
    }
}

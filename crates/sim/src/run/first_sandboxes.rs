//! Since when pods may be thought to run.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use model::ids::{PodUid, SandboxId};

use crate::history::{Event, Record};
use crate::outside::Outside;

/// When the sandboxes of each pod were made. The first may be gone long before its pod; and where the clock was
/// set back, the pod is thought to run since one that was made afterwards, of a later life.
#[derive(Debug, Default)]
pub(super) struct FirstSandboxes(BTreeMap<PodUid, BTreeMap<SandboxId, Duration>>);

impl FirstSandboxes {
    /// Takes the next records in.
    pub(super) fn read(&mut self, records: &[Record]) {
        for record in records {
            if let Event::Sandbox(id, uid, _) = &record.event {
                self.0.entry(uid.clone()).or_default().entry(id.clone()).or_insert(record.at);
            }
        }
    }

    /// The longest time that each pod may ever have been thought to run, by the clock of the node.
    pub(super) fn longest(&self, outside: &Outside) -> BTreeMap<PodUid, SignedDuration> {
        let longest = |made: &BTreeMap<_, Duration>| {
            made.values().map(|since| outside.longest_age(*since)).max().unwrap_or_default()
        };
        self.0.iter().map(|(uid, made)| (uid.clone(), longest(made))).collect()
    }
}

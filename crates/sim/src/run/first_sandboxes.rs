//! Since when pods may be thought to run.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use model::ids::PodUid;

use crate::history::{Event, Record};
use crate::outside::Outside;

/// When the first sandbox of each pod was made. It may be gone long before its pod.
#[derive(Debug, Default)]
pub(super) struct FirstSandboxes(BTreeMap<PodUid, Duration>);

impl FirstSandboxes {
    /// Takes the next records in.
    pub(super) fn read(&mut self, records: &[Record]) {
        for record in records {
            if let Event::Sandbox(_, uid, _) = &record.event {
                self.0.entry(uid.clone()).or_insert(record.at);
            }
        }
    }

    /// The longest time that each pod may ever have been thought to run, by the clock of the node.
    pub(super) fn longest(&self, outside: &Outside) -> BTreeMap<PodUid, SignedDuration> {
        self.0.iter().map(|(uid, since)| (uid.clone(), outside.longest_age(*since))).collect()
    }
}

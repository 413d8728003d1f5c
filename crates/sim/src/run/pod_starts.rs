//! The possible start times of pods.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use model::ids::{PodUid, SandboxId};

use crate::history::{Event, Record};
use crate::outside::Outside;

/// The time since when each pod is wanted, and when its sandboxes were created. The first sandbox may be
/// removed long before its pod; and if the clock was set back, the start time may be that of a later
/// sandbox, of a later life.
#[derive(Debug, Default)]
pub(super) struct PodStarts {
    wanted: BTreeMap<PodUid, Duration>,
    made: BTreeMap<PodUid, BTreeMap<SandboxId, Duration>>,
}

impl PodStarts {
    /// Processes the next records.
    pub(super) fn read(&mut self, records: &[Record]) {
        for record in records {
            match &record.event {
                Event::Sandbox(id, uid, _) => {
                    let made = self.made.entry(uid.clone()).or_default();
                    made.entry(id.clone()).or_insert(record.at);
                }
                Event::Wanted(uid, _) => {
                    self.wanted.entry(uid.clone()).or_insert(record.at);
                }
                Event::Unwanted(uid) => {
                    self.wanted.remove(uid);
                }
                _ => {}
            }
        }
    }

    /// The longest time that each pod may have run, by the clock of the node.
    pub(super) fn longest(&self, outside: &Outside) -> BTreeMap<PodUid, SignedDuration> {
        let longest = |made: &BTreeMap<_, Duration>| {
            made.values().map(|since| outside.longest_age(*since)).max().unwrap_or_default()
        };
        self.made.iter().map(|(uid, made)| (uid.clone(), longest(made))).collect()
    }

    /// The time since each pod was first wanted.
    pub(super) fn wanted_for(&self, outside: &Outside) -> BTreeMap<PodUid, SignedDuration> {
        let age = |since: &Duration| outside.longest_age(*since);
        self.wanted.iter().map(|(uid, since)| (uid.clone(), age(since))).collect()
    }
}

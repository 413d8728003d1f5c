//! Logs.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::PodUid;
use model::log_layout::LogLayout;

use super::Invariant;
use super::caps::CAPS;
use super::removals::{BY_WORKERS, LOGS, PATIENCE};
use crate::history::{Event, ObjectRef, Record};

/// The logs of a wanted pod are kept, whether or not it has finished. Logs beyond a cap are removed with their
/// containers, and so are objects that block the pod's own worker.
#[derive(Debug, Default)]
pub(super) struct LogsStay {
    wanted: BTreeMap<PodUid, Duration>,
}

impl LogsStay {
    fn removed(&self, path: &str, rule: &str, now: Duration) -> Result<(), String> {
        let Some(below) = path.strip_prefix(LOGS) else { return Ok(()) };
        let (directory, file) = below.split_once('/').unwrap_or((below, ""));
        let uid = LogLayout::pod_of_directory(directory);
        let is_wanted = self.wanted.get(&uid).is_some_and(|since| now >= *since + PATIENCE);
        let may_go = !file.is_empty() && (CAPS.contains(&rule) || BY_WORKERS.contains(&rule));
        if is_wanted && !may_go {
            return Err(format!("{path} is removed by {rule}, and its pod is wanted"));
        }
        Ok(())
    }
}

impl Invariant for LogsStay {
    fn sentence(&self) -> &'static str {
        "the logs of a wanted pod are kept, except beyond the caps"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, _) => {
                self.wanted.entry(uid.clone()).or_insert(record.at);
            }
            Event::Unwanted(uid) => drop(self.wanted.remove(uid)),
            Event::RemovalBegan(ObjectRef { kind, id }, rule) if kind == "log" => {
                return self.removed(id, rule, record.at);
            }
            _ => {}
        }
        Ok(())
    }
}

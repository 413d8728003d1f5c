//! Why a container was killed and restarted, from the agent's journal.

use jiff::Timestamp;
use journal::{Entry, EntryOutcome};

use super::text::Text;
use crate::commands::why::facts::lines;

/// How many entries of a container are shown.
const MOST: usize = 3;

/// The newest kills and restarts of a container, the newest first.
pub(super) fn describe_history(
    text: &mut Text,
    container: &str,
    incidents: &[Entry],
    now: Timestamp,
) {
    let own = incidents.iter().filter(|entry| entry.name == container && is_incident(entry));
    let own: Vec<Entry> = own.take(MOST).cloned().collect();
    if own.is_empty() {
        return;
    }
    text.label(4, "Restart History");
    for line in lines(&own, now, false) {
        text.value(6, &line);
    }
}

pub(super) fn is_incident(entry: &Entry) -> bool {
    matches!(entry.outcome, EntryOutcome::Killed | EntryOutcome::Restarted)
}

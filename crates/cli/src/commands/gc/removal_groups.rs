//! Removals that belong together: of one pod, for the same reason, at about the same time.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use journal::{Entry, EntryOutcome};
use status::decide::human_duration;

use super::rule_texts::{counted, inputs, reason};
use super::why::{MOMENT, Removal, named};
use crate::commands::table::clean;

/// The longest time between two removals of a group: one pass.
const APART: SignedDuration = SignedDuration::from_secs(60);

/// The names of pods by UID: some entries only have the UID.
#[derive(Debug, Default)]
pub(super) struct PodNames<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> PodNames<'a> {
    pub(super) fn of(entries: &'a [Entry]) -> Self {
        let named = |entry: &'a Entry| Some((entry.pod_uid.as_deref()?, entry.pod.as_deref()?));
        Self(entries.iter().filter_map(named).collect())
    }

    /// The pod of an entry: its name, or else its UID.
    pub(super) fn pod_of(&self, entry: &'a Entry) -> Option<&'a str> {
        let uid = entry.pod_uid.as_deref();
        let known = uid.and_then(|uid| self.0.get(uid).copied());
        entry.pod.as_deref().or(known).or(uid)
    }
}

/// Groups neighbours.
pub(super) fn grouped(removals: Vec<Removal<'_>>) -> Vec<Vec<Removal<'_>>> {
    let mut groups: Vec<Vec<Removal<'_>>> = Vec::new();
    for removal in removals {
        let last = groups.last_mut().filter(|group| {
            group.last().is_some_and(|other| belong_together(other.entry, removal.entry))
        });
        match last {
            Some(group) => group.push(removal),
            None => groups.push(vec![removal]),
        }
    }
    groups
}

fn belong_together(one: &Entry, other: &Entry) -> bool {
    let is_plain = |entry: &Entry| entry.outcome == EntryOutcome::Removed && entry.kind != "pod";
    let why = |entry: &Entry| reason(&entry.rule, &entry.detail);
    is_plain(one)
        && is_plain(other)
        && one.pod_uid.is_some()
        && (&one.pod_uid, &one.rule) == (&other.pod_uid, &other.rule)
        && one.time.duration_since(other.time).abs() <= APART
        && why(one) == why(other)
}

/// Formats a group: a summary line, the rule, and a line for each item.
pub(super) fn group_text(group: &[Removal<'_>], names: &PodNames<'_>, now: Timestamp) -> String {
    let Some(newest) = group.first().map(|removal| removal.entry) else { return String::new() };
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for removal in group {
        *kinds.entry(kind(removal.entry)).or_default() += 1;
        for log in removal.removed_logs() {
            *kinds.entry(kind(log)).or_default() += 1;
        }
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| counted(*count, kind)).collect();
    let ago = human_duration(now.duration_since(newest.time).max(SignedDuration::ZERO));
    let mut lines = vec![format!(
        "{} of pod {} were removed {ago} ago, at {}: {}.",
        kinds.join(", "),
        names.pod_of(newest).unwrap_or_default(),
        newest.time.strftime(MOMENT),
        reason(&newest.rule, &newest.detail),
    )];
    let has_same = group.iter().all(|removal| removal.entry.detail == newest.detail);
    let numbers = if has_same { inputs(&newest.detail) } else { String::new() };
    let gap = if numbers.is_empty() { "" } else { ": " };
    lines.push(format!("  rule:  {}{gap}{numbers}", newest.rule));
    for removal in group {
        lines.push(format!("  {}", item(removal.entry)));
        lines.extend(removal.removed_logs().map(|log| format!("    with {}", item(log))));
    }
    lines.iter().map(|line| clean(line) + "\n").collect()
}

fn kind(entry: &Entry) -> &str {
    if entry.kind == "pod-directory" { "directory" } else { &entry.kind }
}

/// A log or directory by its path, anything else by name and id.
fn item(entry: &Entry) -> String {
    if entry.id.starts_with('/') {
        return format!("{} {}", kind(entry), entry.id);
    }
    named(&entry.kind, &entry.name, &entry.id)
}

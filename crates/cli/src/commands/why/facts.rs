//! Entries of the journal as lines: what happened to a container or pod, and why.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use journal::{Entry, EntryOutcome, Inputs};

use super::evictions::eviction;
use crate::commands::gc::rule_texts::{bytes_text, inputs, reason};
use crate::commands::gc::why::{named, together};
use crate::commands::table::clean;

/// Why containers were killed or restarted, by rule.
const RULES: &[(&str, &str)] = &[
    ("definition-changed", "its definition changed"),
    ("resize", "its resources changed, and its resizePolicy asks for a restart"),
    ("unknown-state", "the runtime reported its state as unknown"),
    ("newer-instance", "a newer instance took its place"),
    ("pod-deleted", "the pod was deleted"),
    ("pod-removed", "no source lists the pod any more"),
    ("orphaned", "the pod was orphaned: only the container runtime had it"),
    ("pod-finished", "the pod has finished"),
    ("preempted", "the pod was preempted for a critical pod"),
    ("deadline-exceeded", "the pod exceeded its active deadline"),
    ("evicted", "the pod was evicted"),
    ("pod-failed", "the pod failed"),
    ("sandbox-changed", "the sandbox of the pod cannot be used any more"),
    ("init-container-failed", "an init container failed"),
    ("outside-cgroup", "it ran outside the cgroup of its pod"),
    ("restart-all-containers", "all containers of the pod restart"),
    ("post-start-hook-failed", "its postStart hook failed"),
    ("no-instance", "the runtime had no instance of it any more"),
];

/// Why images were pulled, by rule.
const PULLS: &[(&str, &str)] = &[
    ("image-absent", "it was not present"),
    ("pull-policy-always", "the pull policy is Always"),
    ("access-unproven", "it was present, and the pod had to prove its access"),
];

/// The rule of restarts after an exit.
const EXIT: &str = "exit";

/// Reasons of exits that the exit code shows too.
const PLAIN_REASONS: [&str; 2] = ["Error", "Completed"];

/// A line for each entry, in their order. Logs that were removed with their container have no line. Pods are named
/// if there are several.
pub(super) fn facts(entries: &[Entry], now: Timestamp) -> Vec<String> {
    let pods: BTreeSet<&str> = entries.iter().filter_map(|entry| entry.pod.as_deref()).collect();
    lines(entries, now, pods.len() > 1)
}

/// Like `facts`, with or without the names of pods.
pub(in crate::commands) fn lines(
    entries: &[Entry],
    now: Timestamp,
    names_pods: bool,
) -> Vec<String> {
    let line = |entry: &Entry| {
        let subject = Subject { entry, names_pods };
        clean(&format!("{} {}", shown_time(entry.time, now), subject.fact()))
    };
    together(entries).iter().map(|removal| line(removal.entry)).collect()
}

/// Drops the lines beyond the limit; whether there were any.
pub(in crate::commands) fn is_more(lines: &mut Vec<String>, limit: usize) -> bool {
    let more = lines.len() > limit;
    lines.truncate(limit);
    more
}

/// The time in UTC; without the date if that is today's.
fn shown_time(time: Timestamp, now: Timestamp) -> String {
    let date = |time: Timestamp| time.to_zoned(TimeZone::UTC).date();
    let format = if date(time) == date(now) { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    time.strftime(format).to_string()
}

/// An entry, and whether its pod must be named because the entries are about several pods.
struct Subject<'a> {
    entry: &'a Entry,
    names_pods: bool,
}

impl Subject<'_> {
    /// What happened.
    fn fact(&self) -> String {
        let Entry { rule, detail, .. } = self.entry;
        match (self.entry.outcome, self.entry.kind.as_str()) {
            (EntryOutcome::Killed, "oom") => {
                format!("{} killed by the kernel: {}", self.container(), out_of_memory(detail))
            }
            (EntryOutcome::Killed, _) => {
                format!("{} killed: {}", self.container(), kill(rule, detail))
            }
            (EntryOutcome::Restarted, _) => {
                format!("{} restarted: {}", self.container(), restart(rule, detail))
            }
            (EntryOutcome::Rejected, _) => {
                let message = detail.text("message").unwrap_or_default();
                format!("{} rejected: {rule}: {message}", self.pod())
            }
            (EntryOutcome::Evicted, _) => {
                format!("{} evicted: {}", self.pod(), eviction(rule, detail))
            }
            (EntryOutcome::Pulled, _) => self.pull(),
            (EntryOutcome::Opened | EntryOutcome::Refused, _) => self.session(),
            _ => self.removal(),
        }
    }

    fn of_pod(&self) -> String {
        let pod = self.entry.pod.as_ref().filter(|_| self.names_pods);
        pod.map(|pod| format!(" of pod {pod}")).unwrap_or_default()
    }

    fn container(&self) -> String {
        format!("container {}{}", self.entry.name, self.of_pod())
    }

    fn pod(&self) -> String {
        let pod = self.entry.pod.as_ref().filter(|_| self.names_pods);
        pod.map_or("pod".to_owned(), |pod| format!("pod {pod}"))
    }

    /// `image a:1 (0123456789abc) pulled for container main: it was not present; with secret shop/key, 20MB in 2s`.
    fn pull(&self) -> String {
        let Entry { name, id, rule, detail, .. } = self.entry;
        let container = detail.text("container").unwrap_or_default();
        let why = PULLS.iter().find(|(known, _)| *known == rule);
        let why = why.map_or(rule.as_str(), |(_, text)| *text);
        let with = match detail.text("credential").as_deref() {
            None | Some("none") => "without credentials".to_owned(),
            Some("node") => "with credentials of the node".to_owned(),
            Some(source) => format!("with {source}"),
        };
        let size = detail.get("size").and_then(serde_json::Value::as_u64);
        let size = size.map(|size| format!("{} ", bytes_text(size))).unwrap_or_default();
        let took = detail.text("took").unwrap_or_default();
        let image = named("image", name, id);
        let of_pod = self.of_pod();
        format!("{image} pulled for container {container}{of_pod}: {why}; {with}, {size}in {took}")
    }

    fn session(&self) -> String {
        let Entry { kind, detail, outcome, .. } = self.entry;
        let user = detail.text("user").unwrap_or_default();
        let target = match self.entry.name.as_str() {
            "" => self.pod(),
            _ => self.container(),
        };
        let done = if *outcome == EntryOutcome::Refused { "was refused" } else { "opened" };
        let mut text = format!("{user} {done} {kind} to {target}");
        let rest = Inputs(detail.0.iter().filter(|(name, _)| name != "user").cloned().collect());
        if !rest.0.is_empty() {
            text = format!("{text}: {rest}");
        }
        with_error(text, self.entry)
    }

    fn removal(&self) -> String {
        let Entry { kind, name, id, rule, detail, .. } = self.entry;
        let thing = match kind.as_str() {
            "pod" => self.pod(),
            _ => named(kind, name, id) + &self.of_pod(),
        };
        let went = match self.entry.outcome {
            EntryOutcome::Gone => "was gone before its removal",
            EntryOutcome::Held => "deleted, held by finalizers",
            EntryOutcome::Failed => "could not be removed",
            EntryOutcome::Unknown => "may be removed",
            _ => "removed",
        };
        let why = reason(rule, detail);
        with_error(format!("{thing} {went}: {why} ({rule})"), self.entry)
    }
}

fn with_error(text: String, entry: &Entry) -> String {
    match &entry.error {
        Some(error) => format!("{text}; error: {error}"),
        None => text,
    }
}

fn number(detail: &Inputs, name: &str) -> Option<i64> {
    detail.get(name)?.as_i64()
}

/// Why a container was killed, with its grace period.
fn kill(rule: &str, detail: &Inputs) -> String {
    let why = probe(rule, detail).or_else(|| known(rule));
    let why = why.unwrap_or_else(|| unknown(rule, detail));
    match detail.text("gracePeriod") {
        Some(grace) => format!("{why}; grace {grace}"),
        None => why,
    }
}

/// `liveness probe failed 3 times in a row (threshold 3, every 10s): HTTP probe failed with statuscode: 500`.
fn probe(rule: &str, detail: &Inputs) -> Option<String> {
    let kind = rule.strip_suffix("-probe")?;
    let failures = number(detail, "failures")?;
    let (threshold, period) = (number(detail, "threshold")?, detail.text("period")?);
    let count = match failures {
        1 => "failed".to_owned(),
        _ => format!("failed {failures} times in a row"),
    };
    let text = format!("{kind} probe {count} (threshold {threshold}, every {period})");
    match detail.text("output") {
        Some(output) => Some(format!("{text}: {output}")),
        None => Some(text),
    }
}

fn known(rule: &str) -> Option<String> {
    if let Some(kind) = rule.strip_suffix("-probe") {
        return Some(format!("its {kind} probe failed"));
    }
    RULES.iter().find(|(known, _)| *known == rule).map(|(_, text)| (*text).to_owned())
}

/// The rule and the numbers of a kill that this version has no text for.
fn unknown(rule: &str, detail: &Inputs) -> String {
    match inputs(detail) {
        numbers if numbers.is_empty() => rule.to_owned(),
        numbers => format!("{rule} ({numbers})"),
    }
}

/// `exit code 1, restart 4, after a back-off of 40s`.
fn restart(rule: &str, detail: &Inputs) -> String {
    let mut parts = Vec::new();
    if rule != EXIT {
        parts.push(known(rule).unwrap_or_else(|| rule.to_owned()));
    }
    parts.extend(exit(detail));
    parts.extend(number(detail, "restartCount").map(|count| format!("restart {count}")));
    parts.extend(detail.text("backOff").map(|waited| format!("after a back-off of {waited}")));
    parts.join(", ")
}

fn exit(detail: &Inputs) -> Option<String> {
    let code = number(detail, "exitCode")?;
    let reason = detail.text("reason").filter(|reason| !PLAIN_REASONS.contains(&&**reason));
    let signal = number(detail, "signal").map(|signal| format!("signal {signal}"));
    let more: Vec<String> = signal.into_iter().chain(reason).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    Some(format!("exit code {code}{more}"))
}

fn out_of_memory(detail: &Inputs) -> String {
    match number(detail, "memoryLimit") {
        Some(limit) => format!("out of memory (limit {})", quantity(limit)),
        None => "out of memory".to_owned(),
    }
}

/// Bytes as a pod specifies them: `64Mi`.
fn quantity(bytes: i64) -> String {
    let units = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let unit = units.into_iter().find(|(size, _)| bytes > 0 && bytes % size == 0);
    unit.map_or(bytes.to_string(), |(size, unit)| format!("{}{unit}", bytes / size))
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;

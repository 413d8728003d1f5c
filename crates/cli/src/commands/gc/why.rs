//! `ferrolet gc why`.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ferrolet::run::JOURNAL;
use hostfs::HostSegments;
use jiff::{SignedDuration, Timestamp};
use journal::{Entry, EntryOutcome, Query, QueryTarget, find, find_sessions, was_removed_with};
use model::ports::clock::WallClock as _;
use process::clock::SystemClock;
use server::wire::{GcItem, GcPlan, GcVerdict, WhyAnswer};
use status::decide::human_duration;

use super::Output;
use super::removal_groups::{PodNames, group_text, grouped};
use super::rule_texts::{inputs, reason, short_id};
use crate::commands::Place;
use crate::commands::agent::{AgentClient, AgentError};
use crate::commands::table::clean;

/// The format of times in texts.
pub(super) const MOMENT: &str = "%Y-%m-%d %H:%M:%S UTC";

/// The arguments of `gc why`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The name of a container, pod (NAME or NAMESPACE/NAME) or image, an id or the beginning of one,
    /// or the path of a log.
    #[arg(value_name = "NAME|ID|IMAGE", value_parser = named_in)]
    pub what: String,
    /// The maximum number of removals, and of sessions, the newest first.
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

/// The name in the query. An empty name matches nothing.
pub(crate) fn named_in(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("it names nothing") } else { Ok(text.to_owned()) }
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    why(&args.place.agent(), args, SystemClock.now(), &mut io::stdout()).await
}

/// Writes what was removed and why; an error if nothing is known.
pub async fn why(
    agent: &AgentClient,
    args: &Args,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<()> {
    let (what, limit) = (args.what.as_str(), usize::from(args.limit));
    let (mut answer, runs) = match agent.gc_why(what, limit).await {
        Ok(answer) => (answer, true),
        // The journal can be read without an agent.
        Err(AgentError::NoAgent(_)) => {
            (from_files(args.place.root_dir.join(JOURNAL), what, limit)?, false)
        }
        Err(error) => return Err(error.into()),
    };
    report_damage(&answer);
    let found = !answer.found.entries.is_empty();
    let there = match runs {
        false => Existing::unavailable("no agent runs here"),
        // A removal answers the question.
        true if found && args.output.is_none() => Existing::default(),
        true => existing_items(agent, what).await,
    };
    if let Some(output) = args.output {
        answer.found.problems.extend(there.missing.clone().filter(|_| runs));
        out.write_all(output.text(&Answer::new(&answer, &there))?.as_bytes())?;
    } else {
        out.write_all(answer_text(&answer, now).as_bytes())?;
    }
    if found {
        return Ok(());
    }
    let head = format!("nothing called {what:?} was removed");
    bail!("{}", unknown(&head, &answer, &there))
}

/// The answer as an object.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    #[serde(flatten)]
    answer: &'a WhyAnswer,
    /// The existing items of that name or id, from the plan; null if they are unknown.
    still_there: Option<&'a [GcItem]>,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(answer: &'a WhyAnswer, there: &'a Existing) -> Self {
        Self { answer, still_there: there.items.as_deref() }
    }
}

/// Reads the journal that an agent left.
fn from_files(journal: PathBuf, what: &str, limit: usize) -> Result<WhyAnswer> {
    let place = journal.display().to_string();
    let answer = read(journal, what, limit)?;
    answer.with_context(|| format!("there is no journal in {place}, and no agent runs there"))
}

/// Reads a journal, if there is one. It is created at the end of the first removal; before, there may be an entry
/// for a removal in progress.
pub(crate) fn read(journal: PathBuf, what: &str, limit: usize) -> Result<Option<WhyAnswer>> {
    let there = journal.try_exists().with_context(|| format!("look at {}", journal.display()))?;
    let segments = HostSegments::new(journal);
    let query = Query::new(what);
    let found = find(&segments, &query, limit).context("read the journal")?;
    let sessions = find_sessions(&segments, &query, limit).context("read the journal")?;
    let found = found.merged_with(sessions);
    let there = there || !found.entries.is_empty();
    Ok(there.then(|| WhyAnswer { what: what.to_owned(), found }))
}

/// Reports damage on standard error, so that standard output contains only the answer.
pub(crate) fn report_damage(answer: &WhyAnswer) {
    for problem in &answer.found.problems {
        eprintln!("ferrolet: a part of the journal cannot be read: {problem}");
    }
    if answer.found.damaged > 0 {
        eprintln!("ferrolet: {} entries of the journal are damaged", answer.found.damaged);
    }
}

/// The existing items of a name or id, from the plan.
#[derive(Debug, Default)]
pub(crate) struct Existing {
    /// The items; `None` if they are unknown.
    items: Option<Vec<GcItem>>,
    /// Why some or all items may be missing.
    pub(crate) missing: Option<String>,
}

impl Existing {
    pub(crate) fn unavailable(why: &str) -> Self {
        Self { items: None, missing: Some(format!("existing items are unknown: {why}")) }
    }

    /// The known items.
    pub(crate) fn items(&self) -> impl Iterator<Item = &GcItem> {
        self.items.iter().flatten()
    }

    /// The images among them.
    pub(crate) fn of_images(mut self) -> Self {
        self.items.iter_mut().for_each(|items| items.retain(|item| item.kind == "image"));
        self
    }

    /// The matching items of a plan. A plan with problems is incomplete.
    fn of_plan(plan: GcPlan, what: &str) -> Self {
        let query = Query::new(what);
        let is_meant = |item: &GcItem| {
            let thing = QueryTarget {
                id: &item.id,
                name: &item.name,
                pod: item.pod.as_deref().unwrap_or_default(),
                uid: item.pod_uid.as_deref().unwrap_or_default(),
                is_image: item.kind == "image",
            };
            query.matches_any_name(&thing, &item.detail).is_some()
        };
        let items: Vec<GcItem> = plan.items.into_iter().filter(is_meant).collect();
        let problems = clean(&plan.problems.join("; "));
        match (items.is_empty(), problems.is_empty()) {
            (_, true) => Self { items: Some(items), missing: None },
            (true, false) => Self::unavailable(&problems),
            (false, false) => {
                let missing = format!("some items could not be listed: {problems}");
                Self { items: Some(items), missing: Some(missing) }
            }
        }
    }
}

pub(crate) async fn existing_items(agent: &AgentClient, what: &str) -> Existing {
    match agent.gc_plan().await {
        Ok(plan) => Existing::of_plan(plan, what),
        Err(error) => Existing::unavailable(&format!("{:#}", anyhow::Error::from(error))),
    }
}

/// The time of the oldest journal entry, printed when no entry matches.
pub(crate) fn journal_range(answer: &WhyAnswer) -> String {
    let to = answer
        .found
        .since
        .map_or("it has no entries".to_owned(), |since| format!("to {}", since.strftime(MOMENT)));
    format!("as far as the journal goes back ({to})")
}

pub(crate) fn unknown(head: &str, answer: &WhyAnswer, there: &Existing) -> String {
    let mut text = format!("{head}, {}", journal_range(answer));
    if let Some(missing) = &there.missing {
        text.push_str("; ");
        text.push_str(missing);
    }
    for item in there.items() {
        text.push_str("\n  ");
        text.push_str(&existing_text(item));
    }
    text
}

/// What the next pass does with an item, and by which rule.
pub(crate) fn existing_text(item: &GcItem) -> String {
    let of = item.pod.as_ref().map(|pod| format!(" of pod {pod}")).unwrap_or_default();
    let will = match item.verdict {
        GcVerdict::Remove => "exists, and the next pass removes it",
        GcVerdict::Keep => "exists and is kept",
    };
    let thing = named(&item.kind, &item.name, &item.id);
    let why = reason(&item.rule, &item.detail);
    clean(&format!("{thing}{of} {will}: {why} ({})", item.rule))
}

/// An item by its kind, name and id.
pub(crate) fn named(kind: &str, name: &str, id: &str) -> String {
    let kind = if kind == "pod-directory" { "directory" } else { kind };
    match name {
        "" => format!("{kind} {}", short_id(id)),
        name => format!("{kind} {name} ({})", short_id(id)),
    }
}

/// The answer as text.
pub(crate) fn answer_text(answer: &WhyAnswer, now: Timestamp) -> String {
    let mut text = String::new();
    let names = PodNames::of(&answer.found.entries);
    for group in grouped(together(&answer.found.entries)) {
        match &*group {
            [one] => text.push_str(&sentence(one, &names, now)),
            group => text.push_str(&group_text(group, &names, now)),
        }
    }
    if answer.found.more {
        text.push_str("There are older ones; --limit shows more.\n");
    }
    text
}

/// A removal with the logs and links that were removed with it.
pub(crate) struct Removal<'a> {
    pub(crate) entry: &'a Entry,
    /// Logs and links of a container, which are removed before it by the same rule.
    logs: Vec<&'a Entry>,
}

impl<'a> Removal<'a> {
    /// The logs and links that are gone, the oldest first.
    pub(super) fn removed_logs(&self) -> impl Iterator<Item = &'a Entry> {
        self.logs.iter().rev().copied().filter(|log| log.outcome == EntryOutcome::Removed)
    }
}

/// Groups logs with the container for which they were removed.
pub(crate) fn together(entries: &[Entry]) -> Vec<Removal<'_>> {
    let mut removals: Vec<Removal<'_>> = Vec::new();
    for entry in entries {
        let of = |removal: &&mut Removal<'_>| was_removed_with(entry, removal.entry);
        match removals.iter_mut().rev().find(of) {
            Some(removal) => removal.logs.push(entry),
            None => removals.push(Removal { entry, logs: Vec::new() }),
        }
    }
    removals
}

/// What happened, when and why; then the rule with its numbers.
fn sentence(removal: &Removal<'_>, names: &PodNames<'_>, now: Timestamp) -> String {
    let entry = removal.entry;
    let is_pod = entry.kind == "pod";
    let thing = match &entry.pod {
        Some(pod) if is_pod => format!("pod {pod}"),
        _ => named(&entry.kind, &entry.name, &entry.id),
    };
    let pod = names.pod_of(entry).filter(|_| !is_pod);
    let of = pod.map(|pod| format!(" of pod {pod}")).unwrap_or_default();
    let went = match entry.outcome {
        EntryOutcome::Removed => "was removed",
        EntryOutcome::Gone => "was to be removed, but was gone already,",
        EntryOutcome::Held => "was deleted, and was still held by finalizers,",
        EntryOutcome::Failed => "could not be removed",
        EntryOutcome::Unknown => "was being removed, with an unknown outcome,",
        EntryOutcome::Opened | EntryOutcome::Refused => return session(entry, now),
        // Not among removals.
        EntryOutcome::Killed
        | EntryOutcome::Restarted
        | EntryOutcome::Rejected
        | EntryOutcome::Evicted
        | EntryOutcome::Pulled => {
            return String::new();
        }
    };
    // The clock may have been set back.
    let ago = human_duration(now.duration_since(entry.time).max(SignedDuration::ZERO));
    let at = entry.time.strftime(MOMENT);
    let why = reason(&entry.rule, &entry.detail);
    // The reason for the removal is not the reason for the failure.
    let why = if entry.outcome == EntryOutcome::Failed {
        format!("reason for its removal: {why}")
    } else {
        why
    };
    let mut lines = vec![format!("{thing}{of} {went} {ago} ago, at {at}: {why}.")];
    if let Some(error) = &entry.error {
        lines.push(format!("  error: {error}"));
    }
    let numbers = inputs(&entry.detail);
    let gap = if numbers.is_empty() { "" } else { ": " };
    lines.push(format!("  rule:  {}{gap}{numbers}", entry.rule));
    lines.push(format!("  id:    {}", entry.id));
    for log in removal.removed_logs() {
        lines.push(format!("  with:  {}", log.id));
    }
    lines.iter().map(|line| clean(line) + "\n").collect()
}

/// A session: who opened it, how, where and when.
fn session(entry: &Entry, now: Timestamp) -> String {
    let text = |name: &str| entry.detail.text(name);
    let user = text("user").unwrap_or_default();
    let opened = if entry.outcome == EntryOutcome::Refused { "was refused" } else { "opened" };
    let place = match entry.name.as_str() {
        "" => String::new(),
        name => format!("container {name} ({}) of ", short_id(&entry.id)),
    };
    let pod = entry.pod.as_deref().unwrap_or_default();
    let ago = human_duration(now.duration_since(entry.time).max(SignedDuration::ZERO));
    let at = entry.time.strftime(MOMENT);
    let kind = &entry.kind;
    let mut lines = vec![format!("{user} {opened} {kind} to {place}pod {pod} {ago} ago, at {at}.")];
    lines.extend(entry.error.as_ref().map(|error| format!("  error:   {error}")));
    for name in ["program", "ports", "from"] {
        lines.extend(text(name).map(|text| format!("  {:8} {text}", format!("{name}:"))));
    }
    lines.iter().map(|line| clean(line) + "\n").collect()
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;

//! `ferrolet gc plan`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::{Result, bail};
use jiff::{SignedDuration, Timestamp};
use model::ports::clock::WallClock as _;
use process::clock::SystemClock;
use server::wire::{GcItem, GcPlan, GcSource, GcVerdict, GcWarning};
use status::decide::human_duration;

use super::Output;
use super::rule_texts::{bytes_text, counted, reason, short_id};
use super::runtime_plan::{self, DeadContainerLimits};
use crate::commands::Place;
use crate::commands::agent::{AgentClient, AgentError};
use crate::commands::colours;
use crate::commands::get_pods::terminal_size;
use crate::commands::table::{Columns, GAP, clean, cut, width, wrapped};

/// The columns of a row.
const NAME: usize = 2;
const POD: usize = 3;
const ID: usize = 5;

/// The terminal width from which ids are shown.
const WIDE: usize = 120;
/// The minimum width of a name.
const SHORTEST: usize = 8;

/// Precedes the event that the pass would record.
const WOULD_FAIL: &str = "by the sizes that the runtime reports, the next pass cannot free enough";

/// The arguments of `gc plan`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// Query this container runtime directly instead of an agent. Its pods are unknown then, so only
    /// items beyond a limit are removed.
    #[arg(long, value_name = "SOCKET", alias = "runtime-endpoint", conflicts_with = "root_dir")]
    pub container_runtime_endpoint: Option<String>,
    #[command(flatten)]
    pub limits: DeadContainerLimits,
    /// Only what would be removed.
    #[arg(long)]
    pub remove_only: bool,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    let plan = match &args.container_runtime_endpoint {
        Some(endpoint) => runtime_plan::plan(endpoint, &args.limits).await?,
        None => from_agent(&args.place.agent()).await?,
    };
    let terminal = terminal_size().map(|size| size.columns);
    let format = PlanFormat {
        output: args.output,
        remove_only: args.remove_only,
        now: SystemClock.now(),
        terminal,
    };
    write_plan(&plan, format, &mut io::stdout())
}

/// How a plan is written.
#[derive(Debug, Clone, Copy)]
pub struct PlanFormat {
    /// The format of objects; `None` for a table.
    pub output: Option<Output>,
    /// Whether kept items are left out.
    pub remove_only: bool,
    /// The time, for ages.
    pub now: Timestamp,
    /// The width of the terminal, if there is one.
    pub terminal: Option<usize>,
}

/// The agent's plan.
pub async fn from_agent(agent: &AgentClient) -> Result<GcPlan> {
    match agent.gc_plan().await {
        Err(error @ AgentError::NoAgent(_)) => {
            bail!(
                "{error} --container-runtime-endpoint queries a container runtime without an agent"
            )
        }
        plan => Ok(plan?),
    }
}

/// Writes a plan; an error if a part of it is missing.
pub fn write_plan(plan: &GcPlan, format: PlanFormat, out: &mut dyn Write) -> Result<()> {
    match format.output {
        Some(output) if format.remove_only => {
            let items = plan.items.iter().filter(|item| item.verdict == GcVerdict::Remove);
            let plan = GcPlan { items: items.cloned().collect(), ..plan.clone() };
            out.write_all(output.text(&plan)?.as_bytes())?;
        }
        Some(output) => out.write_all(output.text(plan)?.as_bytes())?,
        None => {
            let mut lines = lines(plan, format);
            if format.terminal.is_some() && colours::are_on() {
                colours::paint(&mut lines, "VERDICT", colours::of_verdict);
            }
            for line in lines {
                writeln!(out, "{line}")?;
            }
        }
    }
    if plan.problems.is_empty() {
        return Ok(());
    }
    bail!("some items could not be listed: {}", clean(&plan.problems.join("; ")))
}

/// A table with totals: kept items first, so that what would be removed is at the end.
fn lines(plan: &GcPlan, format: PlanFormat) -> Vec<String> {
    let PlanFormat { now, terminal, .. } = format;
    let of = |verdict: GcVerdict| plan.items.iter().filter(move |item| item.verdict == verdict);
    let kept = of(GcVerdict::Keep).filter(|_| !format.remove_only);
    let items: Vec<&GcItem> = kept.chain(of(GcVerdict::Remove)).collect();
    let header = ["VERDICT", "KIND", "NAME", "POD", "AGE/SIZE", "ID", "WHY"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(items.iter().map(|item| row(item, now)));
    if let Some(cells) = terminal {
        fit(&mut rows, cells);
    }
    let columns = Columns::of(&rows);
    let mut lines = Vec::new();
    if !items.is_empty() {
        lines.push(columns.line(&rows[0], terminal));
        for (row, item) in rows[1..].iter().zip(items) {
            let why = reason(&item.rule, &item.detail);
            lines.extend(explained(&columns, row, &why, terminal));
        }
        lines.push(String::new());
    }
    // If no list succeeded, the number of kept items is unknown.
    if !plan.items.is_empty() || plan.problems.is_empty() {
        lines.push(summary(plan));
    }
    for GcWarning { reason, message } in &plan.warnings {
        let reported = clean(&format!("{WOULD_FAIL}: {reason}: {message}"));
        match terminal {
            Some(cells) => lines.extend(wrapped(&reported, cells.max(SHORTEST))),
            None => lines.push(reported),
        }
    }
    lines
}

/// A row with its reason after the rule, or on the next lines if the terminal is too narrow.
fn explained(columns: &Columns, row: &[String], why: &str, terminal: Option<usize>) -> Vec<String> {
    let whole = format!("{}: {why}", columns.line(row, None));
    let whole = clean(&whole);
    let Some(cells) = terminal.filter(|cells| width(&whole) > *cells) else { return vec![whole] };
    let indent = columns.width(0) + GAP.len();
    let below = wrapped(&clean(why), cells.saturating_sub(indent).max(SHORTEST));
    let below = below.into_iter().map(|line| cut(&format!("{:indent$}{line}", ""), cells));
    [columns.line(row, terminal)].into_iter().chain(below).collect()
}

fn row(item: &GcItem, now: Timestamp) -> Vec<String> {
    let verdict = match item.verdict {
        GcVerdict::Remove => "remove",
        GcVerdict::Keep => "keep",
    };
    // The path identifies a log.
    let id = if item.id.starts_with('/') { "-" } else { short_id(&item.id) };
    let name = match item.name.as_str() {
        "" if id == "-" => item.id.as_str(),
        "" => "-",
        name => name,
    };
    let pod = item.pod.as_deref().or(item.pod_uid.as_deref()).filter(|pod| !pod.is_empty());
    vec![
        verdict.to_owned(),
        item.kind.clone(),
        name.to_owned(),
        pod.unwrap_or("-").to_owned(),
        age_or_size(item, now),
        id.to_owned(),
        // Fits on any terminal.
        item.rule.clone(),
    ]
}

/// Makes space for rules on a terminal: ids are shown on a wide one only, long names are
/// shortened.
fn fit(rows: &mut [Vec<String>], cells: usize) {
    for row in rows.iter_mut() {
        if let Some((_, last)) = row[NAME].rsplit_once('/').filter(|_| row[NAME].starts_with('/')) {
            row[NAME] = last.to_owned();
        }
        if cells < WIDE {
            row.remove(ID);
        }
    }
    let columns = Columns::of(rows.iter());
    let why = rows.first().map_or(0, |header| header.len() - 1);
    let others = (0..=why).filter(|column| ![NAME, POD].contains(column));
    let others: usize = others.map(|column| columns.width(column)).sum();
    let room = cells.saturating_sub(others + why * GAP.len());
    let (name, pod) = (columns.width(NAME), columns.width(POD));
    if name + pod <= room {
        return;
    }
    // Each column gets half of the space, plus the space that the other does not use.
    let name = room.saturating_sub(pod.min(room / 2)).min(name);
    let pod = room.saturating_sub(name);
    for row in rows.iter_mut() {
        row[NAME] = shortened(&row[NAME], name.max(SHORTEST));
        row[POD] = shortened(&row[POD], pod.max(SHORTEST));
    }
}

/// A name shortened to a width: its last part, if that fits.
fn shortened(name: &str, cells: usize) -> String {
    let fits = |name: &str| width(name) <= cells;
    let last = name.rsplit('/').next().filter(|_| !fits(name)).unwrap_or(name);
    cut(last, cells)
}

/// The size of an image, the age of anything else.
fn age_or_size(item: &GcItem, now: Timestamp) -> String {
    if let Some(size) = item.detail.get("size").and_then(serde_json::Value::as_u64) {
        return bytes_text(size);
    }
    let created = ["finished", "created"].iter().find_map(|name| item.detail.text(name));
    let created = created.and_then(|created| created.parse::<Timestamp>().ok());
    created.map_or("-".to_owned(), |created| {
        human_duration(now.duration_since(created).max(SignedDuration::ZERO))
    })
}

/// The totals of a plan: `would remove 3 containers and 1 sandbox, and keep 12 others`.
fn summary(plan: &GcPlan) -> String {
    let mut going: BTreeMap<&str, u64> = BTreeMap::new();
    for item in plan.items.iter().filter(|item| item.verdict == GcVerdict::Remove) {
        *going.entry(&item.kind).or_default() += 1;
    }
    let kept = plan.items.iter().filter(|item| item.verdict == GcVerdict::Keep).count();
    let going: Vec<String> = going.into_iter().map(|(kind, count)| counted(count, kind)).collect();
    let going = if going.is_empty() { "nothing".to_owned() } else { going.join(", ") };
    let note = match plan.source {
        GcSource::Agent => "",
        GcSource::Runtime => {
            " (from the container runtime alone: pods are unknown, and image limits are assumed)"
        }
    };
    format!("would remove {going}; would keep {kept}{note}")
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

//! `ferrolet gc run`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::{Result, bail};
use server::wire::{GcDone, GcItem, GcLine};

use super::Output;
use super::rule_texts::{counted, reason, short_id};
use crate::commands::Place;
use crate::commands::agent::AgentClient;
use crate::commands::table::clean;

/// The arguments of `gc run`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    run_pass(&args.place.agent(), args.output, &mut io::stdout()).await
}

/// Runs a pass, and writes its steps as they happen; an error if an item that should be removed
/// remains.
pub async fn run_pass(
    agent: &AgentClient,
    output: Option<Output>,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let mut lines = agent.gc_run().await?;
    while let Some(line) = lines.next().await? {
        match output {
            Some(Output::Json) => writeln!(out, "{}", serde_json::to_string(&line)?)?,
            None => writeln!(out, "{}", clean(&reported(&line)))?,
        }
        out.flush()?;
        if let GcLine::Done(done) = line {
            return ended(&done);
        }
    }
    bail!("the agent ended before the pass did")
}

fn reported(line: &GcLine) -> String {
    match line {
        GcLine::Removed { item } => {
            format!("removed {}: {} ({})", named(item), reason(&item.rule, &item.detail), item.rule)
        }
        GcLine::Failed { item, error } => format!("not removed: {}: {error}", named(item)),
        GcLine::Kept { item } => {
            format!("kept {}: {} ({})", named(item), reason(&item.rule, &item.detail), item.rule)
        }
        GcLine::Done(done) => {
            let removed = match count(&done.removed) {
                removed if removed.is_empty() => "nothing".to_owned(),
                removed => removed,
            };
            let note = match done.left_out {
                0 => String::new(),
                1 => " (1 line was left out, as they were read too slowly)".to_owned(),
                lines => format!(" ({lines} lines were left out, as they were read too slowly)"),
            };
            format!("removed {removed}{note}")
        }
    }
}

fn named(item: &GcItem) -> String {
    let of = item.pod.as_ref().map(|pod| format!(" of pod {pod}")).unwrap_or_default();
    match item.name.as_str() {
        "" => format!("{} {}{of}", item.kind, short_id(&item.id)),
        name => format!("{} {name} ({}){of}", item.kind, short_id(&item.id)),
    }
}

fn count(counts: &BTreeMap<String, u64>) -> String {
    let counts: Vec<String> = counts.iter().map(|(kind, count)| counted(*count, kind)).collect();
    counts.join(", ")
}

fn ended(done: &GcDone) -> Result<()> {
    let failed = count(&done.failed);
    match (failed.is_empty(), done.problems.is_empty()) {
        (true, true) => Ok(()),
        (false, true) => bail!("could not remove {failed}"),
        (true, false) => bail!("{}", clean(&done.problems.join("; "))),
        (false, false) => {
            bail!("could not remove {failed}; {}", clean(&done.problems.join("; ")))
        }
    }
}

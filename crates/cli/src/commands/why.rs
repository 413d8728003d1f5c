//! `ferrolet why`: what happened to a pod or container, and why.

mod evictions;
pub(in crate::commands) mod facts;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ferrolet::run::JOURNAL;
use hostfs::HostSegments;
use jiff::Timestamp;
use journal::{Query, find_incidents};
use model::ports::clock::WallClock as _;
use process::clock::SystemClock;
use server::wire::WhyAnswer;

use self::facts::{facts, is_more};
use super::Place;
use super::agent::{AgentClient, AgentError};
use super::gc::why::{Answer, Existing, existing_items, named_in, read, report_damage, unknown};

pub use super::output::Output;

/// The arguments of `why`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The name of a pod (NAME or NAMESPACE/NAME), container or image, an ID or the beginning of one,
    /// or the path of a log.
    #[arg(value_name = "POD|CONTAINER|ID|IMAGE", value_parser = named_in)]
    pub what: String,
    /// The maximum number of lines to show, the newest first.
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    why(&args.place.agent(), args, SystemClock.now(), &mut io::stdout()).await
}

/// Writes what happened to a pod or container; an error if nothing is recorded.
pub async fn why(
    agent: &AgentClient,
    args: &Args,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<()> {
    let (what, limit) = (args.what.as_str(), usize::from(args.limit));
    let (mut answer, runs) = match agent.why(what, limit).await {
        Ok(answer) => (answer, true),
        Err(AgentError::NoAgent(_)) => {
            (from_files(args.place.root_dir.join(JOURNAL), what, limit)?, false)
        }
        Err(error) => return Err(error.into()),
    };
    report_damage(&answer);
    let found = !answer.found.entries.is_empty();
    let there = match (runs, args.output) {
        (false, _) => Existing::unavailable("no agent runs here"),
        (true, None) if found => Existing::default(),
        (true, _) => existing_items(agent, what).await,
    };
    answer.found.problems.extend(there.missing.clone().filter(|_| runs && args.output.is_some()));
    let text = match args.output {
        None => text(&answer, limit, now),
        Some(output) => output.text(&Answer::new(&answer, &there))?,
    };
    out.write_all(text.as_bytes())?;
    if found {
        return Ok(());
    }
    bail!("{}", unknown(&format!("nothing is recorded about {what:?}"), &answer, &there))
}

/// The output as text: a line for each fact.
fn text(answer: &WhyAnswer, limit: usize, now: Timestamp) -> String {
    let mut lines = facts(&answer.found.entries, now);
    let more = is_more(&mut lines, limit) || answer.found.more;
    let mut text: String = lines.into_iter().map(|line| line + "\n").collect();
    if more {
        text.push_str("There is more; --limit shows older lines.\n");
    }
    text
}

/// Reads the journal of an agent that does not run.
pub(super) fn from_files(journal: PathBuf, what: &str, limit: usize) -> Result<WhyAnswer> {
    let place = journal.display().to_string();
    let segments = HostSegments::new(journal.clone());
    let incidents = find_incidents(&segments, &Query::new(what), limit);
    let incidents = incidents.context("read the journal")?;
    match read(journal, what, limit)? {
        Some(answer) => Ok(WhyAnswer { found: answer.found.merged_with(incidents), ..answer }),
        None if incidents.since.is_some() => {
            Ok(WhyAnswer { what: what.to_owned(), found: incidents })
        }
        None => bail!("there is no journal in {place}, and no agent runs there"),
    }
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;

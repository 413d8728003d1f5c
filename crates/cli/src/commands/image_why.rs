//! `ferrolet image why`: for which pod an image was pulled, and which rule keeps, removes or removed it.

use std::io::{self, Write};

use anyhow::{Result, bail};
use ferrolet::run::JOURNAL;
use jiff::Timestamp;
use journal::Entry;
use model::ports::clock::WallClock as _;
use process::clock::SystemClock;

use super::Place;
use super::agent::{AgentClient, AgentError};
use super::gc::why::{
    Answer, Existing, existing_items, existing_text, named_in, report_damage, unknown,
};
use super::output::Output;
use super::why::facts::{is_more, lines};
use super::why::from_files;

/// How many entries are requested: pods and containers may have the name of the image, and are filtered out.
const MOST: usize = 1000;

/// The arguments of `image why`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The name of an image, with or without registry and tag, its ID or the beginning of that.
    #[arg(value_name = "IMAGE", value_parser = named_in)]
    pub image: String,
    /// The maximum number of pulls and removals to show, the newest first.
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    why(&args.place.agent(), args, SystemClock.now(), &mut io::stdout()).await
}

/// Writes the records about an image, and whether it is kept; an error if neither is known.
pub async fn why(
    agent: &AgentClient,
    args: &Args,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<()> {
    let (image, limit) = (args.image.as_str(), usize::from(args.limit));
    let (mut answer, there) = match agent.why(image, MOST).await {
        Ok(answer) => (answer, existing_items(agent, image).await.of_images()),
        Err(AgentError::NoAgent(_)) => {
            let answer = from_files(args.place.root_dir.join(JOURNAL), image, MOST)?;
            (answer, Existing::unavailable("no agent runs here"))
        }
        Err(error) => return Err(error.into()),
    };
    report_damage(&answer);
    answer.found.entries.retain(Entry::is_of_image);
    let mut facts = lines(&answer.found.entries, now, true);
    let more = is_more(&mut facts, limit) || answer.found.more;
    let is_known = !facts.is_empty() || there.items().next().is_some();
    let text = if let Some(output) = args.output {
        answer.found.entries.truncate(limit);
        answer.found.more = more;
        answer.found.problems.extend(there.missing.clone());
        output.text(&Answer::new(&answer, &there))?
    } else {
        if let Some(missing) = there.missing.as_ref().filter(|_| is_known) {
            eprintln!("ferrolet: {missing}");
        }
        let older = more.then(|| "There is more; --limit shows older lines.".to_owned());
        let lines = there.items().map(existing_text).chain(facts).chain(older);
        lines.map(|line| line + "\n").collect()
    };
    out.write_all(text.as_bytes())?;
    if is_known {
        return Ok(());
    }
    bail!("{}", unknown(&format!("nothing is recorded about an image {image:?}"), &answer, &there))
}

#[cfg(test)]
#[path = "image_why_tests.rs"]
mod tests;

//! `ferrolet events`.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::{Result, bail};
use jiff::Timestamp;
use model::ports::clock::WallClock as _;
use process::clock::SystemClock;
use server::wire::{EventItem, EventItems};

use super::Place;
use super::agent::AgentClient;
use super::colours;
use super::describe::age;
use super::output::Output;
use super::select::PodSelector;
use super::table::Columns;

/// The arguments of `events`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// Only events of this pod, as NAME or NAMESPACE/NAME; the node's name suffix may be left out.
    #[arg(value_name = "POD")]
    pub pod: Option<String>,
    /// Namespace of the pods; any unless given.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Only warnings.
    #[arg(long)]
    pub warnings: bool,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    events(&args.place.agent(), args, SystemClock.now(), &mut io::stdout()).await
}

/// Writes events of pods and of the node, the latest last.
pub async fn events(
    agent: &AgentClient,
    args: &Args,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<()> {
    let mut events = agent.all_events().await?;
    let mut nodes = nodes(&events);
    if args.pod.is_some() {
        nodes.extend(
            agent.pods().await?.items.into_iter().filter_map(|item| item.pod.spec?.node_name),
        );
    }
    let wanted = args.pod.as_deref().unwrap_or_default();
    let wanted = PodSelector::parse(wanted, args.namespace.as_deref())?;
    events.retain(|event| {
        (!args.warnings || event.kind == "Warning")
            && is_selected(event, wanted, args.pod.is_some(), &nodes)
    });
    if let Some(output) = args.output {
        return Ok(out.write_all(output.text(&EventItems { items: events })?.as_bytes())?);
    }
    match &args.pod {
        _ if !events.is_empty() => {}
        Some(pod) => bail!("no events of pod {pod:?}"),
        None => eprintln!("No events found."),
    }
    let mut lines = table(&events, now);
    if colours::are_on() {
        colours::paint(&mut lines, "TYPE", colours::of_event_type);
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The names of nodes in events of nodes.
fn nodes(events: &[EventItem]) -> BTreeSet<String> {
    let of_nodes = events.iter().filter(|event| event.involved == "Node");
    of_nodes.map(|event| event.pod.clone()).collect()
}

fn is_selected(
    event: &EventItem,
    wanted: PodSelector<'_>,
    is_named: bool,
    nodes: &BTreeSet<String>,
) -> bool {
    match event.pod.split_once('/') {
        Some((namespace, _)) if !is_named => wanted.is_in(namespace),
        Some((namespace, name)) => {
            let short = nodes.iter().filter_map(|node| name.strip_suffix(node)?.strip_suffix('-'));
            wanted.is_in(namespace) && short.chain([name]).any(|name| wanted.is_named(name))
        }
        // Of the node.
        None => !is_named && wanted.is_everywhere(),
    }
}

fn table(events: &[EventItem], now: Timestamp) -> Vec<String> {
    if events.is_empty() {
        return Vec::new();
    }
    let header = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"].map(str::to_owned).to_vec();
    let rows = events.iter().map(|event| {
        let part = match event.field_path.as_str() {
            "" => String::new(),
            path => format!(" {path}"),
        };
        let object = format!("{}/{}{part}", event.involved.to_lowercase(), event.pod);
        vec![
            age(event, now),
            event.kind.clone(),
            event.reason.clone(),
            object,
            event.message.clone(),
        ]
    });
    let rows: Vec<Vec<String>> = [header].into_iter().chain(rows).collect();
    let columns = Columns::of(&rows);
    rows.iter().map(|row| columns.line(row, None)).collect()
}

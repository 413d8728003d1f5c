//! `ferrolet get pods`.

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use model::ports::clock::WallClock;
use podspec::view;
use process::clock::SystemClock;
use serde_json::Value;
use server::wire::{PodItem, PodItems, RefusedManifest};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

use super::Place;
use super::agent::AgentClient;
use super::colours;
use super::display::{Display, LiveTable, ObjectStream, TableLines};
use super::output;
use super::pods_table::{Layout, sort};
use super::refused::brief;
use super::screen::Size;
use super::select::PodSelector;
use super::table::Columns;
use super::watch_pods::watch_pods;

/// The arguments of `get pods`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// Only these pods; the node's name suffix may be left out.
    #[arg(value_name = "POD")]
    pub pods: Vec<String>,
    /// Namespace of the pods.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// Pods of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// Keep running and show changes; stop with ^C.
    #[arg(short, long)]
    pub watch: bool,
}

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// A table with more columns.
    Wide,
    /// A list object in JSON.
    Json,
    /// A list object in YAML.
    Yaml,
}

impl Output {
    /// The format of objects; `None` for a table.
    fn object(self) -> Option<output::Output> {
        match self {
            Self::Wide => None,
            Self::Json => Some(output::Output::Json),
            Self::Yaml => Some(output::Output::Yaml),
        }
    }
}

impl Args {
    pub(crate) fn layout(&self) -> Layout {
        Layout { namespace: self.all_namespaces, wide: self.output == Some(Output::Wide) }
    }

    /// Whether a pod is selected.
    pub(crate) fn selects(&self, pod: &Pod) -> bool {
        let names = || {
            let mut requested =
                self.pods.iter().filter_map(|name| PodSelector::parse(name, None).ok());
            requested.any(|requested| requested.matches(pod).is_some())
        };
        (self.all_namespaces || *view::pod_name(pod).namespace == *self.namespace)
            && (self.pods.is_empty() || names())
    }

    /// Whether a manifest is selected.
    pub(crate) fn selects_manifest(&self, refused: &RefusedManifest) -> bool {
        let pod = refused.pod.as_deref().and_then(|pod| pod.split_once('/'));
        let here = pod.is_none_or(|(namespace, _)| namespace == self.namespace);
        let named = || {
            let mut requested =
                self.pods.iter().filter_map(|name| PodSelector::parse(name, None).ok());
            requested.any(|requested| requested.matches_manifest(refused))
        };
        (self.all_namespaces || here) && (self.pods.is_empty() || named())
    }
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    let (agent, stdout) = (args.place.agent(), io::stdout());
    if !args.watch {
        return get_pods(&agent, args, SystemClock.now(), &mut stdout.lock()).await;
    }
    let mut terminate = signal(SignalKind::terminate()).context("listen to SIGTERM")?;
    let stop = async {
        // Biased: either branch ends it.
        tokio::select! {
            biased;
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    let size = terminal_size();
    let format = args.output.and_then(Output::object);
    let mut display: Box<dyn Display> = match format {
        Some(format) => Box::new(ObjectStream::new(stdout, io::stderr(), format)),
        _ if size.is_some() => {
            let table = LiveTable::new(stdout, args.layout(), terminal_size);
            Box::new(table.coloured(colours::are_on()))
        }
        _ => Box::new(TableLines::new(stdout, io::stderr(), args.layout())),
    };
    watch_pods(&agent, args, &SystemClock, &mut *display, stop).await
}

/// The size of the terminal that standard output is.
pub(crate) fn terminal_size() -> Option<Size> {
    let stdout = io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    known.then(|| Size { columns: size.ws_col.into(), rows: size.ws_row.into() })
}

/// Writes the agent's pods.
pub async fn get_pods(
    agent: &AgentClient,
    args: &Args,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<()> {
    let PodItems { items: mut pods, mut refused } = agent.pods().await?;
    let known = pods.len();
    refused.retain(|refused| args.selects_manifest(refused));
    pods.retain(|item| args.selects(&item.pod));
    sort(&mut pods);
    match args.output {
        None | Some(Output::Wide) if pods.is_empty() => {
            if !args.pods.is_empty() && refused.is_empty() {
                bail!("{}", nothing_found(args, known));
            }
            eprintln!("{}", nothing_found(args, known));
            report_refused(&refused);
            Ok(())
        }
        None | Some(Output::Wide) => {
            let terminal = terminal_size().map(|size| size.columns);
            write_table(out, args.layout(), &pods, now, terminal)?;
            report_refused(&refused);
            Ok(())
        }
        Some(output) => {
            let list = listed(pods, refused).context("write the pods")?;
            let format = output.object().unwrap_or(output::Output::Json);
            Ok(out.write_all(format.text(&list)?.as_bytes())?)
        }
    }
}

/// A list object; with the refused manifests, if there are any.
fn listed(
    pods: Vec<PodItem<Pod>>,
    refused: Vec<RefusedManifest>,
) -> Result<Value, serde_json::Error> {
    let items = pods.into_iter().map(|item| item.pod).collect();
    let mut list = serde_json::to_value(List::<Pod> { items, ..List::default() })?;
    if !refused.is_empty() {
        list["refused"] = serde_json::to_value(refused)?;
    }
    Ok(list)
}

/// Reports on standard error, so that standard output contains only the table.
fn report_refused(refused: &[RefusedManifest]) {
    for refused in refused {
        eprintln!("ferrolet: {}", brief(refused));
    }
}

fn nothing_found(args: &Args, known: usize) -> String {
    match known {
        _ if !args.pods.is_empty() => format!("pod {:?} not found", args.pods.join(", ")),
        _ if args.all_namespaces => "No pods found.".to_owned(),
        0 => format!("No pods found in namespace {}.", args.namespace),
        _ => format!("No pods found in namespace {}; -A shows the others.", args.namespace),
    }
}

fn write_table(
    out: &mut dyn Write,
    layout: Layout,
    pods: &[PodItem<Pod>],
    now: Timestamp,
    terminal: Option<usize>,
) -> Result<()> {
    let mut lines = table_lines(layout, pods, now, terminal);
    if terminal.is_some() && colours::are_on() {
        colours::paint(&mut lines, "STATUS", colours::of_status);
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The lines of a table, its header first.
pub(crate) fn table_lines(
    layout: Layout,
    pods: &[PodItem<Pod>],
    now: Timestamp,
    terminal: Option<usize>,
) -> Vec<String> {
    let mut rows = vec![layout.header()];
    rows.extend(pods.iter().map(|item| layout.row(item, None, now)));
    if let Some(terminal) = terminal {
        let shown = layout.fitting(&Columns::of(&rows), terminal);
        for row in &mut rows {
            let mut shown = shown.iter();
            row.retain(|_| shown.next() != Some(&false));
        }
    }
    let columns = Columns::of(&rows);
    rows.iter().map(|row| columns.line(row, terminal)).collect()
}

#[cfg(test)]
#[path = "get_pods_tests.rs"]
mod tests;

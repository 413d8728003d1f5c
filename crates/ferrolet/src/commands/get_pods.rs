//! `ferrolet get pods`.

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use model::ports::clock::WallClock;
use podspec::view;
use serde_json::Value;
use server::wire::PodItem;
use tokio::signal::ctrl_c;

use super::Place;
use super::agent::AgentClient;
use super::display::{Display, JsonLines, LiveTable, TableLines};
use super::pods_table::{Layout, sort};
use super::screen::Size;
use super::table::Columns;
use super::watch_pods::watch_pods;
use crate::observe::SystemClock;

/// What `get pods` is asked.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// Namespace of the pods.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// Pods of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// How pods are written.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// Go on and show what changes; ends on ^C.
    #[arg(short, long)]
    pub watch: bool,
}

/// How pods are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// A table with more columns.
    Wide,
    /// A list object in JSON.
    Json,
    /// A list object in YAML.
    Yaml,
}

impl Args {
    pub(crate) fn layout(&self) -> Layout {
        Layout { namespace: self.all_namespaces, wide: self.output == Some(Output::Wide) }
    }

    /// Whether a pod is asked for.
    pub(crate) fn wants(&self, pod: &Pod) -> bool {
        self.all_namespaces || *view::pod_name(pod).namespace == *self.namespace
    }
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    let (agent, stdout) = (args.place.agent(), io::stdout());
    if !args.watch {
        return get_pods(&agent, args, SystemClock.now(), &mut stdout.lock()).await;
    }
    let stop = async { drop(ctrl_c().await) };
    let size = terminal_size();
    let mut display: Box<dyn Display> = match args.output {
        Some(Output::Yaml) => bail!("--watch goes with a table or with -o json"),
        Some(Output::Json) => Box::new(JsonLines::new(stdout, io::stderr())),
        _ if size.is_some() => Box::new(LiveTable::new(stdout, args.layout(), terminal_size)),
        _ => Box::new(TableLines::new(stdout, io::stderr(), args.layout())),
    };
    watch_pods(&agent, args, &SystemClock, &mut *display, stop).await
}

/// The size of the terminal that standard output is.
fn terminal_size() -> Option<Size> {
    let stdout = io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    known.then(|| Size { columns: size.ws_col.into(), rows: size.ws_row.into() })
}

/// Writes the pods that the agent has.
pub async fn get_pods(
    agent: &AgentClient,
    args: &Args,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<()> {
    let mut pods = agent.pods().await?;
    let known = pods.len();
    pods.retain(|item| args.wants(&item.pod));
    sort(&mut pods);
    match args.output {
        None | Some(Output::Wide) if pods.is_empty() => {
            eprintln!("{}", nothing_found(args, known));
            Ok(())
        }
        None | Some(Output::Wide) => {
            let terminal = terminal_size().map(|size| size.columns);
            write_table(out, args.layout(), &pods, now, terminal)
        }
        Some(Output::Json) => {
            let text = serde_json::to_string_pretty(&pod_list(pods)).context("write the pods")?;
            Ok(writeln!(out, "{text}")?)
        }
        Some(Output::Yaml) => {
            // Through JSON, so that both say the same.
            let list: Value = serde_json::to_value(pod_list(pods)).context("write the pods")?;
            let text = serde_saphyr::to_string(&list).context("write the pods")?;
            Ok(out.write_all(text.as_bytes())?)
        }
    }
}

fn pod_list(pods: Vec<PodItem<Pod>>) -> List<Pod> {
    List { items: pods.into_iter().map(|item| item.pod).collect(), ..List::default() }
}

fn nothing_found(args: &Args, known: usize) -> String {
    match known {
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
    for line in table_lines(layout, pods, now, terminal) {
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
    let columns = Columns::of(&rows);
    rows.iter().map(|row| columns.line(row, terminal)).collect()
}

#[cfg(test)]
#[path = "get_pods_tests.rs"]
mod tests;

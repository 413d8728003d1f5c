//! `ferrolet describe`.

mod container;
mod history;
mod probes;
mod processes;
mod text;

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use jiff::Timestamp;
use journal::Entry;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use model::ports::clock::WallClock as _;
use podspec::view;
use process::clock::SystemClock;
use serde::Serialize;
use server::wire::{EventItem, PodItem, PodItems, RefusedManifest, WaitingVolume};
use status::decide::{human_duration, summary};

use self::container::{Described, describe_container};
use self::processes::{ProcessIds, process_ids};
use self::text::{Text, shown_time};
use super::Place;
use super::agent::AgentClient;
use super::output::Output;
use super::pulling;
use super::refused::note;
use super::select::{PodSelector, select, without_kind};
use super::table::Columns;
use super::waiting_volumes;

/// How many entries of the journal are requested: sessions and removals are among them.
const MOST_INCIDENTS: usize = 200;

/// The arguments of `describe`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The pod, as NAME or NAMESPACE/NAME; the node's name suffix may be left out. Or the file of a
    /// refused manifest.
    #[arg(value_name = "POD", required = true, num_args = 1..=2)]
    pub pod: Vec<String>,
    /// Namespace of the pod; any unless given.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

/// What is shown of a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodDescription<'a> {
    #[serde(flatten)]
    item: &'a PodItem<Pod>,
    refused: &'a [&'a RefusedManifest],
    /// The latest last.
    events: &'a [EventItem],
    /// Kills and restarts of containers, the newest first.
    incidents: &'a [Entry],
    /// By container id.
    process_ids: &'a ProcessIds,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    describe(&args.place.agent(), args, SystemClock.now(), &mut io::stdout()).await
}

/// Writes the description of a pod.
pub async fn describe(
    agent: &AgentClient,
    args: &Args,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<()> {
    let PodItems { items, refused } = agent.pods().await?;
    let (requested, namespace) = (without_kind(&args.pod)?, args.namespace.as_deref());
    if let Some(refused) = refused.iter().find(|refused| is_file(refused, requested)) {
        return write_refused(refused, args.output, out);
    }
    let item = match select(items, requested, namespace) {
        Ok(item) => item,
        Err(error) => {
            // Without a valid manifest there is no pod.
            let wanted = PodSelector::parse(requested, namespace)?;
            let Some(refused) = refused.iter().find(|refused| wanted.matches_manifest(refused))
            else {
                return Err(error.into());
            };
            return write_refused(refused, args.output, out);
        }
    };
    let pod = &item.pod;
    let name = view::pod_name(pod).to_string();
    let about = |refused: &&RefusedManifest| refused.pod.as_ref() == Some(&name);
    let refused: Vec<&RefusedManifest> = refused.iter().filter(about).collect();
    let mut events = agent.events(&view::pod_name(pod)).await?;
    // The events of an earlier pod with the name are left out.
    events.retain(|event| event.pod_uid == view::uid(pod).as_str());
    let incidents = incidents(agent, pod).await;
    let process_ids = process_ids(&args.place.root_dir, pod).await;
    let described = PodDescription {
        item: &item,
        refused: &refused,
        events: &events,
        incidents: &incidents,
        process_ids: &process_ids,
    };
    let text = match args.output {
        Some(output) => output.text(&described)?,
        None => pod_text(&described, now),
    };
    Ok(out.write_all(text.as_bytes())?)
}

/// Kills and restarts of the pod's containers. Without them, the rest is still described.
async fn incidents(agent: &AgentClient, pod: &Pod) -> Vec<Entry> {
    match agent.why(&view::pod_name(pod).to_string(), MOST_INCIDENTS).await {
        Ok(answer) => {
            let mut entries = answer.found.entries;
            let uid = view::uid(pod);
            entries.retain(|entry| entry.pod_uid.as_deref() == Some(uid.as_str()));
            entries.retain(history::is_incident);
            entries
        }
        Err(error) => {
            eprintln!("ferrolet: kills and restarts are unknown: {error}");
            Vec::new()
        }
    }
}

fn write_refused(
    refused: &RefusedManifest,
    output: Option<Output>,
    out: &mut dyn Write,
) -> Result<()> {
    let text = match output {
        Some(output) => output.text(&serde_json::json!({ "refused": [refused] }))?,
        None => refused_description(refused),
    };
    Ok(out.write_all(text.as_bytes())?)
}

/// Whether the argument is the path of a manifest, or the end of it: its file name, or a relative path.
fn is_file(refused: &RefusedManifest, requested: &str) -> bool {
    refused.manifest == requested
        || (requested.contains('.') && Path::new(&refused.manifest).ends_with(requested))
}

/// The description of a refused manifest.
fn refused_description(refused: &RefusedManifest) -> String {
    let mut text = Text::default();
    text.field(0, "Manifest", &refused.manifest);
    if let Some(pod) = &refused.pod {
        text.field(0, "Pod", pod);
    }
    text.field(0, "Status", "Refused");
    if refused.last_good_stays {
        text.field(0, "In Effect", "the last accepted version");
    }
    text.field(0, "Message", &refused.message);
    text.finish()
}

/// The description of a pod.
pub(crate) fn pod_text(described: &PodDescription<'_>, now: Timestamp) -> String {
    let PodDescription { item, refused, events, .. } = described;
    let pod = &item.pod;
    let status = pod.status.clone().unwrap_or_default();
    let mut text = Text::default();
    metadata(&mut text, pod, &status, now);
    for refused in *refused {
        text.field(0, "Refused Manifest", &note(refused));
    }
    containers(&mut text, described, &status, now);
    conditions(&mut text, &status);
    volumes(&mut text, pod, &item.waiting_volumes);
    text.field(0, "QoS Class", status.qos_class.as_deref().unwrap_or("<none>"));
    write_events(&mut text, events, now);
    text.finish()
}

fn metadata(text: &mut Text, pod: &Pod, status: &PodStatus, now: Timestamp) {
    let name = view::pod_name(pod);
    let line = summary(pod, status, now);
    text.field(0, "Name", &name.name);
    text.field(0, "Namespace", &name.namespace);
    text.field(0, "UID", view::uid(pod).as_str());
    text.field(0, "Node", line.node.as_deref().unwrap_or("<none>"));
    let start = status.start_time.as_ref();
    text.field(0, "Start Time", &start.map_or("<none>".to_owned(), |time| shown_time(time, now)));
    text.pairs("Labels", pod.metadata.labels.as_ref(), "=");
    text.pairs("Annotations", pod.metadata.annotations.as_ref(), ": ");
    text.field(0, "Status", &line.status);
    for (label, value) in [("Reason", &status.reason), ("Message", &status.message)] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            text.field(0, label, value);
        }
    }
    let ips: Vec<&str> = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect();
    text.field(0, "IPs", &if ips.is_empty() { "<none>".to_owned() } else { ips.join(", ") });
}

fn containers(text: &mut Text, described: &PodDescription<'_>, status: &PodStatus, now: Timestamp) {
    let PodDescription { item, events, incidents, process_ids, .. } = *described;
    let Some(spec) = view::spec(&item.pod) else { return };
    let lists = [
        ("Init Containers", spec.init_containers.as_deref(), &status.init_container_statuses),
        ("Containers", Some(&*spec.containers), &status.container_statuses),
    ];
    for (title, containers, statuses) in lists {
        let containers = containers.unwrap_or_default();
        if containers.is_empty() {
            continue;
        }
        text.title(title);
        for container in containers {
            let status = statuses.iter().flatten().find(|status| status.name == container.name);
            let pull = pulling::of_container(&container.name, events, now);
            let (pull, probes) = (pull.as_deref(), &*item.probes);
            describe_container(
                text,
                &Described { container, status, pull, probes, incidents, process_ids, now },
            );
        }
    }
}

fn conditions(text: &mut Text, status: &PodStatus) {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if conditions.is_empty() {
        return;
    }
    let mut rows = vec![words(["Type", "Status", "Reason", "Message"])];
    for condition in conditions {
        rows.push(words([
            &condition.type_,
            &condition.status,
            condition.reason.as_deref().unwrap_or_default(),
            condition.message.as_deref().unwrap_or_default(),
        ]));
    }
    text.title("Conditions");
    text.rows(&rows);
}

fn volumes(text: &mut Text, pod: &Pod, waiting: &[WaitingVolume]) {
    let volumes = view::spec(pod).and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    if volumes.is_empty() {
        return;
    }
    text.title("Volumes");
    for volume in volumes {
        // The only field other than the name is the type of the volume.
        let written = serde_json::to_value(volume).unwrap_or_default();
        let kind = written.as_object().and_then(|fields| fields.keys().find(|key| *key != "name"));
        let kind = kind.map_or("<none>", String::as_str);
        text.field(2, &volume.name, &waiting_volumes::described(kind, &volume.name, waiting));
    }
}

fn write_events(text: &mut Text, events: &[EventItem], now: Timestamp) {
    if events.is_empty() {
        text.field(0, "Events", "<none>");
        return;
    }
    let mut rows = vec![words(["Type", "Reason", "Age", "Object", "Message"])];
    for event in events {
        let object = if event.field_path.is_empty() { "pod" } else { &event.field_path };
        rows.push(words([&event.kind, &event.reason, &age(event, now), object, &event.message]));
    }
    text.title("Events");
    text.rows(&rows);
}

/// The age of an event, and its count with the age of the first one.
pub(super) fn age(event: &EventItem, now: Timestamp) -> String {
    let last = human_duration(now.duration_since(event.last_time));
    if event.count == 1 {
        return last;
    }
    let first = human_duration(now.duration_since(event.first_time));
    format!("{last} (x{} over {first})", event.count)
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// Rows of a table, with aligned columns.
pub(super) fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = Columns::of(rows);
    rows.iter().map(|row| columns.line(row, None)).collect()
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;

//! Pods as rows of a table.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use podspec::view;
use server::wire::{LastEvent, PodItem};
use status::decide::{human_duration, summary};

use super::table::{Columns, GAP};
use super::{pulling, waiting_volumes};

/// What is unknown or not there.
const NONE: &str = "<none>";

/// Columns that a narrow terminal does without, in the order in which they go.
const DISPENSABLE: [&str; 7] = ["UID", "NODE", "IP", "AGE", "LAST EVENT", "RESTARTS", "NAMESPACE"];
/// How much of the last event is worth showing.
const LEAST_EVENT: usize = 16;
/// How wide columns usually get.
const USUAL: [(&str, usize); 6] = [
    ("NAMESPACE", 11),
    ("NAME", 20),
    ("STATUS", "ContainerCreating".len()),
    ("RESTARTS", "3 (2m30s ago)".len()),
    ("AGE", 5),
    ("IP", 11),
];

/// Which columns there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    /// Whether pods of several namespaces are shown.
    pub namespace: bool,
    /// Whether node and uid are shown.
    pub wide: bool,
}

impl Layout {
    pub(crate) fn header(self) -> Vec<String> {
        self.pick(
            "NAMESPACE",
            ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"],
            ["NODE", "UID"],
            "LAST EVENT",
        )
    }

    /// The row of a pod; `status` instead of the word for its own.
    pub(crate) fn row(
        self,
        item: &PodItem<Pod>,
        status: Option<&str>,
        now: Timestamp,
    ) -> Vec<String> {
        let pod = &item.pod;
        let known = pod.status.clone().unwrap_or_default();
        let line = summary(pod, &known, now);
        let (restarts, age) = (line.restarts.to_string(), line.age.to_string());
        let pulling = pulling::status_word(&line.status, item.last_event.as_ref(), now);
        let waiting = waiting_volumes::status_word(&line.status, &item.waiting_volumes);
        let own = waiting.or(pulling).unwrap_or_else(|| line.status.clone());
        let cells = [
            line.name.as_str(),
            &line.ready,
            status.unwrap_or(&own),
            &restarts,
            &age,
            line.ip.as_deref().unwrap_or(NONE),
        ];
        let uid = view::uid(pod);
        let wide = [line.node.as_deref().unwrap_or(NONE), uid.as_str()];
        self.pick(&line.namespace, cells, wide, &last_event(item.last_event.as_ref(), now))
    }

    /// Columns in which most pods find room whatever becomes of them.
    pub(crate) fn usual_columns(self) -> Columns {
        let usual = |title: &String| USUAL.iter().find(|(known, _)| known == title);
        Columns::at_least(self.header().iter().map(|title| usual(title).map_or(0, |known| known.1)))
    }

    /// Which columns a terminal has room for.
    pub(crate) fn fitting(self, columns: &Columns, terminal: usize) -> Vec<bool> {
        let header = self.header();
        let mut shown = vec![true; header.len()];
        let needed = |shown: &[bool]| {
            let widths = (0..header.len()).filter(|index| shown[*index]).map(|index| {
                let least = if header[index] == "LAST EVENT" { LEAST_EVENT } else { usize::MAX };
                columns.width(index).min(least) + GAP.len()
            });
            widths.sum::<usize>().saturating_sub(GAP.len())
        };
        let places =
            DISPENSABLE.iter().filter_map(|title| header.iter().position(|one| one == title));
        let mut hidden = Vec::new();
        for index in places {
            if needed(&shown) <= terminal {
                break;
            }
            shown[index] = false;
            hidden.push(index);
        }
        // What went last made room, perhaps for more than it took.
        for index in hidden.into_iter().rev() {
            shown[index] = true;
            shown[index] = needed(&shown) <= terminal;
        }
        shown
    }

    fn pick(self, namespace: &str, cells: [&str; 6], wide: [&str; 2], last: &str) -> Vec<String> {
        let namespace = self.namespace.then_some(namespace).into_iter();
        let wide = wide.into_iter().filter(|_| self.wide);
        namespace.chain(cells).chain(wide).chain([last]).map(str::to_owned).collect()
    }
}

fn last_event(event: Option<&LastEvent>, now: Timestamp) -> String {
    let Some(event) = event else { return NONE.to_owned() };
    let age = human_duration(now.duration_since(event.time));
    format!("{age} ago {}: {}", event.reason, event.message)
}

/// By namespace, name and, for pods that follow each other under one name, uid.
pub(crate) fn sort(pods: &mut [PodItem<Pod>]) {
    pods.sort_by_cached_key(|item| (view::pod_name(&item.pod), view::uid(&item.pod)));
}

//! Pods as rows of a table.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use podspec::view;
use server::wire::{LastEvent, PodItem};
use status::decide::{human_duration, summary};

use super::table::{Columns, GAP};
use super::{pulling, waiting_volumes};

/// Stands for unknown or missing values.
const NONE: &str = "<none>";

/// Columns that a narrow terminal omits, in the order of omission.
const DISPENSABLE: [&str; 7] = ["UID", "NODE", "IP", "AGE", "LAST EVENT", "RESTARTS", "NAMESPACE"];
/// The useful width of the last event.
const LEAST_EVENT: usize = 16;
/// The usual widths of columns.
const USUAL: [(&str, usize); 6] = [
    ("NAMESPACE", 11),
    ("NAME", 20),
    ("STATUS", "ContainerCreating".len()),
    ("RESTARTS", "3 (2m30s ago)".len()),
    ("AGE", 5),
    ("IP", 11),
];

/// The columns of a table.
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

    /// The row of a pod; `status` replaces the pod's own status word.
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

    /// Columns that fit most pods in any state.
    pub(crate) fn usual_columns(self) -> Columns {
        let usual = |title: &String| USUAL.iter().find(|(known, _)| known == title);
        Columns::at_least(self.header().iter().map(|title| usual(title).map_or(0, |known| known.1)))
    }

    /// Which columns fit on a terminal.
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
        // The last omitted column may have freed more space than was needed.
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

/// By namespace, name and, for successive pods of one name, uid.
pub(crate) fn sort(pods: &mut [PodItem<Pod>]) {
    pods.sort_by_cached_key(|item| (view::pod_name(&item.pod), view::uid(&item.pod)));
}

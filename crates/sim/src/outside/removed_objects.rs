//! Finds objects that do not exist any more.

use std::collections::BTreeSet;
use std::path::Path;

use futures_util::FutureExt as _;
use model::ids::PodUid;
use model::log_layout::LogLayout;
use model::observed::{Container, Sandbox};
use model::ports::files::{FileError, HostFiles as _};

use super::Outside;
use crate::history::{Event, ObjectRef};

/// Directories with objects, and their kind in the journal.
const FOLDERS: [(&str, &str); 3] = [("pod-directory", "/pods"), ("log", LOGS), ("log", LINKS)];
const LOGS: &str = "/var/log/pods";
const LINKS: &str = "/var/log/containers";

/// The existing objects.
#[derive(Debug, Default)]
pub(super) struct Existing {
    /// Containers and sandboxes.
    runtime: BTreeSet<ObjectRef>,
    /// Images, and objects on disk.
    around: BTreeSet<ObjectRef>,
}

impl ObjectRef {
    fn new(kind: &str, id: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), id: id.into() }
    }
}

/// Replaces the existing objects; returns those that do not exist any more.
fn replace(before: &mut BTreeSet<ObjectRef>, now: BTreeSet<ObjectRef>) -> Vec<Event> {
    let gone = before.difference(&now).cloned().map(Event::Gone).collect();
    *before = now;
    gone
}

impl Existing {
    /// The removed containers and sandboxes, given the existing ones.
    pub(super) fn gone(&mut self, containers: &[Container], sandboxes: &[Sandbox]) -> Vec<Event> {
        let containers = containers.iter().map(|one| ObjectRef::new("container", one.id.as_str()));
        let sandboxes = sandboxes.iter().map(|one| ObjectRef::new("sandbox", one.id.as_str()));
        replace(&mut self.runtime, containers.chain(sandboxes).collect())
    }
}

impl Outside {
    /// The removed images and pod files.
    pub(crate) fn record_removed(&self) {
        let images = self.runtime.images().into_iter();
        let mut now: BTreeSet<ObjectRef> =
            images.map(|one| ObjectRef::new("image", one.id)).collect();
        for (kind, folder) in FOLDERS {
            let folder = Path::new(folder);
            let names = self.files.list(folder).now_or_never();
            let names = names.expect("files in memory return at once").unwrap_or_default();
            let path = |name: String| folder.join(name).to_string_lossy().into_owned();
            now.extend(names.into_iter().map(|name| ObjectRef::new(kind, path(name))));
        }
        let gone = replace(&mut self.state().there.around, now);
        for event in gone {
            self.record(event);
        }
    }

    /// Pods with a log directory.
    pub(crate) fn pods_with_logs(&self) -> BTreeSet<PodUid> {
        let names = self.files.list(Path::new(LOGS)).now_or_never();
        let names = names.expect("files in memory return at once").unwrap_or_default();
        names.iter().map(|name| LogLayout::pod_of_directory(name)).collect()
    }

    /// Missing log links of missing containers.
    pub(crate) fn dangling_links(&self) -> Vec<String> {
        let there: BTreeSet<_> = self.runtime.containers().into_iter().map(|one| one.id).collect();
        let entries = self.files.entries(Path::new(LINKS)).now_or_never();
        let entries = entries.expect("files in memory return at once").unwrap_or_default();
        let lead_nowhere = entries
            .into_iter()
            .filter(|entry| entry.found.as_ref().is_err_and(FileError::is_not_found));
        let names = lead_nowhere.filter_map(|entry| entry.name.into_string().ok());
        let is_left = |name: &String| {
            LogLayout::container_of_link(name).is_none_or(|id| !there.contains(&id))
        };
        names.filter(is_left).collect()
    }
}

//! Surveys log directories and log links.

use std::collections::BTreeSet;

use model::log_layout::LogLayout;
use model::panics::{PanicStep, PanicSubject};
use model::ports::files::{Entry, FileError, FileKind, FileVersion};
use model::ports::runtime::Code;

use super::guarded::logs_of;
use super::{Survey, alive_of};
use crate::containers::{ContainerGcParts, PassError};
use crate::decide::links::{LinkTarget, dangling};
use crate::plan::{Fate, Item};

/// Surveys logs and links once live pods are known.
pub(super) async fn logs_and_links(parts: &ContainerGcParts, survey: &mut Survey) {
    let entries = log_entries(parts, survey).await;
    let decide = |alive: &BTreeSet<_>| logs_of(parts, &entries, alive);
    survey.logs = survey.alive.as_ref().map(decide).unwrap_or_default();
    survey.links = dangling_links(parts).await;
}

/// The versions of the log directory and the link directory; `None` if one cannot be read.
pub(in crate::containers) type Versions = [Option<FileVersion>; 2];

pub(in crate::containers) async fn versions(parts: &ContainerGcParts) -> Versions {
    let version = async |path| parts.files.look(path).await.ok().map(|found| found.version);
    [version(&parts.logs.pod_logs).await, version(&parts.logs.container_links).await]
}

/// Surveys only logs and links. The runtime is called only for pods whose logs would be removed, to check for
/// live objects.
pub(in crate::containers) async fn files(parts: &ContainerGcParts) -> Survey {
    let mut survey = Survey::new(parts, false);
    let entries = log_entries(parts, &mut survey).await;
    let decide = |alive: &BTreeSet<_>| logs_of(parts, &entries, alive);
    survey.logs = decide(&BTreeSet::new());
    let would_go = survey.pods_without_logs();
    if !would_go.is_empty() {
        match alive_of(parts, &would_go).await {
            Ok(alive) => survey.logs = decide(&alive),
            Err(problem) => {
                survey.logs.retain(|item| item.fate == Fate::Keep);
                survey.problems.push(problem);
            }
        }
    }
    survey.links = dangling_links(parts).await;
    survey
}

/// The entries of the log directory. The flag says whether an entry is a directory.
async fn log_entries(parts: &ContainerGcParts, survey: &mut Survey) -> Vec<(String, bool)> {
    match parts.files.entries(&parts.logs.pod_logs).await {
        Ok(entries) => return entries.into_iter().filter_map(named).collect(),
        Err(error) if parts.pods.sources_ready() => {
            survey.problems.push(PassError::ReadLogs(error));
        }
        // Until all sources are ready nothing is removed, so a missing directory is not a problem.
        Err(_) => {}
    }
    Vec::new()
}

/// The name of an entry, and whether it is a directory. No pod has a name that is not UTF-8.
fn named(entry: Entry) -> Option<(String, bool)> {
    let is_directory = entry.found.is_ok_and(|found| found.kind == FileKind::Directory);
    Some((entry.name.into_string().ok()?, is_directory))
}

/// The fate of dangling links; other links are left alone.
async fn dangling_links(parts: &ContainerGcParts) -> Vec<Item> {
    let root = &parts.logs.container_links;
    let Ok(entries) = parts.files.entries(root).await else { return Vec::new() };
    let mut items = Vec::new();
    for entry in entries {
        let leads_nowhere = entry.found.as_ref().is_err_and(FileError::is_not_found);
        let Some(name) = entry.name.to_str().filter(|name| LogLayout::is_link_name(name)) else {
            continue;
        };
        if leads_nowhere {
            let found = container_of(parts, name).await;
            items.push(dangling(root, name, found, &*parts.pods));
        }
    }
    items
}

async fn container_of(parts: &ContainerGcParts, link: &str) -> LinkTarget {
    let Some(id) = LogLayout::container_of_link(link) else { return LinkTarget::NoId };
    let (of, status) = (PanicSubject::Object(link), parts.runtime.containers.container_status(&id));
    match parts.panics.catch_async(PanicStep::ContainerGc, of, status).await {
        // The link stays for the next pass.
        Err(_) => LinkTarget::Nothing,
        Ok(Ok(status)) => LinkTarget::State(status.state),
        Ok(Err(error)) if error.code == Code::DataLoss => LinkTarget::Nothing,
        Ok(Err(error)) if error.is_not_found() => LinkTarget::NotThere,
        Ok(Err(_)) => LinkTarget::Failed,
    }
}

//! The page of the URL: a list of pods.

use std::sync::Arc;

use crate::plan::PodPlan;

/// A label with the number of the page.
pub(super) fn mark(number: u64) -> String {
    format!("page-{number}-")
}

/// A page with these pods.
pub(super) fn page<'a>(number: u64, pods: impl Iterator<Item = &'a Arc<PodPlan>>) -> String {
    let items: String = pods.map(|pod| item(&pod.manifest())).collect();
    let items =
        if items.is_empty() { "items: []\n".to_owned() } else { format!("items:\n{items}") };
    format!("# {}\napiVersion: v1\nkind: PodList\n{items}", mark(number))
}

fn item(manifest: &str) -> String {
    let mut lines = manifest.lines();
    let first = lines.next().map(|line| format!("- {line}\n"));
    first.into_iter().chain(lines.map(|line| format!("  {line}\n"))).collect()
}

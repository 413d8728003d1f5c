//! Decisions by pod: if one panics, all objects of that pod stay until the next pass.

use std::collections::BTreeSet;

use model::ids::{PodUid, SandboxId};
use model::log_layout::LogLayout;
use model::observed::{Container, Sandbox};
use model::panics::{PanicGuard, PanicStep, PanicSubject};

use crate::containers::ContainerGcParts;
use crate::decide::Facts;
use crate::decide::containers::{ExitTimes, all_kept, containers};
use crate::decide::logs::logs;
use crate::decide::sandboxes::sandboxes;
use crate::plan::{Fate, Item};

const STEP: PanicStep = PanicStep::ContainerGc;

/// The fates of containers: of one pod, or of all pods if the node has a cap.
pub(super) fn containers_of(
    listed: &[Container],
    ended: &ExitTimes,
    facts: &Facts<'_>,
    guard: &PanicGuard,
) -> Vec<Item> {
    let of = match listed.first().filter(|_| facts.policy.in_all.is_none()) {
        Some(one) => PanicSubject::Pod(&one.pod_uid, Some(&one.pod)),
        None => PanicSubject::Object("containers of all pods"),
    };
    let decided = guard.catch(STEP, of, || containers(listed, ended, facts));
    decided.unwrap_or_else(|_| all_kept(listed))
}

/// The fates of sandboxes: removed ones first, by pod.
pub(super) fn sandboxes_of(
    mut listed: Vec<Sandbox>,
    in_use: &BTreeSet<SandboxId>,
    facts: &Facts<'_>,
    guard: &PanicGuard,
) -> Vec<Item> {
    listed.sort_by(|one, other| one.pod_uid.cmp(&other.pod_uid));
    let pods = listed.chunk_by(|one, next| one.pod_uid == next.pod_uid);
    let decided = pods.filter_map(|of_pod| {
        let one = of_pod.first()?;
        let of = PanicSubject::Pod(&one.pod_uid, Some(&one.pod));
        guard.catch(STEP, of, || sandboxes(of_pod, in_use, facts)).ok()
    });
    let (mut removed, kept): (Vec<Item>, Vec<Item>) =
        decided.flatten().partition(|item| item.fate == Fate::Remove);
    removed.extend(kept);
    removed
}

/// The fates of entries of the log directory.
pub(super) fn logs_of(
    parts: &ContainerGcParts,
    entries: &[(String, bool)],
    alive: &BTreeSet<PodUid>,
) -> Vec<Item> {
    let decided = entries.iter().filter_map(|entry| {
        let (uid, name) =
            (LogLayout::pod_of_directory(&entry.0), LogLayout::pod_name_of_directory(&entry.0));
        let of = PanicSubject::Pod(&uid, name.as_ref());
        let decide =
            || logs(&parts.logs.pod_logs, std::slice::from_ref(entry), alive, &*parts.pods);
        parts.panics.catch(STEP, of, decide).ok()
    });
    decided.flatten().collect()
}

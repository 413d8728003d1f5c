//! Dead sandboxes: upstream's `evictSandboxes`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::ids::{PodUid, SandboxId};
use model::observed::{Sandbox, SandboxState};
use model::pod_state::PodState;
use model::verdict::{Detail, Input, Owner, Subject};

use super::Facts;
use super::containers::count;
use crate::plan::{Fate, Item};

/// The fate of each sandbox, given those that will still have containers. Removed ones come first, by pod and
/// oldest first. Neither age nor caps count for sandboxes.
pub fn sandboxes(listed: &[Sandbox], in_use: &BTreeSet<SandboxId>, facts: &Facts<'_>) -> Vec<Item> {
    let mut pods: BTreeMap<&PodUid, Vec<&Sandbox>> = BTreeMap::new();
    for sandbox in listed {
        pods.entry(&sandbox.pod_uid).or_default().push(sandbox);
    }
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    for (uid, mut sandboxes) in pods {
        let state = facts.pods.state(uid);
        // In the order of the pod worker: the clock may have been set back.
        sandboxes.sort_by_key(|one| Reverse((one.attempt, one.created_at, &one.id)));
        let instances = sandboxes.len();
        let first = sandboxes.iter().min_by_key(|one| one.created_at).map(|one| one.id.clone());
        let first = first.filter(|_| facts.pods.needs_first_sandbox(uid));
        for (position, sandbox) in sandboxes.into_iter().enumerate().rev() {
            let used = in_use.contains(&sandbox.id);
            let mut decided = fate(sandbox, used, state, position, facts);
            if decided.1 == "sandbox-older" && first.as_ref() == Some(&sandbox.id) {
                decided = (Fate::Keep, "first-sandbox");
            }
            let (fate, rule) = decided;
            let detail = detail(sandbox, state, position, instances);
            let item = item(sandbox, fate, rule, detail);
            if fate == Fate::Remove { removed.push(item) } else { kept.push(item) }
        }
    }
    removed.append(&mut kept);
    removed
}

fn fate(
    sandbox: &Sandbox,
    used: bool,
    state: PodState,
    position: usize,
    facts: &Facts<'_>,
) -> (Fate, &'static str) {
    if sandbox.state == SandboxState::Ready {
        return (Fate::Keep, "sandbox-ready");
    }
    if used {
        return (Fate::Keep, "sandbox-in-use");
    }
    match (facts.removable(state), state) {
        (Some(rule), _) => (Fate::Remove, rule),
        (None, PodState::SourcesNotReady) => (Fate::Keep, "source-not-ready"),
        (None, PodState::Unknown) => (Fate::Keep, "pod-state-unknown"),
        // The next sandbox takes its attempt from it, and it has the path of the logs.
        (None, _) if position == 0 => (Fate::Keep, "newest-sandbox"),
        (None, _) => (Fate::Remove, "sandbox-older"),
    }
}

fn item(sandbox: &Sandbox, fate: Fate, rule: &'static str, detail: Detail) -> Item {
    Item {
        subject: Subject::Sandbox(sandbox.id.clone()),
        name: "".into(),
        owner: Owner::of(&sandbox.pod_uid, &sandbox.pod),
        fate,
        rule,
        detail,
    }
}

fn detail(sandbox: &Sandbox, state: PodState, position: usize, instances: usize) -> Detail {
    Detail::default()
        .with("pod", Input::Text(state.as_str().to_owned()))
        .with("position", count(position + 1))
        .with("instances", count(instances))
        .with("created", Input::Time(sandbox.created_at))
}

#[cfg(test)]
#[path = "sandboxes_tests.rs"]
mod tests;

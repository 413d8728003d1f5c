//! Terminated pods beyond a cap or a TTL.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::plan::{Excess, PodId, PodView, Removal, Rule, TerminatedPods, TerminatedPolicy};

/// Selects, in order: pods beyond the TTL, then pods beyond the caps of namespaces, of nodes and of the
/// cluster. A pod selected by one rule is not counted by the next.
pub fn terminated(
    pods: &dyn TerminatedPods,
    policy: &TerminatedPolicy,
    now: Timestamp,
) -> Vec<Removal> {
    let mut selection = Selection::default();
    if let Some(ttl) = policy.ttl {
        too_old(pods, ttl, now, &mut selection);
    }
    if let Some(cap) = policy.per_namespace {
        let over = pods.namespaces_over(cap);
        too_many_of(pods, &Cap { allowed: cap, over, of: CapScope::Namespace }, &mut selection);
    }
    if let Some(cap) = policy.per_node {
        let over = pods.nodes_over(cap);
        too_many_of(pods, &Cap { allowed: cap, over, of: CapScope::Node }, &mut selection);
    }
    if let Ok(threshold) = u32::try_from(policy.threshold)
        && threshold > 0
    {
        too_many(pods, threshold, &mut selection);
    }
    selection.removals
}

/// The selection so far.
#[derive(Debug, Default)]
struct Selection {
    /// Selected by a rule, whether they still have to be deleted or are already terminating.
    chosen: BTreeSet<PodId>,
    removals: Vec<Removal>,
}

impl Selection {
    fn choose(&mut self, pod: &PodView<'_>, rule: Rule) {
        if !pod.is_spent() {
            self.removals.push(Removal { pod: pod.id, rule });
        }
    }
}

fn too_old(pods: &dyn TerminatedPods, ttl: Duration, now: Timestamp, selection: &mut Selection) {
    let now = now.as_second();
    let seconds = |pod: &PodView<'_>| u64::try_from(now.saturating_sub(pod.finished)).unwrap_or(0);
    let age = |pod: &PodView<'_>| Duration::from_secs(seconds(pod));
    for pod in pods.by_finish().take_while(|pod| age(pod) >= ttl) {
        selection.chosen.insert(pod.id);
        selection.choose(&pod, Rule::OverTtl { age: age(&pod), ttl });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CapScope {
    Namespace,
    Node,
}

impl CapScope {
    fn name<'a>(self, pod: &PodView<'a>) -> &'a str {
        match self {
            Self::Namespace => pod.namespace,
            Self::Node => pod.node,
        }
    }
}

/// A cap, and the groups that exceed it.
#[derive(Debug)]
struct Cap<'a> {
    allowed: u32,
    over: Vec<(&'a str, u32)>,
    of: CapScope,
}

fn too_many_of(pods: &dyn TerminatedPods, cap: &Cap<'_>, selection: &mut Selection) {
    if cap.over.is_empty() {
        return;
    }
    // The numbers of existing and of selected pods.
    let mut groups: BTreeMap<&str, (u32, u32)> =
        cap.over.iter().map(|(name, count)| (*name, (*count, 0))).collect();
    if !selection.chosen.is_empty() {
        for pod in pods.in_order().filter(|pod| selection.chosen.contains(&pod.id)) {
            if let Some((count, _)) = groups.get_mut(cap.of.name(&pod)) {
                *count -= 1;
            }
        }
    }
    for pod in by_name(pods.in_order()) {
        let Some((terminated, taken)) = groups.get_mut(cap.of.name(&pod)) else { continue };
        if *taken >= terminated.saturating_sub(cap.allowed) || selection.chosen.contains(&pod.id) {
            continue;
        }
        *taken += 1;
        let excess = Excess { terminated: *terminated, allowed: cap.allowed, position: *taken };
        selection.chosen.insert(pod.id);
        selection.choose(
            &pod,
            match cap.of {
                CapScope::Namespace => Rule::OverNamespaceCap(excess),
                CapScope::Node => Rule::OverNodeCap(excess),
            },
        );
    }
}

fn too_many(pods: &dyn TerminatedPods, threshold: u32, selection: &mut Selection) {
    let staying = pods.count().saturating_sub(selection.chosen.len());
    let terminated = u32::try_from(staying).unwrap_or(u32::MAX);
    let excess = terminated.saturating_sub(threshold);
    if excess == 0 {
        return;
    }
    // Positions count as in upstream: a pod with a finalizer keeps its position.
    let first = by_name(pods.in_order())
        .filter(|pod| !selection.chosen.contains(&pod.id))
        .zip(1..=excess)
        .filter(|(pod, _)| !pod.is_spent());
    let first: Vec<Removal> = first
        .map(|(pod, position)| {
            let excess = Excess { terminated, allowed: threshold, position };
            Removal { pod: pod.id, rule: Rule::OverThreshold(excess) }
        })
        .collect();
    selection.removals.extend(first);
}

/// Orders pods of the same time by name, then by namespace, so that equal inputs give equal plans.
fn by_name<'a>(mut pods: impl Iterator<Item = PodView<'a>>) -> impl Iterator<Item = PodView<'a>> {
    let same =
        |a: &PodView<'_>, b: &PodView<'_>| (a.is_evicted, a.order) == (b.is_evicted, b.order);
    let mut next = pods.next();
    let mut group = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if let Some(pod) = group.next() {
            return Some(pod);
        }
        let first = next.take()?;
        let mut together = vec![first];
        for pod in pods.by_ref() {
            if same(&first, &pod) {
                together.push(pod);
            } else {
                next = Some(pod);
                break;
            }
        }
        together.sort_by(|a, b| (a.name, a.namespace).cmp(&(b.name, b.namespace)));
        group = together.into_iter();
        group.next()
    })
}

#[cfg(test)]
#[path = "terminated_tests.rs"]
mod tests;

//! Leftovers of containers and pods on a settled node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use model::ids::PodUid;
use model::observed::ContainerState;

use super::{Snapshot, Wanted};
use crate::history::Instance;

/// The maximum time until a removable object is removed: the next pass, and the pass in progress.
const PASS: Duration = Duration::from_secs(150);

/// An object of a pod that is not wanted.
pub(super) fn left(snapshot: &Snapshot, wanted: &Wanted) -> Option<String> {
    let uids = snapshot.sandboxes.iter().map(|sandbox| &sandbox.uid);
    let mut uids = uids.chain(snapshot.containers.iter().map(|one| &one.uid));
    let is_young = |uid: &PodUid| {
        snapshot.containers.iter().any(|one| one.uid == *uid && !is_old(snapshot, one))
    };
    let unwanted =
        |uid: &&PodUid| !wanted.contains_key(*uid) && (snapshot.lives(uid) || !is_young(uid));
    if let Some(uid) = uids.find(unwanted) {
        let what = if snapshot.lives(uid) { "lives" } else { "has left objects" };
        return Some(format!("{uid} {what} and is not wanted"));
    }
    if let Some(uid) = snapshot.cgroups.iter().find(|uid| !wanted.contains_key(*uid)) {
        return Some(format!("{uid} has left its cgroup and is not wanted"));
    }
    if let Some(uid) = snapshot.logs.iter().find(|uid| !wanted.contains_key(*uid)) {
        return Some(format!("{uid} has left its logs and is not wanted"));
    }
    snapshot
        .dangling
        .first()
        .map(|link| format!("{link} is dangling, and its container is removed"))
}

/// More dead containers than a cap, of those that could have been removed by now.
pub(super) fn over_caps(snapshot: &Snapshot) -> Option<String> {
    let ended_long_ago = |one: &&Instance| {
        one.state == Some(ContainerState::Exited)
            && one.finished.is_some_and(|finished| snapshot.at > finished + PASS)
            && is_old(snapshot, one)
    };
    let dead: Vec<&Instance> = snapshot.containers.iter().filter(ended_long_ago).collect();
    let mut each: BTreeMap<(&PodUid, &Arc<str>), usize> = BTreeMap::new();
    for one in &dead {
        *each.entry((&one.uid, &one.name)).or_default() += 1;
    }
    let cap = snapshot.policy.per_container;
    let over = each.iter().find(|(_, count)| cap.is_some_and(|cap| **count > cap));
    if let Some(((uid, name), count)) = over {
        return Some(format!("{count} of {name} of {uid} are dead, over the per-container cap"));
    }
    let cap = snapshot.policy.in_all.filter(|cap| dead.len() > *cap)?;
    Some(format!("{} containers are dead, over the node cap of {cap}", dead.len()))
}

/// Whether a container is old enough to be removed, and was for a while.
fn is_old(snapshot: &Snapshot, one: &Instance) -> bool {
    let least = snapshot.policy.min_age;
    let age = snapshot.ages.get(&one.id).copied().unwrap_or(SignedDuration::MAX);
    least.is_zero() || Duration::try_from(age).is_ok_and(|age| age >= least + PASS)
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Exited, Running};

    use super::*;
    use crate::plan::Policy;
    use crate::settled::tests::{instance, pod, snapshot};
    use crate::settled::unsettled;

    fn wanted() -> Wanted {
        Wanted::from([("u".into(), Arc::new(pod(Policy::Always)))])
    }

    /// A node with a running pod and this number of dead instances of each container, which ended this many
    /// seconds ago.
    fn with_dead(counts: [u32; 2], seconds: u64) -> Snapshot {
        let at = Duration::from_secs(1001);
        let ended = at.saturating_sub(Duration::from_secs(seconds));
        let instances = |name: &'static str, count| {
            let dead =
                move |number| Instance { finished: Some(ended), ..instance(name, number, Exited) };
            (0..count).map(dead).chain([instance(name, count, Running)])
        };
        let [a, b] = counts;
        snapshot(instances("a", a).chain(instances("b", b)).collect(), &[true])
    }

    #[test]
    fn finds_more_dead_containers_than_the_cap() {
        let rows = [
            // For each case: dead instances of each container, their age, the caps, and the
            // expected problem.
            ([1, 1], 600, (Some(1), None), None),
            (
                [1, 2],
                600,
                (Some(1), None),
                Some("2 of b of u are dead, over the per-container cap"),
            ),
            ([1, 2], 100, (Some(1), None), None),
            (
                [0, 1],
                600,
                (Some(0), None),
                Some("1 of b of u are dead, over the per-container cap"),
            ),
            ([3, 3], 600, (None, None), None),
            ([1, 2], 600, (None, Some(3)), None),
            ([2, 2], 600, (None, Some(3)), Some("4 containers are dead, over the node cap of 3")),
            ([2, 2], 100, (None, Some(0)), None),
        ];
        for (counts, seconds, (per_container, in_all), expected) in rows {
            let mut seen = with_dead(counts, seconds);
            (seen.policy.per_container, seen.policy.in_all) = (per_container, in_all);
            let found = unsettled(&seen, &wanted());
            assert_eq!(found.as_deref(), expected, "{counts:?} {seconds}");
        }
    }

    #[test]
    fn young_containers_are_kept_and_count_for_no_cap() {
        let mut seen = with_dead([0, 2], 600);
        seen.policy.min_age = Duration::from_mins(3);
        assert!(unsettled(&seen, &wanted()).is_some());
        seen.ages.insert("b0".into(), SignedDuration::from_secs(200));
        assert_eq!(unsettled(&seen, &wanted()), None);
        // The clock was set back.
        seen.ages.insert("b0".into(), SignedDuration::from_secs(-3600));
        assert_eq!(unsettled(&seen, &wanted()), None);
        let mut left = snapshot(vec![instance("a", 0, Exited)], &[false]);
        left.cgroups.clear();
        assert!(unsettled(&left, &Wanted::new()).is_some());
        left.policy.min_age = Duration::from_mins(3);
        assert!(unsettled(&left, &Wanted::new()).is_some(), "it is old enough");
        left.ages.insert("a0".into(), SignedDuration::from_secs(200));
        assert_eq!(unsettled(&left, &Wanted::new()), None);
        left.containers[0].state = Some(Running);
        assert!(unsettled(&left, &Wanted::new()).is_some(), "it lives");
    }

    #[test]
    fn finds_leftover_logs_and_links() {
        let mut seen = with_dead([0, 0], 600);
        seen.logs.insert("u".into());
        assert_eq!(unsettled(&seen, &wanted()), None);
        seen.logs.insert("other".into());
        let found = unsettled(&seen, &wanted());
        assert_eq!(found.as_deref(), Some("other has left its logs and is not wanted"));
        seen.logs.clear();
        seen.dangling.push("p_ns_a-0123456.log".to_owned());
        let found = unsettled(&seen, &wanted());
        let expected = "p_ns_a-0123456.log is dangling, and its container is removed";
        assert_eq!(found.as_deref(), Some(expected));
    }
}

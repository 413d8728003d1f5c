//! Pods that wait for their next regular look, in groups that are looked at together.
//!
//! A quiet node wakes up for a group and not for each of its pods; a group of which nothing can have
//! changed since it was looked at last is put back as it is.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use model::ids::PodUid;
use tokio::time::Instant;

/// Pods that wait for a regular look.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    groups: BTreeMap<Instant, Group>,
    /// The group of each pod. A pod that went elsewhere is still named by the group it was in, until
    /// that is looked at.
    members: BTreeMap<PodUid, u64>,
    /// Groups that a pod has left.
    disturbed: BTreeSet<u64>,
    groups_made: u64,
}

/// Pods that are looked at together.
#[derive(Debug)]
pub(crate) struct Group {
    id: u64,
    pub(crate) pods: Vec<PodUid>,
    /// The version of all statuses by which all of them were found at rest.
    pub(crate) found: Option<u64>,
}

impl Resting {
    /// The pod waits until then.
    pub(crate) fn add(&mut self, uid: PodUid, until: Instant) {
        self.remove(&uid);
        self.add_all(vec![uid], until, None);
    }

    /// Pods that wait for nothing wait until then; `found` if all of them were found at rest.
    pub(crate) fn add_all(&mut self, pods: Vec<PodUid>, until: Instant, found: Option<u64>) {
        if pods.is_empty() {
            return;
        }
        let made = &mut self.groups_made;
        let group = self.groups.entry(until).or_insert_with(|| {
            *made += 1;
            Group { id: *made, pods: Vec::new(), found }
        });
        group.found = group.found.filter(|_| group.found == found);
        self.members.extend(pods.iter().map(|uid| (uid.clone(), group.id)));
        group.pods.extend(pods);
    }

    /// The pod does not wait any more.
    pub(crate) fn remove(&mut self, uid: &PodUid) {
        if let Some(group) = self.members.remove(uid) {
            self.disturbed.insert(group);
        }
    }

    /// When the next group is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.groups.keys().next().copied()
    }

    /// A group that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Group> {
        let first = self.groups.first_entry()?;
        (*first.key() <= now).then(|| first.remove())
    }

    /// Whether all pods of a group are as they were found, by the version of all statuses.
    pub(crate) fn is_as_found(&self, group: &Group, version: u64) -> bool {
        group.found == Some(version) && !self.disturbed.contains(&group.id)
    }

    /// The pods of a group that still wait in it; they wait no more.
    pub(crate) fn dissolve(&mut self, group: Group) -> Vec<PodUid> {
        let Group { id, mut pods, .. } = group;
        self.disturbed.remove(&id);
        let members = &mut self.members;
        pods.retain(|uid| members.get(uid) == Some(&id) && members.remove(uid).is_some());
        pods
    }

    /// A pod that was struck off its group does not wait any more.
    pub(crate) fn release(&mut self, uid: &PodUid) {
        self.members.remove(uid);
    }

    /// Strikes pods off a group that are elsewhere.
    pub(crate) fn forget_gone(&mut self, group: &mut Group) {
        if self.disturbed.remove(&group.id) {
            group.pods.retain(|uid| self.members.get(uid) == Some(&group.id));
        }
    }

    /// Puts a group back as it is.
    pub(crate) fn put_back(&mut self, group: Group, until: Instant) {
        if group.pods.is_empty() {
            return;
        }
        if let Entry::Vacant(free) = self.groups.entry(until) {
            free.insert(group);
            return;
        }
        let found = group.found;
        let pods = self.dissolve(group);
        self.add_all(pods, until, found);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_group_is_as_found_until_a_status_changes_or_a_pod_comes_or_goes() {
        let (now, mut resting) = (Instant::now(), Resting::default());
        let at = |minute| now + Duration::from_mins(minute);
        resting.add("a".into(), now);
        resting.add("b".into(), now);
        let group = resting.take_due(now).unwrap();
        assert!(!resting.is_as_found(&group, 1), "nobody looked yet");
        let pods = resting.dissolve(group);
        resting.add_all(pods, at(1), Some(1));
        assert!(resting.take_due(now).is_none(), "not due");
        let group = resting.take_due(at(1)).unwrap();
        assert!(resting.is_as_found(&group, 1) && !resting.is_as_found(&group, 2));
        resting.put_back(group, at(2));
        resting.add("c".into(), at(3));
        let group = resting.take_due(at(2)).unwrap();
        assert!(resting.is_as_found(&group, 1), "others do not matter");
        resting.put_back(group, at(3));
        let group = resting.take_due(at(3)).unwrap();
        assert!(!resting.is_as_found(&group, 1), "one came");
        let pods = resting.dissolve(group);
        resting.add_all(pods, at(4), Some(1));
        resting.remove(&"a".into());
        let group = resting.take_due(at(4)).unwrap();
        assert!(!resting.is_as_found(&group, 1), "one went");
        assert_eq!(resting.dissolve(group), ["c", "b"].map(PodUid::from));
        assert_eq!((resting.next(), resting.members.len()), (None, 0));
        assert!(resting.disturbed.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_in_one_group_whatever_groups_it_was_in() {
        let (now, mut resting) = (Instant::now(), Resting::default());
        let later = now + Duration::from_mins(1);
        resting.add("a".into(), now);
        resting.add("a".into(), later);
        resting.add("b".into(), later);
        let first = resting.take_due(now).unwrap();
        resting.put_back(first, later);
        let merged = resting.take_due(later).unwrap();
        assert_eq!(resting.dissolve(merged), ["a", "b"].map(PodUid::from));
        assert_eq!(resting.dissolve(Group { id: 7, pods: vec!["a".into()], found: None }), []);
    }
}

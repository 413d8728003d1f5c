//! Which pod directories are removed next.

use std::collections::BTreeSet;

use model::ids::PodUid;

/// How many directories are removed at a time.
const AT_A_TIME: usize = 4;
/// Like `AT_A_TIME`, including slow removals: they must not hold up others when a file system hangs.
const WITH_SLOW: usize = 32;

/// Directories to be removed, each by one removal at a time.
#[derive(Debug, Default)]
pub(crate) struct RemovalQueue {
    waiting: BTreeSet<PodUid>,
    running: BTreeSet<PodUid>,
    /// The removals that were running at the last retry of others.
    slow: BTreeSet<PodUid>,
    /// Pods whose last removal failed.
    failed: BTreeSet<PodUid>,
}

impl RemovalQueue {
    /// A pod is gone. If a removal of its directory is running, another one follows.
    pub(crate) fn request(&mut self, uid: PodUid) {
        self.waiting.insert(uid);
    }

    /// Retries failed removals.
    pub(crate) fn retry(&mut self) {
        self.waiting.extend(self.failed.iter().cloned());
        self.slow.clone_from(&self.running);
    }

    /// The removals that start now. The directory of a pod that came back stays.
    pub(crate) fn start(&mut self, is_gone: impl Fn(&PodUid) -> bool) -> Vec<PodUid> {
        let quick = self.running.len() - self.slow.len();
        let most = WITH_SLOW.saturating_sub(self.running.len());
        let room = AT_A_TIME.saturating_sub(quick).min(most);
        let free = self.waiting.iter().filter(|uid| !self.running.contains(*uid) && is_gone(uid));
        let begin: Vec<PodUid> = free.take(room).cloned().collect();
        for uid in &begin {
            self.waiting.remove(uid);
            self.running.insert(uid.clone());
        }
        begin
    }

    /// Records the end of a removal. Returns whether it is the first failure in a row.
    pub(crate) fn ended(&mut self, uid: &PodUid, is_removed: bool) -> bool {
        self.running.remove(uid);
        self.slow.remove(uid);
        if is_removed {
            self.failed.remove(uid);
            return false;
        }
        self.failed.insert(uid.clone())
    }

    /// Whether the last removal for a pod failed.
    pub(crate) fn has_failed(&self, uid: &PodUid) -> bool {
        self.failed.contains(uid)
    }

    /// Pods whose directory is being removed.
    pub(crate) fn running(&self) -> &BTreeSet<PodUid> {
        &self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uids(names: &[&str]) -> Vec<PodUid> {
        names.iter().map(|name| PodUid::from(*name)).collect()
    }

    fn queue(names: &[&str]) -> RemovalQueue {
        let mut queue = RemovalQueue::default();
        for uid in uids(names) {
            queue.request(uid);
        }
        queue
    }

    #[test]
    fn removals_are_limited_in_total_and_to_one_per_pod() {
        let mut queue = queue(&["a", "b", "c", "d", "e", "f"]);
        assert_eq!(queue.start(|_| true), uids(&["a", "b", "c", "d"]));
        queue.request("a".into());
        assert_eq!(queue.start(|_| true), []);
        assert!(!queue.ended(&"b".into(), true));
        assert_eq!(queue.start(|_| true), uids(&["e"]), "a is being removed");
        queue.ended(&"a".into(), true);
        assert_eq!(queue.start(|_| true), uids(&["a"]), "it was requested again");
    }

    #[test]
    fn hanging_removals_delay_others_briefly_and_are_bounded() {
        let names: Vec<String> = (0..100).map(|number| format!("{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut queue = queue(&names);
        for next in names[..WITH_SLOW].chunks(AT_A_TIME) {
            assert_eq!(queue.start(|_| true), uids(next));
            assert_eq!(queue.start(|_| true), []);
            queue.retry();
        }
        assert_eq!(queue.start(|_| true), [], "none of them has ended");
        queue.ended(&"00".into(), true);
        assert_eq!(queue.start(|_| true), uids(&["32"]));
    }

    // behaviour: ACT-308
    #[test]
    fn failed_removal_waits_for_a_retry() {
        let mut queue = queue(&["a"]);
        queue.start(|_| true);
        assert!(queue.ended(&"a".into(), false));
        assert_eq!(queue.start(|_| true), []);
        queue.retry();
        assert_eq!(queue.start(|_| true), uids(&["a"]));
        assert!(!queue.ended(&"a".into(), false), "not the first failure");
        queue.retry();
        queue.start(|_| true);
        queue.ended(&"a".into(), true);
        queue.retry();
        assert_eq!(queue.start(|_| true), []);
    }

    #[test]
    fn directory_of_a_recreated_pod_stays_until_the_pod_is_removed() {
        let mut queue = queue(&["a", "b"]);
        assert_eq!(queue.start(|uid| uid.as_str() == "b"), uids(&["b"]));
        assert_eq!(queue.running().iter().cloned().collect::<Vec<_>>(), uids(&["b"]));
        assert_eq!(queue.start(|_| true), uids(&["a"]));
    }
}

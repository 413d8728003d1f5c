//! Which copy of a pod counts, and whether it is what was written.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::cluster::Version;
use podspec::view;

/// What was written last about a pod.
#[derive(Debug, Clone)]
pub struct Written {
    /// The number of the status.
    pub status: u64,
    /// Whether the pod may have been running.
    pub may_run: bool,
    /// The version that the pod had then.
    pub version: String,
    /// As in [`Answer`].
    pub listings: u64,
    /// The pod as the API server had it then, until the source has heard of it.
    pub answer: Option<Answer>,
}

/// A pod as the API server answered with it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The pod.
    pub pod: Arc<Pod>,
    /// How often the source had heard all pods from the beginning by then.
    pub listings: u64,
}

/// A pod whose deletion was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// Its version.
    pub version: String,
    /// As in [`Answer`].
    pub listings: u64,
}

/// The newer of what was heard, in the last of so many lists or after it, and what was answered. Versions
/// tell, but not across a list: it shows what is there, and a server whose store was put back to an older
/// state counts anew. Of two that cannot be compared it is what was heard.
pub fn newest<'a>(heard: &'a Arc<Pod>, listings: u64, answer: Option<&'a Answer>) -> &'a Arc<Pod> {
    let newer = answer.filter(|answer| {
        answer.listings == listings
            && view::uid(&answer.pod) == view::uid(heard)
            && Version::from(view::version(&answer.pod)) > Version::from(view::version(heard))
    });
    newer.map_or(heard, |answer| &answer.pod)
}

/// Whether just this status was written, and answered with just that copy. After another list the same version
/// may be another copy.
pub fn is_written(written: &Written, listings: u64, status: u64, may_run: bool, api: &Pod) -> bool {
    let is_same = written.status == status && written.may_run == may_run;
    is_same && written.listings == listings && written.version == view::version(api)
}

/// Whether the deletion of just that pod was asked for, so that it only has to be heard of. One that is there
/// in a later list is there again.
pub fn is_deleted(deleted: &Deleted, listings: u64, api: &Pod) -> bool {
    deleted.listings == listings && deleted.version == view::version(api)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::test_pods::pod;

    fn of(uid: &str, version: &str) -> Arc<Pod> {
        let mut pod = pod("Never", &["main"]);
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.resource_version = Some(version.to_owned());
        Arc::new(pod)
    }

    // behaviour: STW-16, STW-18, STW-36
    #[test]
    fn an_answer_counts_until_as_much_is_heard_or_all_is_heard_anew() {
        let rows = [
            ("newer", ("u1", "9"), ("u1", "8"), 3, true),
            ("by number, not by letter", ("u1", "10"), ("u1", "9"), 3, true),
            ("heard", ("u1", "9"), ("u1", "9"), 3, false),
            ("overtaken", ("u1", "9"), ("u1", "12"), 3, false),
            ("of another pod of that name", ("u1", "9"), ("u2", "8"), 3, false),
            ("before the last list", ("u1", "9"), ("u1", "8"), 4, false),
            ("without a number", ("u1", "x"), ("u1", "8"), 3, false),
            ("both without a number", ("u1", "x"), ("u1", "y"), 3, false),
        ];
        for (row, answer, heard, listings, answered) in rows {
            let answer = Answer { pod: of(answer.0, answer.1), listings: 3 };
            let heard = of(heard.0, heard.1);
            let newest = newest(&heard, listings, Some(&answer));
            let expected = if answered { &answer.pod } else { &heard };
            assert!(Arc::ptr_eq(newest, expected), "{row}");
        }
        let heard = of("u1", "1");
        assert!(Arc::ptr_eq(newest(&heard, 1, None), &heard));
    }

    // behaviour: STW-36
    #[test]
    fn a_deletion_is_asked_for_once_for_each_time_that_a_pod_is_there() {
        let deleted = Deleted { version: "9".to_owned(), listings: 3 };
        let rows = [("9", 3, true), ("9", 4, false), ("8", 3, false), ("10", 3, false)];
        for (version, listings, expected) in rows {
            let found = is_deleted(&deleted, listings, &of("u1", version));
            assert_eq!(found, expected, "{version} {listings}");
        }
    }

    // behaviour: STW-15, STW-17, STW-36
    #[test]
    fn what_was_written_is_so_until_anything_changes() {
        let version = "9".to_owned();
        let written = Written { status: 4, may_run: true, version, listings: 3, answer: None };
        let rows = [
            ("nothing", 3, 4, true, "9", true),
            ("another status", 3, 5, true, "9", false),
            ("it has stopped", 3, 4, false, "9", false),
            ("somebody changed it", 3, 4, true, "10", false),
            ("it is as it was before", 3, 4, true, "8", false),
            ("all was told anew", 4, 4, true, "9", false),
        ];
        for (row, listings, status, may_run, version, expected) in rows {
            let found = is_written(&written, listings, status, may_run, &of("u1", version));
            assert_eq!(found, expected, "{row}");
        }
    }
}

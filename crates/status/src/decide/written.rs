//! Decides which copy of a pod is newer, and whether a status was written to it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::cluster::Version;
use podspec::view;

/// The last write for a pod.
#[derive(Debug, Clone)]
pub struct LastWrite {
    /// The number of the status.
    pub status: u64,
    /// Whether the pod may have been running.
    pub may_run: bool,
    /// The resource version of the pod before the write.
    pub version: String,
    /// As in [`Response`].
    pub listings: u64,
    /// The pod in the response, until the source has delivered it.
    pub answer: Option<Response>,
}

/// A pod in a response of the API server.
#[derive(Debug, Clone)]
pub struct Response {
    /// The pod.
    pub pod: Arc<Pod>,
    /// How many complete lists the source had received by then.
    pub listings: u64,
}

/// A pod whose deletion was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedDeletion {
    /// Its version.
    pub version: String,
    /// As in [`Response`].
    pub listings: u64,
}

/// The newer of the copy that was received, as of this number of lists, and the last response. Resource
/// versions decide, but not across a list: it shows the current state, and a server restored from a backup
/// restarts its versions. If they cannot be compared, the received copy is used.
pub fn newest<'a>(
    received: &'a Arc<Pod>,
    listings: u64,
    answer: Option<&'a Response>,
) -> &'a Arc<Pod> {
    let newer = answer.filter(|answer| {
        answer.listings == listings
            && view::uid(&answer.pod) == view::uid(received)
            && Version::from(view::version(&answer.pod)) > Version::from(view::version(received))
    });
    newer.map_or(received, |answer| &answer.pod)
}

/// Whether exactly this status was written to exactly this copy. After another list the same resource version
/// may be another copy.
pub fn is_written(
    written: &LastWrite,
    listings: u64,
    status: u64,
    may_run: bool,
    api: &Pod,
) -> bool {
    let is_same = written.status == status && written.may_run == may_run;
    is_same && written.listings == listings && written.version == view::version(api)
}

/// Whether the deletion of exactly this pod was requested, so that only its event is outstanding. A pod in
/// a later list exists again.
pub fn is_deleted(deleted: &RequestedDeletion, listings: u64, api: &Pod) -> bool {
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
    fn response_is_used_until_received_or_listed_again() {
        let rows = [
            ("newer", ("u1", "9"), ("u1", "8"), 3, true),
            ("by number, not by letter", ("u1", "10"), ("u1", "9"), 3, true),
            ("received", ("u1", "9"), ("u1", "9"), 3, false),
            ("overtaken", ("u1", "9"), ("u1", "12"), 3, false),
            ("of another pod of that name", ("u1", "9"), ("u2", "8"), 3, false),
            ("before the last list", ("u1", "9"), ("u1", "8"), 4, false),
            ("without a number", ("u1", "x"), ("u1", "8"), 3, false),
            ("both without a number", ("u1", "x"), ("u1", "y"), 3, false),
        ];
        for (row, answer, received, listings, answered) in rows {
            let answer = Response { pod: of(answer.0, answer.1), listings: 3 };
            let received = of(received.0, received.1);
            let newest = newest(&received, listings, Some(&answer));
            let expected = if answered { &answer.pod } else { &received };
            assert!(Arc::ptr_eq(newest, expected), "{row}");
        }
        let received = of("u1", "1");
        assert!(Arc::ptr_eq(newest(&received, 1, None), &received));
    }

    // behaviour: STW-36
    #[test]
    fn deletion_is_requested_once_per_listed_pod() {
        let deleted = RequestedDeletion { version: "9".to_owned(), listings: 3 };
        let rows = [("9", 3, true), ("9", 4, false), ("8", 3, false), ("10", 3, false)];
        for (version, listings, expected) in rows {
            let found = is_deleted(&deleted, listings, &of("u1", version));
            assert_eq!(found, expected, "{version} {listings}");
        }
    }

    // behaviour: STW-15, STW-17, STW-36
    #[test]
    fn write_is_current_until_anything_changes() {
        let version = "9".to_owned();
        let written = LastWrite { status: 4, may_run: true, version, listings: 3, answer: None };
        let rows = [
            ("no change", 3, 4, true, "9", true),
            ("another status", 3, 5, true, "9", false),
            ("stopped", 3, 4, false, "9", false),
            ("changed by another client", 3, 4, true, "10", false),
            ("restored from a backup", 3, 4, true, "8", false),
            ("listed again", 4, 4, true, "9", false),
        ];
        for (row, listings, status, may_run, version, expected) in rows {
            let found = is_written(&written, listings, status, may_run, &of("u1", version));
            assert_eq!(found, expected, "{row}");
        }
    }
}

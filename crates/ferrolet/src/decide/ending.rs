//! How pods end that no source has any more.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodName;
use pods::decide::worker::{Target, Update};

/// How long a pod may take to end of which nobody knows what it was.
const STRANGERS_GRACE: Duration = Duration::from_secs(1);

/// What a pod that its source no longer has is to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parted {
    /// It has a worker, which ends it.
    Works,
    /// It may run all the same: what it was must be known when that is seen.
    MayRun,
    /// Nothing of it runs.
    Never,
}

/// What a pod is that its source no longer has. Without a worker only a pod of an earlier agent can run, and
/// all of those are found once the runtime was listed and every source was heard.
pub(crate) fn parted(working: bool, all_found: bool) -> Parted {
    match (working, all_found) {
        (true, _) => Parted::Works,
        (false, false) => Parted::MayRun,
        (false, true) => Parted::Never,
    }
}

/// Ends a pod that runs and has no worker: as it says itself if a source of this agent ever had it.
pub(crate) fn kill(known: Option<Arc<Pod>>, name: PodName) -> Update {
    match known {
        Some(pod) => Update::Kill { target: Target::Pod(pod), grace: None, evict: false },
        None => Update::Kill {
            target: Target::RuntimeOnly(name),
            grace: Some(STRANGERS_GRACE),
            evict: false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: WRK-20
    #[test]
    fn what_a_pod_was_is_kept_while_it_may_run_unseen() {
        // has a worker, all that runs was found
        let rows = [
            (true, true, Parted::Works),
            (true, false, Parted::Works),
            (false, false, Parted::MayRun),
            (false, true, Parted::Never),
        ];
        for (working, all_found, expected) in rows {
            assert_eq!(parted(working, all_found), expected, "{working} {all_found}");
        }
    }

    // behaviour: WRK-20
    #[test]
    fn a_pod_that_was_known_ends_as_it_says_and_a_stranger_at_once() {
        let name = PodName::new("default", "web");
        let pod = Arc::new(testkit::pods::pod("web").build());
        let known = kill(Some(Arc::clone(&pod)), name.clone());
        assert_eq!(known, Update::Kill { target: Target::Pod(pod), grace: None, evict: false });
        let grace = Some(Duration::from_secs(1));
        let target = Target::RuntimeOnly(name.clone());
        assert_eq!(kill(None, name), Update::Kill { target, grace, evict: false });
    }
}

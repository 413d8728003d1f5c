//! What follows a successful sync.

use jiff::Timestamp;
use pods::decide::requeue::Retry;
use pods::decide::worker::Outcome;
use runtime::decide::Progress;

/// The steps after a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AfterSync {
    /// The result for the worker.
    pub(crate) outcome: Outcome,
    /// Whether the sync changed anything.
    pub(crate) acted: bool,
    /// Whether the status is published again.
    pub(crate) publish: bool,
    /// Whether a new status is requested from the runtime.
    pub(crate) refresh: bool,
}

/// Decides what follows a sync of a pod, given its deadline, and whether containers had failed to start before.
pub(crate) fn after_sync(
    progress: Progress,
    waited: bool,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> AfterSync {
    let again = match progress {
        Progress::Resized | Progress::Again => Some(Retry::At(now)),
        Progress::Nothing | Progress::Done => deadline.map(Retry::Deadline),
    };
    let outcome = again.map_or(Outcome::Done, Outcome::Again);
    let acted = progress != Progress::Nothing;
    AfterSync {
        outcome,
        acted,
        // The wait is over and no container starts, so no other change would publish the status.
        publish: waited && !acted,
        refresh: progress == Progress::Resized,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_syncs_again_for_further_work_or_at_its_deadline() {
        let (now, end) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let rows = [
            (Progress::Nothing, None, None, false),
            (Progress::Nothing, Some(end), Some(Retry::Deadline(end)), false),
            (Progress::Done, None, None, false),
            (Progress::Done, Some(end), Some(Retry::Deadline(end)), false),
            (Progress::Again, None, Some(Retry::At(now)), false),
            (Progress::Again, Some(end), Some(Retry::At(now)), false),
            (Progress::Resized, Some(end), Some(Retry::At(now)), true),
        ];
        for (progress, deadline, again, refresh) in rows {
            let after = after_sync(progress, false, deadline, now);
            let outcome = again.map_or(Outcome::Done, Outcome::Again);
            let acted = progress != Progress::Nothing;
            let expected = AfterSync { outcome, acted, publish: false, refresh };
            assert_eq!(after, expected, "{progress:?} {deadline:?}");
        }
    }

    #[test]
    fn status_is_published_when_a_wait_ends_without_an_action() {
        let publishes =
            |progress, waited| after_sync(progress, waited, None, Timestamp::UNIX_EPOCH).publish;
        assert!(publishes(Progress::Nothing, true));
        assert!(!publishes(Progress::Nothing, false));
        // The change is observed by the PLEG and published then.
        for progress in [Progress::Done, Progress::Again, Progress::Resized] {
            assert!(!publishes(progress, true), "{progress:?}");
        }
    }
}

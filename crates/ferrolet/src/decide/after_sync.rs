//! What comes after a sync in which all worked that was to be done.

use jiff::Timestamp;
use pods::decide::requeue::Retry;
use pods::decide::worker::Outcome;
use runtime::decide::Progress;

/// What is done then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AfterSync {
    /// What the worker hears.
    pub(crate) outcome: Outcome,
    /// Whether anything was done.
    pub(crate) acted: bool,
    /// Whether it is told anew how the pod is.
    pub(crate) tell: bool,
    /// Whether the pod is looked at closely.
    pub(crate) look: bool,
}

/// What comes after a sync of a pod that may end at a time, where somebody waited before or nobody did.
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
        // Nobody waits any more, and nothing starts that would tell so.
        tell: waited && !acted,
        look: progress == Progress::Resized,
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
        for (progress, deadline, again, look) in rows {
            let after = after_sync(progress, false, deadline, now);
            let outcome = again.map_or(Outcome::Done, Outcome::Again);
            let acted = progress != Progress::Nothing;
            let expected = AfterSync { outcome, acted, tell: false, look };
            assert_eq!(after, expected, "{progress:?} {deadline:?}");
        }
    }

    #[test]
    fn waiting_status_is_published_only_when_the_wait_changes() {
        let tells =
            |progress, waited| after_sync(progress, waited, None, Timestamp::UNIX_EPOCH).tell;
        assert!(tells(Progress::Nothing, true));
        assert!(!tells(Progress::Nothing, false));
        // What was done is seen, and told then.
        for progress in [Progress::Done, Progress::Again, Progress::Resized] {
            assert!(!tells(progress, true), "{progress:?}");
        }
    }
}

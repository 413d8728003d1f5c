//! Decides what is written to the API server about a pod.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use podspec::view;

use crate::decide::merge::{MergeInput, is_same, merge};
use crate::decide::patch::status_patch;
use crate::decide::phase::Phase;

/// How long a status with no relevant change waits, since another change usually follows at once: when a pod
/// is about to start, or about to terminate.
pub(crate) const COMPANY: Duration = Duration::from_millis(500);

/// The waiting reasons of a container without problems that is not created yet.
const UNTIL_MADE: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct WriteInput<'a> {
    /// The pod in the API server; for a static pod its mirror pod.
    pub api: &'a Pod,
    /// The computed status.
    pub ours: &'a PodStatus,
    /// Whether its containers may still run.
    pub may_run: bool,
    /// Whether nothing of it is left on the node.
    pub finished: bool,
    /// Whether exactly this was written to exactly this copy.
    pub written: bool,
    /// How long its status has differed from the API server's.
    pub waited: Duration,
    /// The time now.
    pub now: Timestamp,
}

/// The write to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Nothing.
    Nothing,
    /// Patch the status.
    Patch(String),
    /// Nothing before this time has passed, unless the status changes.
    Later(Duration),
    /// Delete the pod.
    Delete,
}

/// Decides the write for a pod: its status if the API server's differs, and after that its deletion
/// if the pod is being deleted and nothing of it is left.
pub fn write(input: &WriteInput<'_>) -> Write {
    let none = PodStatus::default();
    let api = input.api.status.as_ref().unwrap_or(&none);
    if !input.written {
        let WriteInput { ours, may_run, now, .. } = *input;
        let merged = merge(&MergeInput { api: input.api, ours, may_run, now });
        let differs = !is_same(api, &merged);
        let left = COMPANY.saturating_sub(input.waited);
        if differs && !left.is_zero() && is_not_urgent(api, &merged) {
            return Write::Later(left);
        }
        if let Some(patch) =
            differs.then(|| status_patch(&view::uid(input.api), api, &merged)).flatten()
        {
            return Write::Patch(patch);
        }
    }
    let is_terminal = Phase::of(api).is_some_and(Phase::is_terminal);
    let must_be_deleted = view::is_being_deleted(input.api)
        && !view::is_mirror(input.api)
        && !only_finalizers_hold(input.api);
    if must_be_deleted && is_terminal && input.finished { Write::Delete } else { Write::Nothing }
}

/// Whether the API server's status of a pod differs from the desired one; upstream's `needsReconcile`.
pub fn needs_reconcile(api: &Pod, ours: &PodStatus, may_run: bool, now: Timestamp) -> bool {
    let none = PodStatus::default();
    let merged = merge(&MergeInput { api, ours, may_run, now });
    !is_same(api.status.as_ref().unwrap_or(&none), &merged)
}

/// Whether a status is not urgent: a new pod is about to start, or only the observed generation
/// changed, for example by its deletion.
fn is_not_urgent(api: &PodStatus, merged: &PodStatus) -> bool {
    let is_new = api.start_time.is_none() && is_about_to_start(merged);
    let generation = api.observed_generation;
    let is_terminal = Phase::of(merged).is_some_and(Phase::is_terminal);
    // Only if the generation differs can it be the only difference.
    let is_seen = generation != merged.observed_generation && !is_terminal;
    let is_old = || is_same(api, &PodStatus { observed_generation: generation, ..merged.clone() });
    is_new || (is_seen && is_old())
}

fn is_about_to_start(status: &PodStatus) -> bool {
    let is_made = |one: &ContainerStatus| {
        let waiting = one.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
        one.last_state.is_none() && reason.is_some_and(|reason| UNTIL_MADE.contains(&reason))
    };
    let lists = [&status.init_container_statuses, &status.container_statuses];
    Phase::of(status) == Some(Phase::Pending)
        && status.reason.is_none()
        && lists.into_iter().flatten().flatten().all(is_made)
}

/// Whether only finalizers hold the pod: its grace period is over.
fn only_finalizers_hold(pod: &Pod) -> bool {
    pod.metadata.deletion_grace_period_seconds == Some(0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerState, ContainerStateWaiting};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::decide::test_pods::{at, deleted, own_by_node, pod};

    fn without_grace(mut pod: Pod) -> Pod {
        pod.metadata.deletion_grace_period_seconds = Some(0);
        pod
    }

    fn with_phase(phase: &str) -> PodStatus {
        PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() }
    }

    fn of_api(phase: &str) -> Pod {
        Pod { status: Some(with_phase(phase)), ..pod("Never", &["main"]) }
    }

    fn mirror(mut pod: Pod) -> Pod {
        let mark = ("kubernetes.io/config.mirror".to_owned(), "u1".to_owned());
        pod.metadata.annotations = Some([mark].into());
        own_by_node(&mut pod);
        pod
    }

    fn decide(api: &Pod, ours: &str, may_run: bool, finished: bool) -> &'static str {
        let ours = with_phase(ours);
        let waited = COMPANY;
        let input =
            WriteInput { api, ours: &ours, may_run, finished, written: false, waited, now: at(1) };
        match write(&input) {
            Write::Nothing => "nothing",
            Write::Patch(_) => "patch",
            Write::Later(_) => "later",
            Write::Delete => "delete",
        }
    }

    // behaviour: STW-11, STW-12, STW-13, STW-14
    #[test]
    fn status_is_written_before_the_deletion() {
        let rows = vec![
            ("new status", of_api("Pending"), "Running", true, false, "patch"),
            ("known", of_api("Running"), "Running", true, false, "nothing"),
            ("held back", of_api("Running"), "Failed", true, false, "nothing"),
            ("over", of_api("Running"), "Failed", false, false, "patch"),
            ("not being deleted", of_api("Failed"), "Failed", false, true, "nothing"),
            ("runs", deleted(of_api("Running")), "Running", true, false, "nothing"),
            ("not written yet", deleted(of_api("Running")), "Failed", false, true, "patch"),
            ("something is left", deleted(of_api("Failed")), "Failed", false, false, "nothing"),
            ("gone", deleted(of_api("Failed")), "Failed", false, true, "delete"),
            (
                "held by finalizers",
                without_grace(deleted(of_api("Failed"))),
                "Failed",
                false,
                true,
                "nothing",
            ),
            ("a mirror", mirror(deleted(of_api("Failed"))), "Failed", false, true, "nothing"),
        ];
        for (row, api, ours, may_run, finished, expected) in rows {
            assert_eq!(decide(&api, ours, may_run, finished), expected, "{row}");
        }
    }

    // behaviour: STW-15
    #[test]
    fn ineffective_write_is_not_repeated() {
        let (api, ours) = (of_api("Pending"), with_phase("Running"));
        let input = WriteInput {
            api: &api,
            ours: &ours,
            may_run: true,
            finished: false,
            written: true,
            waited: COMPANY,
            now: at(1),
        };
        assert_eq!(write(&input), Write::Nothing);
    }

    // behaviour: STW-44
    #[test]
    fn status_that_is_not_urgent_waits() {
        let with = |phase: &str, reason: &str, generation: i64| {
            let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message: None };
            let state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
            let container = ContainerStatus { state: Some(state), ..ContainerStatus::default() };
            PodStatus {
                observed_generation: Some(generation),
                container_statuses: Some(vec![container]),
                start_time: Some(Time(at(1))),
                ..with_phase(phase)
            }
        };
        let (none, made) = (PodStatus::default(), "ContainerCreating");
        let of_server = with_phase("Pending");
        let refused = PodStatus { reason: Some("OutOfcpu".to_owned()), ..with("Failed", made, 1) };
        let later = Write::Later(Duration::from_millis(400));
        let rows = [
            ("just created", &of_server, with("Pending", made, 1), true),
            ("no status yet", &none, with("Pending", "PodInitializing", 1), true),
            ("cannot start", &of_server, with("Pending", "ErrImagePull", 1), false),
            ("rejected", &of_server, refused, false),
            ("running", &of_server, with("Running", made, 1), false),
            (
                "pending is already published",
                &with("Pending", made, 1),
                with("Running", made, 1),
                false,
            ),
            ("deletion observed", &with("Running", made, 1), with("Running", made, 2), true),
            ("terminal pod", &with("Failed", made, 1), with("Failed", made, 2), false),
            ("terminated", &with("Running", made, 1), with("Failed", made, 2), false),
        ];
        for (row, api, ours, waits) in rows {
            let api = Pod { status: Some(api.clone()), ..pod("Never", &["main"]) };
            let decide = |waited| {
                let (may_run, finished, written) = (false, false, false);
                let now = at(1);
                write(&WriteInput {
                    api: &api,
                    ours: &ours,
                    may_run,
                    finished,
                    written,
                    waited,
                    now,
                })
            };
            let soon = decide(Duration::from_millis(100));
            assert_eq!(soon == later, waits, "{row}: {soon:?}");
            for write in [soon, decide(COMPANY)].into_iter().skip(usize::from(waits)) {
                assert!(matches!(write, Write::Patch(_)), "{row}: {write:?}");
            }
        }
    }
}

//! What is to be written to the API server about a pod.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use podspec::view;

use crate::decide::merge::{MergeInput, is_same, merge};
use crate::decide::patch::status_patch;
use crate::decide::phase::Phase;

/// What is known of a pod.
#[derive(Debug, Clone, Copy)]
pub struct WriteInput<'a> {
    /// The pod as the API server has it; of a static pod its mirror.
    pub api: &'a Pod,
    /// How the pod is.
    pub ours: &'a PodStatus,
    /// Whether containers of it may still run.
    pub may_run: bool,
    /// Whether nothing of it is left on the node.
    pub finished: bool,
    /// Whether just this was written and answered with just that.
    pub written: bool,
    /// The time now.
    pub now: Timestamp,
}

/// What to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Nothing.
    Nothing,
    /// Its status, by this patch.
    Patch(String),
    /// That it is gone.
    Delete,
}

/// What is to be written about a pod: its status if the API server has another one, and after that its end
/// if somebody wants it gone and nothing of it is left.
pub fn write(input: &WriteInput<'_>) -> Write {
    let none = PodStatus::default();
    let api = input.api.status.as_ref().unwrap_or(&none);
    if !input.written {
        let WriteInput { ours, may_run, now, .. } = *input;
        let merged = merge(&MergeInput { api: input.api, ours, may_run, now });
        let differs = !is_same(api, &merged);
        if let Some(patch) =
            differs.then(|| status_patch(&view::uid(input.api), api, &merged)).flatten()
        {
            return Write::Patch(patch);
        }
    }
    let is_over = Phase::of(api).is_some_and(Phase::is_terminal);
    let goes = view::is_being_deleted(input.api)
        && !view::is_mirror(input.api)
        && !only_finalizers_hold(input.api);
    if goes && is_over && input.finished { Write::Delete } else { Write::Nothing }
}

/// Whether a pod is gone as soon as its finalizers let it: no time is left to it.
fn only_finalizers_hold(pod: &Pod) -> bool {
    pod.metadata.deletion_grace_period_seconds == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::test_pods::{at, deleted, pod};

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
        pod
    }

    fn decide(api: &Pod, ours: &str, may_run: bool, finished: bool) -> &'static str {
        let ours = with_phase(ours);
        let input = WriteInput { api, ours: &ours, may_run, finished, written: false, now: at(1) };
        match write(&input) {
            Write::Nothing => "nothing",
            Write::Patch(_) => "patch",
            Write::Delete => "delete",
        }
    }

    // behaviour: STW-11, STW-12, STW-13, STW-14
    #[test]
    fn a_status_is_written_and_then_the_end() {
        let rows = vec![
            ("new status", of_api("Pending"), "Running", true, false, "patch"),
            ("known", of_api("Running"), "Running", true, false, "nothing"),
            ("held back", of_api("Running"), "Failed", true, false, "nothing"),
            ("over", of_api("Running"), "Failed", false, false, "patch"),
            ("nobody wants it gone", of_api("Failed"), "Failed", false, true, "nothing"),
            ("runs", deleted(of_api("Running")), "Running", true, false, "nothing"),
            (
                "the API does not know yet",
                deleted(of_api("Running")),
                "Failed",
                false,
                true,
                "patch",
            ),
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
    fn what_was_written_and_changed_nothing_is_not_written_again() {
        let (api, ours) = (of_api("Pending"), with_phase("Running"));
        let input = WriteInput {
            api: &api,
            ours: &ours,
            may_run: true,
            finished: false,
            written: true,
            now: at(1),
        };
        assert_eq!(write(&input), Write::Nothing);
    }
}

//! The pod statuses that agents report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use model::ids::PodUid;
use podspec::view;
use server::{PodAndStatus, PodView};

use crate::history::{Event, Record};

/// The reported container statuses of each pod.
pub type ReportedStatuses = BTreeMap<PodUid, String>;

/// The current statuses.
pub(crate) fn reported(pods: &dyn PodView) -> ReportedStatuses {
    pods.pods().iter().map(|known| (view::uid(&known.pod), status(known))).collect()
}

/// The phase of a pod, with the ids and states of its container instances. Restart counts are left out, because
/// a new agent may count differently: as upstream, it counts an exit that no agent observed when it finds it,
/// and once more when the next instance runs.
fn status(known: &PodAndStatus) -> String {
    let Some(status) = &known.status else { return "nothing yet".to_owned() };
    let mut text = format!("{}; ", status.phase.as_deref().unwrap_or("no phase"));
    // Instances of init containers are removed, and then their last exit is only remembered.
    for one in status.init_container_statuses.iter().flatten() {
        let runs = one.state.as_ref().is_some_and(|state| state.running.is_some());
        write!(text, "{} {}; ", one.name, if runs { "runs" } else { "rests" })
            .expect("writing to a string succeeds");
    }
    for one in status.container_statuses.iter().flatten() {
        let id = one.container_id.as_deref().unwrap_or("none");
        let state = one.state.as_ref();
        let runs = state.and_then(|state| state.running.as_ref()).is_some();
        let ended = state.and_then(|state| state.terminated.as_ref()).map(|ended| ended.exit_code);
        let state = match ended {
            Some(code) => format!("ended with {code}"),
            None if runs => "runs".to_owned(),
            None => "waits".to_owned(),
        };
        write!(text, "{} {id} {state}; ", one.name).expect("writing to a string succeeds");
    }
    text
}

/// A pod whose status differs between a new agent and the one before, although the pod did not change for a
/// while before the old one's death, nor since.
pub fn changed_status(
    before: &ReportedStatuses,
    ended: Duration,
    after: &ReportedStatuses,
    news: &[Record],
    reaction: Duration,
) -> Option<String> {
    let lately = news.iter().filter(|record| record.at + reaction > ended);
    let moved: BTreeSet<&PodUid> = lately
        .filter_map(|record| match &record.event {
            Event::Container(one, _) => Some(&one.uid),
            Event::Sandbox(_, uid, _) => Some(uid),
            _ => None,
        })
        .collect();
    let mut at_rest = before.iter().filter(|(uid, _)| !moved.contains(uid));
    at_rest.find_map(|(uid, reported)| match after.get(uid) {
        Some(now) if now == reported => None,
        now => {
            let now = now.map_or("nothing", String::as_str);
            Some(format!("of {uid} was reported: {reported}\nand now: {now}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::observed::ContainerState::{Exited, Running};
    use model::observed::SandboxState;

    use super::*;
    use crate::settled::tests::instance;

    #[test]
    fn finds_status_change_without_a_pod_change() {
        let all = |a: &str, b: &str| -> ReportedStatuses {
            [("a".into(), a.to_owned()), ("u".into(), b.to_owned())].into()
        };
        let seconds = Duration::from_secs;
        let (before, ended) = (all("Running", "Running"), seconds(100));
        let found = |after: &ReportedStatuses, news: &[Record]| {
            changed_status(&before, ended, after, news, seconds(30))
        };
        assert_eq!(found(&before, &[]), None);
        let after = all("Running", "Failed");
        assert_eq!(
            found(&after, &[]).as_deref(),
            Some("of u was reported: Running\nand now: Failed")
        );
        let missing: ReportedStatuses = [("u".into(), "Running".to_owned())].into();
        assert!(found(&missing, &[]).is_some());
        let container = Event::Container(Arc::new(instance("x", 0, Exited)), Some(Running));
        let sandbox = Event::Sandbox("s".into(), "u".into(), SandboxState::NotReady);
        for event in [container, sandbox] {
            for (at, expected) in [(60, true), (80, false), (120, false)] {
                let news = [Record { at: seconds(at), event: event.clone() }];
                assert_eq!(found(&after, &news).is_some(), expected, "{at} {event:?}");
            }
        }
    }
}

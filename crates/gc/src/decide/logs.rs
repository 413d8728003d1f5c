//! Log directories of pods that are not there any more: upstream's `evictPodLogsDirectories`.

use std::path::Path;

use model::log_layout::LogLayout;
use model::pod_state::PodState;
use model::verdict::{Detail, Input, Owner, Subject};

use super::PodStates;
use crate::plan::{Fate, Item};

/// What becomes of each entry of the directory of logs. That the node needs room changes nothing:
/// the logs of a pod that still exists stay.
pub fn logs(root: &Path, names: &[String], pods: &dyn PodStates) -> Vec<Item> {
    let all = names.iter().map(|name| {
        let uid = LogLayout::pod_of_directory(name);
        let state = pods.state(&uid);
        let (fate, rule) = match (state.logs_removable(), state) {
            (Some(_), _) if !pods.sources_ready() => (Fate::Keep, "source-not-ready"),
            (Some(rule), _) => (Fate::Remove, rule),
            (None, PodState::NotHeard) => (Fate::Keep, "source-not-ready"),
            (None, PodState::Unasked) => (Fate::Keep, "pod-state-unknown"),
            (None, _) => (Fate::Keep, "pod-exists"),
        };
        Item {
            subject: Subject::PodLogs(root.join(name)),
            name: "".into(),
            owner: Some(Owner { uid, pod: None }),
            fate,
            rule,
            detail: Detail::default().with("pod", Input::Text(state.word().to_owned())),
        }
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::test_pods::Pods;

    fn removed(pods: &Pods) -> Vec<String> {
        let names = ["123", "789", "ns_name_321", "ns_name_654"].map(str::to_owned);
        let items = logs(Path::new("/logs"), &names, pods);
        assert_eq!(items.len(), names.len(), "every entry has its item");
        let gone = items.into_iter().filter(|item| item.fate == Fate::Remove);
        gone.map(|item| item.subject.to_string()).collect()
    }

    // behaviour: GC-50, GC-51, GC-58
    #[test]
    fn directories_of_pods_that_are_gone_go_once_all_sources_were_heard() {
        let pods = Pods::ready().active(&["123", "321"]);
        assert_eq!(removed(&pods), ["logs /logs/789", "logs /logs/ns_name_654"]);
        assert_eq!(removed(&pods.clone().sources_not_ready()), [""; 0]);
        let ended = pods.clone().terminated(&["789"]).deleted(&["654"]);
        assert_eq!(removed(&ended), ["logs /logs/ns_name_654"]);
    }

    // behaviour: GC-57
    #[test]
    fn an_evicted_pod_keeps_its_logs_until_nothing_of_it_runs() {
        let pods = Pods::ready().active(&["123", "321", "654"]);
        assert_eq!(removed(&pods.clone().evicting(&["789"])), [""; 0]);
        assert_eq!(removed(&pods.evicted(&["789"])), ["logs /logs/789"]);
    }
}

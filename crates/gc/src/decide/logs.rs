//! Log directories of gone pods: upstream's `evictPodLogsDirectories`.

use std::collections::BTreeSet;
use std::path::Path;

use model::ids::PodUid;
use model::log_layout::LogLayout;
use model::pod_state::PodState;
use model::verdict::{Detail, Input, Owner, Subject};

use super::PodStates;
use crate::plan::{Fate, Item};

/// The fate of each entry of the log directory, given whether it is a directory and the pods with live objects.
/// Disk pressure changes nothing: the logs of an existing pod stay. An entry that is not a directory is not a
/// pod's log and stays; upstream would remove it.
pub fn logs(
    root: &Path,
    entries: &[(String, bool)],
    alive: &BTreeSet<PodUid>,
    pods: &dyn PodStates,
) -> Vec<Item> {
    let all = entries.iter().map(|(name, is_directory)| {
        let uid = LogLayout::pod_of_directory(name);
        let state = pods.state(&uid);
        let (fate, rule) = match (state.logs_removable(), state) {
            _ if !is_directory => (Fate::Keep, "not-a-directory"),
            _ if alive.contains(&uid) => (Fate::Keep, "pod-runs"),
            (Some(_), _) if !pods.sources_ready() => (Fate::Keep, "source-not-ready"),
            (Some(rule), _) => (Fate::Remove, rule),
            (None, PodState::SourcesNotReady) => (Fate::Keep, "source-not-ready"),
            (None, PodState::Unknown) => (Fate::Keep, "pod-state-unknown"),
            (None, _) => (Fate::Keep, "pod-exists"),
        };
        Item {
            subject: Subject::PodLogs(root.join(name)),
            name: "".into(),
            owner: Some(Owner { uid, pod: LogLayout::pod_name_of_directory(name) }),
            fate,
            rule,
            detail: Detail::default().with("pod", Input::Text(state.as_str().to_owned())),
        }
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use model::ids::PodName;

    use super::*;
    use crate::decide::test_pods::Pods;

    fn removed(pods: &Pods) -> Vec<String> {
        removed_while(&[], pods)
    }

    fn removed_while(alive: &[&str], pods: &Pods) -> Vec<String> {
        let alive = alive.iter().map(|uid| PodUid::from(*uid)).collect();
        let names = ["123", "789", "ns_name_321", "ns_name_654"];
        let mut entries = names.map(|name| (name.to_owned(), true)).to_vec();
        entries.push(("a-file".to_owned(), false));
        let items = logs(Path::new("/logs"), &entries, &alive, pods);
        assert_eq!(items.len(), entries.len(), "every entry has its item");
        let pods: Vec<_> = items.iter().map(|item| item.owner.clone().unwrap().pod).collect();
        let theirs = Some(PodName::new("ns", "name"));
        assert_eq!(pods, [None, None, theirs.clone(), theirs, None], "whose they are, if they say");
        let gone = items.into_iter().filter(|item| item.fate == Fate::Remove);
        gone.map(|item| item.subject.to_string()).collect()
    }

    // behaviour: GC-50, GC-51, GC-58
    #[test]
    fn log_directories_of_gone_pods_are_removed_when_sources_are_ready() {
        let pods = Pods::ready().active(&["123", "321"]);
        assert_eq!(removed(&pods), ["logs /logs/789", "logs /logs/ns_name_654"]);
        assert_eq!(removed(&pods.clone().sources_not_ready()), [""; 0]);
        assert_eq!(removed_while(&["789"], &pods), ["logs /logs/ns_name_654"]);
        let ended = pods.clone().terminated(&["789"]).deleted(&["654"]);
        assert_eq!(removed(&ended), ["logs /logs/ns_name_654"]);
    }

    // behaviour: GC-57
    #[test]
    fn evicted_pod_keeps_its_logs_until_its_final_status_is_reported() {
        let pods = Pods::ready().active(&["123", "321", "654"]);
        assert_eq!(removed(&pods.clone().active(&["789"])), [""; 0], "it still stops");
        assert_eq!(removed(&pods.clone().terminated(&["789"])), [""; 0], "nothing of it runs");
        assert_eq!(removed(&pods.evicted(&["789"])), ["logs /logs/789"]);
    }
}

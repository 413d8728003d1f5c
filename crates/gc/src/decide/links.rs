//! Dangling log links.

use std::path::Path;

use model::log_layout::LogLayout;
use model::observed::ContainerState;
use model::verdict::{Detail, Input, Owner, Subject};

use super::PodStates;
use crate::plan::{Fate, Item};

/// The state of the container that a dangling link names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkTarget {
    /// The name has no container id.
    NoId,
    /// Its state in the runtime.
    State(ContainerState),
    /// The runtime answered without a status.
    Nothing,
    /// The runtime does not have the container.
    NotThere,
    /// The runtime returned an error.
    Failed,
}

/// The fate of a dangling link. The link of a container that may live stays: its log is being rotated. Where
/// pod states are unknown, all links stay, as logs do.
pub fn dangling(root: &Path, name: &str, found: LinkTarget, pods: &dyn PodStates) -> Item {
    let (fate, container) = match found {
        LinkTarget::NoId => (Fate::Remove, "not-named"),
        LinkTarget::NotThere => (Fate::Remove, "not-found"),
        LinkTarget::Failed => (Fate::Remove, "runtime-failed"),
        LinkTarget::State(ContainerState::Exited) => (Fate::Remove, "exited"),
        LinkTarget::Nothing => (Fate::Keep, "not-reported"),
        LinkTarget::State(_) => (Fate::Keep, "alive"),
    };
    let (fate, rule) = match fate {
        Fate::Remove if !pods.is_available() => (Fate::Keep, "pod-state-unknown"),
        fate => (fate, "dangling-link"),
    };
    let mut detail = Detail::default().with("container", Input::Text(container.to_owned()));
    if let Some(id) = LogLayout::container_of_link(name) {
        detail = detail.with("id", Input::Text(id.to_string()));
    }
    Item {
        subject: Subject::LogLink(root.join(name)),
        name: "".into(),
        owner: LogLayout::pod_of_link(name).map(Owner::named),
        fate,
        rule,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use model::ids::PodName;

    use super::*;
    use crate::decide::NoAgent;
    use crate::decide::test_pods::Pods;

    // behaviour: GC-54, GC-55, GC-56, GC-59
    #[test]
    fn dangling_link_is_removed_unless_its_container_may_live() {
        use ContainerState::{Created, Exited, Running, Unknown};
        let rows = [
            (LinkTarget::NoId, Fate::Remove, "not-named"),
            (LinkTarget::NotThere, Fate::Remove, "not-found"),
            (LinkTarget::Failed, Fate::Remove, "runtime-failed"),
            (LinkTarget::State(Exited), Fate::Remove, "exited"),
            (LinkTarget::Nothing, Fate::Keep, "not-reported"),
            (LinkTarget::State(Running), Fate::Keep, "alive"),
            (LinkTarget::State(Created), Fate::Keep, "alive"),
            (LinkTarget::State(Unknown), Fate::Keep, "alive"),
        ];
        for (found, fate, word) in rows {
            let (root, name) = (Path::new("/links"), "p_ns_c-0123456.log");
            let item = dangling(root, name, found, &Pods::ready());
            assert_eq!((item.fate, item.rule), (fate, "dangling-link"), "{found:?}");
            let owner = Owner::named(PodName::new("ns", "p"));
            assert_eq!(item.owner, Some(owner), "{found:?}");
            let bare = dangling(root, name, found, &NoAgent);
            let goes = fate == Fate::Remove;
            let rule = if goes { "pod-state-unknown" } else { "dangling-link" };
            assert_eq!((bare.fate, bare.rule), (Fate::Keep, rule), "{found:?}");
            let container = Some(&Input::Text(word.to_owned()));
            assert_eq!(item.detail.0.first().map(|(_, input)| input), container, "{found:?}");
        }
    }
}

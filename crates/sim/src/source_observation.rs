//! When an agent observes that a pod was removed from its source.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::PodUid;
use podspec::Origin;

use crate::history::Event;

/// After how many lists without its manifest an agent considers a pod removed.
const MISSED: usize = 2;

/// Follows the agent's reads of sources. If the agent does not read meanwhile, a pod that comes back was never
/// removed for it: the page of a URL is fetched periodically, and a change of a directory may be lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceObservation {
    origins: BTreeMap<PodUid, Origin>,
    /// Removed pods whose removal the agent has not observed, and how many lists missed them.
    unobserved: BTreeMap<PodUid, usize>,
}

impl SourceObservation {
    /// Processes an event; returns the pods whose removal is observed with it.
    pub(crate) fn observe(&mut self, event: &Event) -> BTreeSet<PodUid> {
        let Self { origins, unobserved } = self;
        match event {
            Event::Wanted(uid, pod) => {
                origins.insert(uid.clone(), pod.origin());
                unobserved.remove(uid);
            }
            Event::Unwanted(uid) => drop(unobserved.insert(uid.clone(), 0)),
            Event::OriginRead(read) => {
                let theirs =
                    unobserved.iter_mut().filter(|(uid, _)| origins.get(*uid) == Some(read));
                theirs.for_each(|(_, missed)| *missed = MISSED);
            }
            Event::Listed(directory, names) => {
                let is_missed = |uid: &PodUid| {
                    let Some(Origin::File(path)) = origins.get(uid) else { return false };
                    let is_there = names.iter().any(|name| *path == directory.join(name));
                    path.parent() == Some(directory) && !is_there
                };
                let missed = unobserved.iter_mut().filter(|(uid, _)| is_missed(uid));
                missed.for_each(|(_, missed)| *missed += 1);
            }
            _ => {}
        }
        let observe = unobserved.extract_if(.., |_, missed| *missed >= MISSED);
        observe.map(|(uid, _)| uid).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::plan::{PodPlan, Policy, URL};
    use crate::settled::tests::pod;

    #[test]
    fn pod_removal_is_known_once_its_source_was_read_again() {
        let wanted = |on_page| {
            Event::Wanted("u".into(), Arc::new(PodPlan { on_page, ..pod(Policy::Always) }))
        };
        let gone = || Event::Unwanted("u".into());
        let page = || Event::OriginRead(Origin::Url(URL.to_owned()));
        let file = |name| Event::OriginRead(Origin::File(PodPlan::path_of(name)));
        let listed = |directory: &str, name: &str| {
            Event::Listed(PathBuf::from(directory), vec![name.into()])
        };
        let there = || listed("/manifests", "p.yaml");
        let not_there = || listed("/manifests", "q.yaml");
        let elsewhere = || listed("/logs", "q.yaml");
        let rows = [
            // Whether the pod is on the page, the events, and whether its removal is observed in the end.
            (true, vec![gone(), page()], true),
            (true, vec![page(), gone()], false),
            (true, vec![gone(), wanted(true), page()], false),
            (true, vec![gone(), not_there(), not_there()], false),
            (false, vec![gone(), not_there()], false),
            (false, vec![gone(), not_there(), not_there()], true),
            (false, vec![gone(), there(), there()], false),
            (false, vec![gone(), elsewhere(), elsewhere()], false),
            (false, vec![not_there(), gone(), not_there()], false),
            (false, vec![gone(), not_there(), wanted(false), not_there()], false),
            // Another pod has replaced it.
            (false, vec![gone(), file("p")], true),
            (false, vec![gone(), file("q")], false),
            (false, vec![gone(), page()], false),
        ];
        for (on_page, events, expected) in rows {
            let mut source_observation = SourceObservation::default();
            assert!(source_observation.observe(&wanted(on_page)).is_empty());
            let observe = events.iter().map(|event| source_observation.observe(event)).last();
            assert_eq!(observe.is_some_and(|observe| !observe.is_empty()), expected, "{events:?}");
        }
    }
}

//! Images.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::PodUid;

use super::Invariant;
use super::removals::PATIENCE;
use crate::history::{Event, ImageRemoval, Record};
use crate::plan::PodPlan;

/// An image stays that a container uses, that is pinned, by the runtime or by the operator, or that is
/// just being fetched or made a container of.
#[derive(Debug, Default)]
pub(super) struct UsedImagesStay;

impl Invariant for UsedImagesStay {
    fn sentence(&self) -> &'static str {
        "no image goes that is used, pinned or being pulled"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        let Event::ImageRemovalAsked(removal) = &record.event else { return Ok(()) };
        let ImageRemoval { id, users, pinned, wanted, .. } = removal;
        if !users.is_empty() {
            return Err(format!("{id} is used by {users:?}"));
        }
        if *pinned {
            return Err(format!("{id} is pinned"));
        }
        match wanted.first() {
            Some(name) => Err(format!("{id} goes while a call asks for {name}")),
            None => Ok(()),
        }
    }
}

/// Where the images of static pods are kept, those stay that a pod names which the agent has read of, however
/// much room is needed.
#[derive(Debug)]
pub(super) struct ImagesOfPodsStay {
    /// Whether they are.
    keeps: bool,
    /// The pods that are wanted, and since when this agent has read of this version.
    wanted: BTreeMap<PodUid, (Arc<PodPlan>, Option<Duration>)>,
}

impl ImagesOfPodsStay {
    pub(super) fn new(keeps: bool) -> Self {
        Self { keeps, wanted: BTreeMap::new() }
    }
}

impl Invariant for ImagesOfPodsStay {
    fn sentence(&self) -> &'static str {
        "no image of a static pod goes where those are kept"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, pod) => {
                self.wanted.insert(uid.clone(), (Arc::clone(pod), None));
            }
            Event::Unwanted(uid) => drop(self.wanted.remove(uid)),
            Event::AgentStarted(_) => {
                self.wanted.values_mut().for_each(|(_, read)| *read = None);
            }
            Event::OriginRead(origin) => {
                let theirs = self.wanted.values_mut().filter(|(pod, _)| pod.origin() == *origin);
                theirs.for_each(|(_, read)| *read = read.or(Some(record.at)));
            }
            Event::ImageRemovalAsked(ImageRemoval { id, names, .. }) if self.keeps => {
                let names_it = |(pod, read): &&(Arc<PodPlan>, Option<Duration>)| {
                    let is_known = read.is_some_and(|read| record.at >= read + PATIENCE);
                    is_known && pod.all().any(|one| names.iter().any(|name| name == one.image))
                };
                if let Some((pod, _)) = self.wanted.values().find(names_it) {
                    return Err(format!("{id} goes, and {} names it", pod.name));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::tests::{pod, seconds, wanted};
    use crate::plan::Policy;

    #[test]
    fn the_removal_of_an_image_that_is_kept_for_a_pod_is_found() {
        let read = || Event::OriginRead(pod(Policy::Never).origin());
        let rows = [
            (vec![read()], true, 600, true),
            (vec![read()], false, 600, false),
            (vec![], true, 600, false),
            // A pass that was under way.
            (vec![read()], true, 200, false),
            (vec![read(), Event::Unwanted("u".into())], true, 600, false),
            (vec![read(), Event::AgentStarted(2)], true, 600, false),
            // A new version may name another.
            (vec![read(), wanted(Policy::Never)], true, 600, false),
        ];
        for (events, keeps, at, expected) in rows {
            let mut invariant = ImagesOfPodsStay::new(keeps);
            for event in [wanted(Policy::Never)].into_iter().chain(events.clone()) {
                invariant.read(&Record { at: seconds(1), event }).unwrap();
            }
            let mut found = |name: &str| {
                let names = vec!["other:1".to_owned(), name.to_owned()];
                let removal = ImageRemoval { id: "i".to_owned(), names, ..Default::default() };
                let event = Event::ImageRemovalAsked(removal);
                invariant.read(&Record { at: seconds(at), event }).is_err()
            };
            assert_eq!(found(pod(Policy::Never).containers[0].image), expected, "{events:?}");
            assert!(!found("another:1"));
        }
    }
}

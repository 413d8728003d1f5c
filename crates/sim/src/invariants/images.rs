//! Images.

use super::Invariant;
use super::read_pods::ReadPods;
use super::removals::PATIENCE;
use crate::history::{Event, ImageRemoval, Record};

/// An image is kept if a container uses it, if it is pinned by the runtime or the settings, or while it is
/// being pulled or a container is created of it.
#[derive(Debug, Default)]
pub(super) struct UsedImagesStay;

impl Invariant for UsedImagesStay {
    fn sentence(&self) -> &'static str {
        "no image is removed that is used, pinned or being pulled"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        let Event::ImageRemovalRequested(removal) = &record.event else { return Ok(()) };
        let ImageRemoval { id, users, pinned, wanted, .. } = removal;
        if !users.is_empty() {
            return Err(format!("{id} is used by {users:?}"));
        }
        if *pinned {
            return Err(format!("{id} is pinned"));
        }
        match wanted.first() {
            Some(name) => Err(format!("{id} is removed while a call uses {name}")),
            None => Ok(()),
        }
    }
}

/// Where images of static pods are kept, the images of a pod that the agent has read are kept, however full the
/// disk is.
#[derive(Debug)]
pub(super) struct ImagesOfPodsStay {
    /// Whether they are kept.
    keeps: bool,
    read: ReadPods,
}

impl ImagesOfPodsStay {
    pub(super) fn new(keeps: bool) -> Self {
        Self { keeps, read: ReadPods::default() }
    }
}

impl Invariant for ImagesOfPodsStay {
    fn sentence(&self) -> &'static str {
        "no image of a static pod is removed where those are kept"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        self.read.take(record);
        let removal = match &record.event {
            Event::ImageRemovalRequested(removal) if self.keeps => removal,
            _ => return Ok(()),
        };
        let ImageRemoval { id, names, .. } = removal;
        let mut known = self.read.as_they_are().filter(|(_, read)| record.at >= *read + PATIENCE);
        let names_it = |one: &str| names.iter().any(|name| name == one);
        match known.find(|(pod, _)| pod.all().any(|one| names_it(one.image))) {
            Some((pod, _)) => Err(format!("{id} is removed, and {} uses it", pod.name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::tests::{pod, seconds, wanted};
    use crate::plan::Policy;

    #[test]
    fn finds_removal_of_an_image_that_a_pod_keeps() {
        let read = || Event::OriginRead(pod(Policy::Never).origin());
        let rows = [
            (vec![read()], true, 600, true),
            (vec![read()], false, 600, false),
            (vec![], true, 600, false),
            // A pass that was in progress.
            (vec![read()], true, 200, false),
            (vec![read(), Event::Unwanted("u".into())], true, 600, false),
            (vec![read(), Event::AgentStarted(2)], true, 600, false),
            // A new version may use another image.
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
                let event = Event::ImageRemovalRequested(removal);
                invariant.read(&Record { at: seconds(at), event }).is_err()
            };
            assert_eq!(found(pod(Policy::Never).containers[0].image), expected, "{events:?}");
            assert!(!found("another:1"));
        }
    }
}

//! Injected faults of event streams.

use std::time::Duration;

use model::ids::PodUid;
use model::ports::runtime::{ContainerEvent, ContainerEventKind};

/// A fault of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFault {
    /// It is lost.
    Lose,
    /// It arrives twice.
    Duplicate,
    /// It arrives this much later; later events overtake it.
    Delay(Duration),
}

/// The events that a fault applies to, and how many of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRule {
    fault: EventFault,
    kind: Option<ContainerEventKind>,
    pod: Option<PodUid>,
    object: Option<String>,
    /// How many events are left; `None` until cleared.
    left: Option<usize>,
}

impl EventRule {
    /// Every event, until the faults are cleared.
    pub fn all(fault: EventFault) -> Self {
        Self { fault, kind: None, pod: None, object: None, left: None }
    }

    /// Only events of this kind.
    #[must_use]
    pub fn kind(mut self, kind: ContainerEventKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Only events of this pod.
    #[must_use]
    pub fn pod(mut self, uid: impl Into<PodUid>) -> Self {
        self.pod = Some(uid.into());
        self
    }

    /// Only events of the container or sandbox with this id.
    #[must_use]
    pub fn object(mut self, id: impl Into<String>) -> Self {
        self.object = Some(id.into());
        self
    }

    /// Only the next such event.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Only that many such events.
    #[must_use]
    pub fn times(mut self, events: usize) -> Self {
        self.left = Some(events);
        self
    }

    fn applies(&self, event: &ContainerEvent) -> bool {
        self.left != Some(0)
            && self.kind.is_none_or(|kind| kind == event.kind)
            && self.pod.as_ref().is_none_or(|uid| *uid == event.pod_uid)
            && self.object.as_ref().is_none_or(|id| *id == event.object.to_string())
    }
}

/// The rules in force. The oldest that applies to an event decides.
#[derive(Debug, Default)]
pub(super) struct EventFaults {
    rules: Vec<EventRule>,
}

impl EventFaults {
    pub(super) fn add(&mut self, rule: EventRule) {
        self.rules.push(rule);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The fault of this event; counts it.
    pub(super) fn take(&mut self, event: &ContainerEvent) -> Option<EventFault> {
        let rule = self.rules.iter_mut().find(|rule| rule.applies(event))?;
        rule.left = rule.left.map(|left| left - 1);
        Some(rule.fault)
    }
}

#[cfg(test)]
mod tests {
    use model::ids::ObjectId;

    use super::*;

    fn event(pod: &str, id: &str, kind: ContainerEventKind) -> ContainerEvent {
        ContainerEvent { pod_uid: pod.into(), object: ObjectId::Container(id.into()), kind }
    }

    #[test]
    fn event_rule_matches_kind_pod_object_and_count() {
        use ContainerEventKind::{Started, Stopped};
        let mut faults = EventFaults::default();
        faults.add(EventRule::all(EventFault::Lose).kind(Stopped).pod("a").object("1").once());
        faults.add(EventRule::all(EventFault::Duplicate).kind(Stopped));
        assert_eq!(faults.take(&event("a", "1", Started)), None);
        for (pod, id) in [("a", "2"), ("b", "1")] {
            let fault = faults.take(&event(pod, id, Stopped));
            assert_eq!(fault, Some(EventFault::Duplicate), "{pod} {id}");
        }
        assert_eq!(faults.take(&event("a", "1", Stopped)), Some(EventFault::Lose));
        assert_eq!(faults.take(&event("a", "1", Stopped)), Some(EventFault::Duplicate));
        faults.clear();
        assert_eq!(faults.take(&event("a", "1", Stopped)), None);
    }
}

//! Container events of the runtime: a pod is relisted at once or after the relist period.

use model::ids::{ObjectId, PodUid};
use model::ports::runtime::{ContainerEvent, ContainerEventKind};
use tracing::debug;

use super::{Done, Relist};
use crate::decide::{ObjectState, Urgency, event_urgency, reflects};

impl Relist {
    /// Handles a container event.
    pub(super) fn on_event(&mut self, event: ContainerEvent) {
        let ContainerEvent { pod_uid: uid, object, kind } = event;
        debug!(%uid, object = object.as_str(), ?kind, "Runtime event");
        if uid.is_empty() {
            // The event names no pod; several such events share a relist.
            self.relist_within(self.settings.relist_period);
            return;
        }
        if self.is_seen(&uid, &object, kind) {
            return;
        }
        if event_urgency(kind, self.state(&uid, &object), self.in_flight.contains(&uid))
            == Urgency::Now
        {
            self.relist_pod(uid);
            return;
        }
        let is_waiting = self.pending_events.contains_key(&uid);
        self.pending_events.entry(uid.clone()).or_default().insert(object, kind);
        if !is_waiting {
            // The change would be found after this time without the event.
            let wait = self.settings.relist_period;
            self.work.push(Box::pin(async move {
                tokio::time::sleep(wait).await;
                Done::Due(uid)
            }));
        }
    }

    /// Relists a pod with pending events, unless a later relist already shows them.
    pub(super) fn on_due(&mut self, uid: PodUid) {
        let events = self.pending_events.remove(&uid).unwrap_or_default();
        if !events.iter().all(|(object, kind)| self.is_seen(&uid, object, *kind)) {
            self.relist_pod(uid);
        }
    }

    /// The recorded state of a container or sandbox.
    fn state(&self, uid: &PodUid, object: &ObjectId) -> Option<ObjectState> {
        self.records.get(uid)?.seen.state(object)
    }

    /// Whether the record of a pod reflects an event. A list in progress may have begun before the event,
    /// and would reset the record when it ends.
    fn is_seen(&self, uid: &PodUid, object: &ObjectId, kind: ContainerEventKind) -> bool {
        let is_being_listed = self.next.is_none() || self.busy.contains_key(uid);
        !is_being_listed && reflects(self.state(uid, object), kind)
    }
}

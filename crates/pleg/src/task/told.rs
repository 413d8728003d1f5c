//! What the runtime tells: some of it is looked at at once, some of it can wait.

use model::ids::{ObjectId, PodUid};
use model::ports::runtime::{ContainerEvent, ContainerEventKind};
use tracing::debug;

use super::{Done, Relist};
use crate::decide::{Look, ObjectState, shows, when_to_look};

impl Relist {
    /// The runtime tells of a pod.
    pub(super) fn hear(&mut self, event: ContainerEvent) {
        let ContainerEvent { pod_uid: uid, object, kind } = event;
        debug!(%uid, object = object.as_str(), ?kind, "Runtime event");
        if uid.is_empty() {
            // The runtime did not say which pod it is; several such events share a relist.
            self.relist_within(self.settings.relist_period);
            return;
        }
        if self.is_seen(&uid, &object, kind) {
            return;
        }
        if when_to_look(kind, self.state(&uid, &object), self.in_flight.contains(&uid)) == Look::Now
        {
            self.look_at(uid);
            return;
        }
        let waits = self.told.contains_key(&uid);
        self.told.entry(uid.clone()).or_default().insert(object, kind);
        if !waits {
            // As late as it would be seen if nobody told.
            let wait = self.settings.relist_period;
            self.work.push(Box::pin(async move {
                tokio::time::sleep(wait).await;
                Done::Due(uid)
            }));
        }
    }

    /// Looks at a pod for what was told of it, unless whoever did that has looked since.
    pub(super) fn due(&mut self, uid: PodUid) {
        let told = self.told.remove(&uid).unwrap_or_default();
        if !told.iter().all(|(object, kind)| self.is_seen(&uid, object, *kind)) {
            self.look_at(uid);
        }
    }

    /// How a part of a pod was last seen.
    fn state(&self, uid: &PodUid, object: &ObjectId) -> Option<ObjectState> {
        self.records.get(uid)?.seen.state(object)
    }

    /// Whether a pod was seen with what is told of it. A look that is under way may have begun before that
    /// happened, and its end would undo what is known.
    fn is_seen(&self, uid: &PodUid, object: &ObjectId, kind: ContainerEventKind) -> bool {
        let is_looked_at = self.next.is_none() || self.busy.contains_key(uid);
        !is_looked_at && shows(self.state(uid, object), kind)
    }
}

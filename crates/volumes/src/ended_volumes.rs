//! Volumes of terminated pods, for the preview of removals.

use model::ids::{PodName, PodUid};
use model::verdict::{Detail, Input, Owner, Subject, Verdict};
use model::volume::VolumeId;

use crate::manager::{ManagerParts, VolumeManager};

/// Why a volume is removed.
pub(crate) const POD_HAS_ENDED: &str = "pod-has-ended";

/// The removal of a volume of a pod that has ended, or is known only by its directory.
pub(crate) fn verdict(
    parts: &ManagerParts,
    uid: &PodUid,
    pod: Option<&PodName>,
    id: &VolumeId,
) -> Verdict {
    Verdict {
        subject: Subject::Volume(parts.layout.volume(uid, id).path()),
        name: id.name.clone(),
        owner: Some(Owner { uid: uid.clone(), pod: pod.cloned() }),
        rule: POD_HAS_ENDED,
        detail: Detail::default().with("plugin", Input::Text(id.plugin.name().to_owned())),
        at: parts.clock.now(),
    }
}

impl VolumeManager {
    /// The pending removals, in the order of pods and volumes, with the `error` of failed ones.
    pub fn removals(&self) -> Vec<Verdict> {
        let parts = &self.shared.parts;
        let state = self.shared.state();
        let ended = state.pods.iter().filter(|(_, record)| record.pod.is_none());
        let mut removals = Vec::new();
        for (uid, record) in ended {
            for (id, volume) in &record.volumes.volumes {
                let mut verdict = verdict(parts, uid, record.name.as_ref(), id);
                if let Some(failure) = &volume.failure {
                    let error = Input::Text(failure.message.clone());
                    verdict.detail = verdict.detail.with("error", error);
                }
                removals.push(verdict);
            }
        }
        removals
    }
}

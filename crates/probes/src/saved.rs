//! Results that survive a restart of the agent.

use std::collections::BTreeMap;

use model::checkpoint::Format;
use model::ids::{ContainerId, PodUid};
use model::probe::{ProbeCount, ProbeKind};
use serde::{Deserialize, Serialize};

/// The file below the state directory.
pub(crate) const FILE: &str = "probes";

/// Its format. 64 MiB are enough for 100,000 probes.
pub(crate) const FORMAT: Format = Format { version: 1, limit: 64 << 20 };

/// The results of one probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SavedProbe {
    pub(crate) pod: String,
    pub(crate) instance: String,
    pub(crate) kind: ProbeKind,
    pub(crate) counted: ProbeCount,
}

/// Results of an earlier agent whose containers were not observed yet.
#[derive(Debug, Default)]
pub(crate) struct Saved(BTreeMap<PodUid, Vec<SavedProbe>>);

impl Saved {
    pub(crate) fn new(probes: Vec<SavedProbe>) -> Self {
        let mut pods: BTreeMap<PodUid, Vec<SavedProbe>> = BTreeMap::new();
        for probe in probes {
            pods.entry(probe.pod.as_str().into()).or_default().push(probe);
        }
        Self(pods)
    }

    /// Takes the results of a probe.
    pub(crate) fn take(
        &mut self,
        uid: &PodUid,
        id: &ContainerId,
        kind: ProbeKind,
    ) -> Option<ProbeCount> {
        let probes = self.0.get_mut(uid)?;
        let place =
            probes.iter().position(|one| one.kind == kind && one.instance == id.as_str())?;
        Some(probes.swap_remove(place).counted)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SavedProbe> {
        self.0.values().flatten()
    }

    /// Drops the results of a pod.
    pub(crate) fn remove(&mut self, uid: &PodUid) {
        self.0.remove(uid);
    }

    /// Drops the results of all other pods.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&PodUid) -> bool) {
        self.0.retain(|uid, _| is_kept(uid));
    }
}

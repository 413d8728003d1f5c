//! The pods, the volumes that they wait for, and the refused manifests that the server shows.

use std::sync::{Mutex, PoisonError};

use model::ids::PodUid;
use model::probe::ProbeReport;
use pods::source::Refusal;
use probes::ProbeManager;
use server::wire::{RefusedManifest, WaitingVolume};
use server::{PodAndStatus, PodView};
use status::store::StatusReader;
use tokio::sync::watch;
use volumes::VolumeManager;

/// What pods wait for: volumes and probes.
#[derive(Debug)]
pub(crate) struct PodWaits {
    /// The volumes of pods.
    pub(crate) volumes: VolumeManager,
    /// Their probes.
    pub(crate) probes: ProbeManager,
}

/// Reads pods and statuses from the status manager; stores the refusals of manifests.
#[derive(Debug)]
pub(crate) struct ServedPods {
    reader: StatusReader,
    waits: PodWaits,
    /// Never held across an await.
    refused: Mutex<Vec<RefusedManifest>>,
    /// Counts changes of pods and statuses too.
    changes: watch::Sender<u64>,
}

impl ServedPods {
    /// Starts without refused manifests. The status manager counts its changes in the same counter.
    pub(crate) fn new(reader: StatusReader, waits: PodWaits, changes: watch::Sender<u64>) -> Self {
        Self { reader, waits, refused: Mutex::default(), changes }
    }

    /// Reads pods and statuses.
    pub(crate) fn reader(&self) -> &StatusReader {
        &self.reader
    }

    /// Replaces the refusals.
    pub(crate) fn set_refusals(&self, refusals: Vec<Refusal>) {
        let refusals = refusals.into_iter().map(|refusal| RefusedManifest {
            manifest: refusal.manifest,
            message: refusal.message,
            pod: refusal.pod.map(|pod| pod.to_string()),
            last_good_stays: refusal.last_good_stays,
        });
        let refusals: Vec<_> = refusals.collect();
        let before = {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *refused, refusals.clone())
        };
        if before != refusals {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

impl PodView for ServedPods {
    fn pods(&self) -> Vec<PodAndStatus> {
        let entries = self.reader.entries().into_values();
        entries.map(|entry| PodAndStatus { pod: entry.pod, status: entry.status }).collect()
    }

    fn waiting_volumes(&self, pod: &PodUid) -> Vec<WaitingVolume> {
        let waiting = self.waits.volumes.waiting(pod).into_iter();
        waiting.map(|one| WaitingVolume { name: one.name, failure: one.failure }).collect()
    }

    fn probes(&self, pod: &PodUid) -> Vec<ProbeReport> {
        self.waits.probes.reports(pod)
    }

    fn refused(&self) -> Vec<RefusedManifest> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

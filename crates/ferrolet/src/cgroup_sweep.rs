//! Removes cgroups of pods that run nothing, outside the sync loop: the processes in them may take a while
//! to end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use model::panics::{PanicGuard, PanicStep, PanicSubject};
use runtime::PodCgroups;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::pod_index::PodIndex;

/// The pending request.
#[derive(Debug, Default)]
struct SweepRequest {
    everything: bool,
    pods: BTreeSet<PodUid>,
}

/// Requests a sweep. Cheap, and never waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct CgroupSweep {
    pending: Arc<Mutex<SweepRequest>>,
    wake: Arc<Notify>,
}

impl CgroupSweep {
    /// Requests a sweep of all pod cgroups.
    pub(crate) fn everything(&self) {
        self.request(|pending| pending.everything = true);
    }

    /// Requests a sweep of the cgroups of a pod that is gone.
    pub(crate) fn of_pod(&self, uid: &PodUid) {
        self.request(|pending| {
            pending.pods.insert(uid.clone());
        });
    }

    fn request(&self, request: impl FnOnce(&mut SweepRequest)) {
        request(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    fn take(&self) -> SweepRequest {
        std::mem::take(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sweeps on every request.
    pub(crate) async fn run(
        self,
        cgroups: Arc<PodCgroups>,
        pods: Arc<PodIndex>,
        panics: PanicGuard,
        stop: CancellationToken,
    ) {
        let why = |uid: &PodUid| pods.runs_nothing(uid);
        let sweeps = async {
            loop {
                self.wake.notified().await;
                let SweepRequest { everything, pods } = self.take();
                // After a panic, the next housekeeping requests the sweep again.
                if everything {
                    cgroups.sweep(&why, &panics).await;
                } else {
                    for uid in &pods {
                        let of = PanicSubject::Pod(uid, None);
                        panics
                            .catch_async(PanicStep::CgroupSweep, of, cgroups.sweep_one(uid, &why))
                            .await
                            .ok();
                    }
                }
            }
        };
        stop.run_until_cancelled(sweeps).await;
    }
}

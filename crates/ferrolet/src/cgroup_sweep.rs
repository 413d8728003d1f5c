//! Looks for cgroups of pods of which nothing is to run, apart from the sync loop: what is in them may take
//! a while to end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use model::ids::PodUid;
use model::panics::{PanicGuard, PanicStep, PanicSubject};
use runtime::PodCgroups;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::pod_index::PodIndex;

/// What is to be looked for.
#[derive(Debug, Default)]
struct Asked {
    everything: bool,
    pods: BTreeSet<PodUid>,
}

/// Asks for a look. Cheap, and never waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct CgroupSweep {
    asked: Arc<Mutex<Asked>>,
    wake: Arc<Notify>,
}

impl CgroupSweep {
    /// At everything.
    pub(crate) fn everything(&self) {
        self.ask(|asked| asked.everything = true);
    }

    /// At what a pod that is gone may have left.
    pub(crate) fn of_pod(&self, uid: &PodUid) {
        self.ask(|asked| {
            asked.pods.insert(uid.clone());
        });
    }

    fn ask(&self, ask: impl FnOnce(&mut Asked)) {
        ask(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    fn take(&self) -> Asked {
        std::mem::take(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks whenever that is asked for.
    pub(crate) async fn run(
        self,
        cgroups: Arc<PodCgroups>,
        pods: Arc<PodIndex>,
        panics: PanicGuard,
        stop: CancellationToken,
    ) {
        let why = |uid: &PodUid| pods.runs_nothing(uid);
        let looks = async {
            loop {
                self.wake.notified().await;
                let Asked { everything, pods } = self.take();
                // What panics is looked for again by the next housekeeping.
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
        stop.run_until_cancelled(looks).await;
    }
}

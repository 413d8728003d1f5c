//! How pods with a worker are counted: by how far they are, and by who wants them.

use model::ids::PodUid;
use podspec::view;

use super::{Stage, Target, Worker, Workers};

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// It is to run.
    Sync,
    /// It is being ended.
    Terminating,
    /// Nothing of it runs any more.
    Terminated,
}

/// Who wants a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config {
    /// A source does.
    Desired {
        /// Whether it is one of manifests.
        is_static: bool,
    },
    /// Nobody any more.
    Orphan {
        /// Whether it came from a manifest.
        is_static: bool,
    },
    /// Nobody that is known: it was found in the runtime.
    RuntimeOnly,
}

/// As what a pod with a worker is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Working {
    /// How far it is.
    pub lifecycle: Lifecycle,
    /// Who wants it.
    pub config: Config,
}

impl Working {
    /// All that there is to be counted.
    pub fn all() -> impl Iterator<Item = Self> {
        let stages = [Lifecycle::Sync, Lifecycle::Terminating, Lifecycle::Terminated];
        let configs = [
            Config::Desired { is_static: true },
            Config::Desired { is_static: false },
            Config::Orphan { is_static: true },
            Config::Orphan { is_static: false },
            Config::RuntimeOnly,
        ];
        stages.into_iter().flat_map(move |lifecycle| {
            configs.into_iter().map(move |config| Self { lifecycle, config })
        })
    }

    /// Upstream's words for it: `lifecycle`, `config` and `static`.
    pub fn labels(self) -> [&'static str; 3] {
        let lifecycle = match self.lifecycle {
            Lifecycle::Sync => "sync",
            Lifecycle::Terminating => "terminating",
            Lifecycle::Terminated => "terminated",
        };
        let written = |is_static| if is_static { "true" } else { "" };
        let (config, is_static) = match self.config {
            Config::Desired { is_static } => ("desired", written(is_static)),
            Config::Orphan { is_static } => ("orphan", written(is_static)),
            Config::RuntimeOnly => ("runtime_only", "unknown"),
        };
        [lifecycle, config, is_static]
    }
}

impl Worker {
    fn working(&self) -> Working {
        let lifecycle = match self.stage {
            Stage::Waiting | Stage::Syncing => Lifecycle::Sync,
            Stage::Terminating { .. } => Lifecycle::Terminating,
            Stage::Terminated | Stage::Finished => Lifecycle::Terminated,
        };
        let config = match &self.target {
            Target::RuntimeOnly(_) => Config::RuntimeOnly,
            Target::Pod(pod) if self.orphan => Config::Orphan { is_static: view::is_static(pod) },
            Target::Pod(pod) => Config::Desired { is_static: view::is_static(pod) },
        };
        Working { lifecycle, config }
    }
}

impl Workers {
    /// As what the pod is counted, if it has a worker.
    pub fn working(&self, uid: &PodUid) -> Option<Working> {
        self.known.get(uid).map(Worker::working)
    }

    /// The pods that were wanted and are not any more, or the other way round, since this was asked.
    pub fn take_other_orphans(&mut self) -> Vec<PodUid> {
        std::mem::take(&mut self.other_orphans)
    }
}

//! How pods with a worker are counted: by lifecycle and by configuration.

use model::ids::PodUid;
use podspec::view;

use super::{Stage, Target, Worker, Workers};

/// The lifecycle of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// The pod is synced.
    Sync,
    /// The pod is terminating.
    Terminating,
    /// The pod has terminated.
    Terminated,
}

/// The source of the configuration of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config {
    /// A source lists the pod.
    Desired {
        /// Whether it is a static pod.
        is_static: bool,
    },
    /// A source listed the pod once.
    Orphan {
        /// Whether it is a static pod.
        is_static: bool,
    },
    /// No source listed the pod: it was found in the runtime.
    RuntimeOnly,
}

/// The metric labels of a pod with a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Working {
    /// The lifecycle.
    pub lifecycle: Lifecycle,
    /// The source of the configuration.
    pub config: Config,
}

impl Working {
    /// All combinations.
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

    /// Upstream's label values: `lifecycle`, `config` and `static`.
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
    /// The labels that the pod is counted under, if it has a worker.
    pub fn working(&self, uid: &PodUid) -> Option<Working> {
        self.known.get(uid).map(Worker::working)
    }

    /// The pods that became orphaned or desired since the last call.
    pub fn take_changed_orphans(&mut self) -> Vec<PodUid> {
        std::mem::take(&mut self.changed_orphans)
    }
}

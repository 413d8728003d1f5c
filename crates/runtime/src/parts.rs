//! The parts of a pod runtime, and their wiring.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use model::image_claims::ImageClaims;
use model::log_layout::LogLayout;
use model::ports::addresses::HostIps;
use model::ports::clock::WallClock;
use model::ports::events::{Events, NodeEvents};
use model::ports::files::HostFiles;
use model::ports::http::HttpGet;
use model::ports::image_access::ImageAccess;
use model::ports::incidents::IncidentRecord;
use model::ports::runtime::Runtime;

use crate::actuated::Actuated;
use crate::api::ApiParts;
use crate::cgroups::PodCgroups;
use crate::container_files::ContainerFiles;
use crate::container_volumes::ContainerVolumes;
use crate::create::ContainerCreator;
use crate::decide::{Backoff, BackoffLimits, NodeSettings};
use crate::hooks::HookRunner;
use crate::image::{ImageParts, ImageProvider};
use crate::killed_instances::KilledInstances;
use crate::killer::PodKiller;
use crate::metrics::Metrics;
use crate::remover::ContainerRemover;
use crate::resizer::PodResizer;
use crate::sandboxes::Sandboxes;
use crate::setup::PodSetup;
use crate::start_watch::StartWatch;
use crate::starter::ContainerStarter;
use crate::user_namespaces::UserNamespaces;
use crate::volumes::PodVolumes;

/// The ports and settings of a [`crate::PodRuntime`].
#[derive(Debug)]
pub struct PodRuntimeParts {
    /// The container runtime.
    pub runtime: Runtime,
    /// The host's files: log directories and links, and the files of pods.
    pub files: Arc<dyn HostFiles>,
    /// Sends the HTTP requests of hooks.
    pub http: Arc<dyn HttpGet>,
    /// Records the events of pods.
    pub events: Arc<dyn Events>,
    /// Records the events of the node.
    pub node_events: Arc<dyn NodeEvents>,
    /// Records kills and restarts.
    pub incidents: Arc<dyn IncidentRecord>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// The directories of logs.
    pub logs: LogLayout,
    /// The root of the pods' directories.
    pub pods: PathBuf,
    /// The node, as configured and detected.
    pub node: NodeSettings,
    /// Its addresses.
    pub host_ips: Arc<dyn HostIps>,
    /// The bounds of the container back-off.
    pub restart_backoff: BackoffLimits,
    /// The pods' cgroups; `None` if disabled.
    pub cgroups: Option<Arc<PodCgroups>>,
    /// The volumes of pods.
    pub volumes: Arc<dyn PodVolumes>,
    /// Claims on images from which containers are about to be created.
    pub claims: ImageClaims,
    /// Which pods may use which images, and the credentials for pulls.
    pub image_access: Arc<dyn ImageAccess>,
    /// The API; `None` for a standalone agent.
    pub api: Option<ApiParts>,
    /// The metrics.
    pub metrics: Metrics,
}

impl PodRuntimeParts {
    pub(crate) fn killer(&self) -> (Arc<HookRunner>, Arc<PodKiller>) {
        let hooks = Arc::new(HookRunner {
            containers: Arc::clone(&self.runtime.containers),
            sandboxes: Arc::clone(&self.runtime.sandboxes),
            http: Arc::clone(&self.http),
            events: Arc::clone(&self.events),
            metrics: self.metrics.clone(),
        });
        let killer = Arc::new(PodKiller {
            sandboxes: Arc::clone(&self.runtime.sandboxes),
            containers: Arc::clone(&self.runtime.containers),
            hooks: Arc::clone(&hooks),
            host_ips: Arc::clone(&self.host_ips),
            events: Arc::clone(&self.events),
            incidents: Arc::clone(&self.incidents),
            killed: KilledInstances::default(),
        });
        (hooks, killer)
    }

    pub(crate) fn remover(&self) -> Arc<ContainerRemover> {
        Arc::new(ContainerRemover {
            containers: Arc::clone(&self.runtime.containers),
            files: Arc::clone(&self.files),
            logs: self.logs.clone(),
            clock: Arc::clone(&self.clock),
        })
    }

    pub(crate) fn setup(&self) -> PodSetup {
        PodSetup {
            files: Arc::clone(&self.files),
            pods_dir: self.pods.clone(),
            objects: self.api.as_ref().map(|api| Arc::clone(&api.objects)),
            cgroups: self.cgroups.clone(),
            volumes: Arc::clone(&self.volumes),
            events: Arc::clone(&self.events),
        }
    }

    pub(crate) fn resizer(&self, node: &Arc<NodeSettings>) -> PodResizer {
        PodResizer {
            sandboxes: Arc::clone(&self.runtime.sandboxes),
            containers: Arc::clone(&self.runtime.containers),
            cgroups: self.cgroups.clone(),
            actuated: Actuated::new(Arc::clone(&self.files), &node.root_dir),
            node: Arc::clone(node),
            metrics: self.metrics.clone(),
        }
    }

    pub(crate) fn sandboxes(&self, node: &Arc<NodeSettings>) -> Sandboxes {
        Sandboxes {
            runtime: self.runtime.clone(),
            files: Arc::clone(&self.files),
            logs: self.logs.clone(),
            node: Arc::clone(node),
            host_ips: Arc::clone(&self.host_ips),
            classes: self.api.as_ref().map(|api| Arc::clone(&api.classes)),
            user_namespaces: UserNamespaces::new(self.pods.clone(), node),
            cgroups: self.cgroups.clone(),
            events: Arc::clone(&self.events),
            node_events: Arc::clone(&self.node_events),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
        }
    }

    fn images(&self) -> ImageProvider {
        ImageProvider::new(ImageParts {
            images: Arc::clone(&self.runtime.images),
            access: Arc::clone(&self.image_access),
            claims: self.claims.clone(),
            incidents: Arc::clone(&self.incidents),
            clock: Arc::clone(&self.clock),
            settings: self.node.pulls,
            metrics: self.metrics.clone(),
        })
    }

    pub(crate) fn starter(self, node: Arc<NodeSettings>, shared: SharedParts) -> ContainerStarter {
        let SharedParts { hooks, killer, remover } = shared;
        let images = self.images();
        let files = Arc::new(ContainerFiles {
            files: self.files,
            pods_dir: self.pods,
            logs: self.logs,
            node: Arc::clone(&node),
            clock: Arc::clone(&self.clock),
        });
        let selinux = node.machine.selinux;
        let creator = ContainerCreator {
            runtime: self.runtime.clone(),
            files: Arc::clone(&files),
            node,
            host_ips: self.host_ips,
            api: self.api,
            remover: Arc::clone(&remover),
            volumes: ContainerVolumes { volumes: self.volumes, selinux },
        };
        ContainerStarter {
            containers: self.runtime.containers,
            images,
            creator,
            files,
            restarts: Mutex::new(Backoff::new(self.restart_backoff)),
            start_watch: StartWatch::default(),
            hooks,
            killer,
            remover,
            events: self.events,
            incidents: self.incidents,
            clock: self.clock,
            metrics: self.metrics,
        }
    }
}

/// The parts that a [`ContainerStarter`] shares with others.
pub(crate) struct SharedParts {
    pub(crate) hooks: Arc<HookRunner>,
    pub(crate) killer: Arc<PodKiller>,
    pub(crate) remover: Arc<ContainerRemover>,
}

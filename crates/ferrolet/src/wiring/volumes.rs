//! Builds the volume manager.

use std::sync::Arc;

use model::panics::PanicGuard;
use model::volume::VolumeLayout;
use node::NodeHandle;
use objects::{ObjectStore, TokenStore, TrustBundles};
use process::tasks::Tasks;
use tracing::warn;
use volumes::{ManagerParts, Metrics, VolumeManager};

use crate::pod_volumes::{ContainerVolumes, StoredTokens, StoredTrustBundles, VolumeNode};
use crate::wiring::{Ports, Settings};

/// What volumes take from other parts of the agent.
pub(super) struct VolumeInputs<'a> {
    /// Secrets and config maps; none without an API server.
    pub(super) objects: Option<ObjectStore>,
    pub(super) node: Option<&'a NodeHandle>,
    pub(super) panics: &'a PanicGuard,
}

/// Starts the volume manager.
pub(super) fn start_volumes(
    settings: &Settings,
    ports: &Ports,
    inputs: VolumeInputs<'_>,
    tasks: &mut Tasks,
) -> Arc<ContainerVolumes> {
    let VolumeInputs { objects, node, panics } = inputs;
    let cluster = ports.cluster.as_ref();
    let tokens = cluster.map(|cluster| {
        let tokens = TokenStore::new(Arc::clone(&cluster.tokens), Arc::clone(&ports.clock));
        Arc::new(StoredTokens(tokens)) as _
    });
    let trust_bundles = start_trust_bundles(settings, ports, tasks);
    let layout = VolumeLayout { pods: settings.pods() };
    let allocatable = settings.node.allocatable.clone();
    let manager = VolumeManager::new(ManagerParts {
        host: Arc::clone(&ports.volumes),
        files: Arc::clone(&ports.files),
        objects: objects.clone().map(|objects| Arc::new(objects) as _),
        tokens,
        trust_bundles: trust_bundles.clone().map(|all| Arc::new(StoredTrustBundles(all)) as _),
        storage: cluster.map(|cluster| Arc::clone(&cluster.storage)),
        events: Arc::clone(&ports.events),
        clock: Arc::clone(&ports.clock),
        layout: layout.clone(),
        node: Arc::new(VolumeNode { allocatable, node: node.cloned() }),
        resync: settings.resync,
        metrics: Metrics::new(&ports.metrics).expect("no other part times volume operations"),
        panics: panics.clone(),
    });
    let (task, host) = (manager.clone(), Arc::clone(&ports.volumes));
    let root = settings.node.root_dir.clone();
    tasks.spawn("volumes", |stop| async move {
        if let Err(error) = host.share_mounts(&root).await {
            warn!(%error, "Cannot share mounts below the root directory; mountPropagation will not work");
        }
        task.run(stop).await;
    });
    if let Some(objects) = objects {
        let manager = manager.clone();
        tasks.spawn("changed volume sources", |stop| async move {
            stop.run_until_cancelled(follow_objects(&objects, &manager)).await;
        });
    }
    if let Some(bundles) = trust_bundles {
        let manager = manager.clone();
        tasks.spawn("changed trust bundles", |stop| async move {
            stop.run_until_cancelled(follow_trust_bundles(&bundles, &manager)).await;
        });
    }
    Arc::new(ContainerVolumes { manager, host: Arc::clone(&ports.volumes), layout })
}

/// Starts the store of trust bundles, where there is a cluster and the feature gate is on.
fn start_trust_bundles(
    settings: &Settings,
    ports: &Ports,
    tasks: &mut Tasks,
) -> Option<TrustBundles> {
    let cluster = ports.cluster.as_ref().filter(|_| settings.trust_bundles)?;
    let (bundles, feed) = (TrustBundles::default(), Arc::clone(&cluster.trust_bundles));
    let task = bundles.clone();
    tasks.spawn("trust bundles", |stop| task.run(feed, stop));
    Some(bundles)
}

/// Requests new content for volumes whose objects have changed. Never returns.
async fn follow_objects(objects: &ObjectStore, manager: &VolumeManager) {
    loop {
        for uid in objects.changed_pods().await {
            manager.content_changed(&uid);
        }
    }
}

/// Requests new content for volumes with trust bundles. Ends when the store does.
async fn follow_trust_bundles(bundles: &TrustBundles, manager: &VolumeManager) {
    let mut changes = bundles.changes();
    while changes.changed().await.is_ok() {
        manager.trust_bundles_changed();
    }
}

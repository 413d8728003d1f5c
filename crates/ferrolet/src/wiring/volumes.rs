//! Builds the volume manager.

use std::sync::Arc;

use model::panics::PanicGuard;
use model::volume::VolumeLayout;
use node::NodeHandle;
use objects::{CertificateStore, ObjectStore, TokenStore, TrustBundles};
use process::tasks::Tasks;
use tracing::warn;
use volumes::{ManagerParts, Metrics, VolumeManager};

use crate::pod_volumes::{
    ContainerVolumes, StoredCertificates, StoredTokens, StoredTrustBundles, VolumeNode,
};
use crate::wiring::{Ports, Settings};

/// The parts of the agent that volumes need.
pub(super) struct VolumeInputs<'a> {
    /// Secrets and config maps; `None` without an API server.
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
    let certificates = start_certificates(settings, ports, tasks);
    let layout = VolumeLayout { pods: settings.pods() };
    let allocatable = settings.node.allocatable.clone();
    let manager = VolumeManager::new(ManagerParts {
        host: Arc::clone(&ports.volumes),
        files: Arc::clone(&ports.files),
        objects: objects.clone().map(|objects| Arc::new(objects) as _),
        tokens,
        trust_bundles: trust_bundles.clone().map(|all| Arc::new(StoredTrustBundles(all)) as _),
        certificates: certificates.clone().map(|all| Arc::new(StoredCertificates(all)) as _),
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
    follow_sources(&manager, Sources { objects, trust_bundles, certificates }, tasks);
    Arc::new(ContainerVolumes { manager, host: Arc::clone(&ports.volumes), layout })
}

/// The sources of the content of volumes.
struct Sources {
    objects: Option<ObjectStore>,
    trust_bundles: Option<TrustBundles>,
    certificates: Option<CertificateStore>,
}

/// Starts the tasks that request new content for volumes whose sources have changed.
fn follow_sources(manager: &VolumeManager, sources: Sources, tasks: &mut Tasks) {
    let Sources { objects, trust_bundles, certificates } = sources;
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
    if let Some(certificates) = certificates {
        let manager = manager.clone();
        tasks.spawn("changed pod certificates", |stop| async move {
            stop.run_until_cancelled(follow_certificates(&certificates, &manager)).await;
        });
    }
}

/// Starts the store of pod certificates, where there is a cluster and the feature gate is on.
fn start_certificates(
    settings: &Settings,
    ports: &Ports,
    tasks: &mut Tasks,
) -> Option<CertificateStore> {
    let cluster = ports.cluster.as_ref().filter(|_| settings.projections.pod_certificates)?;
    let (server, clock) = (Arc::clone(&cluster.certificates), Arc::clone(&ports.clock));
    let certificates = CertificateStore::new(server, clock, settings.node_name.clone());
    let task = certificates.clone();
    tasks.spawn("pod certificates", |stop| task.run(stop));
    Some(certificates)
}

/// Starts the store of trust bundles, where there is a cluster and the feature gate is on.
fn start_trust_bundles(
    settings: &Settings,
    ports: &Ports,
    tasks: &mut Tasks,
) -> Option<TrustBundles> {
    let cluster = ports.cluster.as_ref().filter(|_| settings.projections.trust_bundles)?;
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

/// Requests new content for volumes whose certificates have changed. Never returns.
async fn follow_certificates(certificates: &CertificateStore, manager: &VolumeManager) {
    loop {
        for uid in certificates.changed_pods().await {
            manager.content_changed(&uid);
        }
    }
}

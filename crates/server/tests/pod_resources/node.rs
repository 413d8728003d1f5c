//! A node with in-memory pods, and its service.

use std::sync::Arc;

use model::pod_resources::{PodContainers, PodResources};
use prometheus::{Registry, TextEncoder};
use server::pod_resources::{Listed, Lister, Metrics};
use testkit::clock::VirtualClock;

/// One running pod with a sidecar, and one that has terminated.
#[derive(Debug)]
struct Pods;

fn pod(name: &str, sidecars: &[&str], containers: &[&str]) -> PodContainers {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    PodContainers {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        sidecars: owned(sidecars),
        containers: owned(containers),
    }
}

impl PodResources for Pods {
    fn active(&self) -> Vec<PodContainers> {
        vec![pod("web", &["proxy"], &["main", "log"])]
    }

    fn all(&self) -> Vec<PodContainers> {
        vec![pod("job", &[], &["work"]), pod("web", &["proxy"], &["main", "log"])]
    }

    fn named(&self, namespace: &str, name: &str) -> Option<PodContainers> {
        self.active().into_iter().find(|pod| pod.namespace == namespace && pod.name == name)
    }
}

/// The service and its metrics.
pub(crate) struct Node {
    pub(crate) lister: Arc<Lister>,
    registry: Registry,
}

impl Node {
    pub(crate) fn new(listed: Listed) -> Self {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let clock = Arc::new(VirtualClock::new());
        Self { lister: Arc::new(Lister::new(Arc::new(Pods), listed, clock, metrics)), registry }
    }

    pub(crate) fn metrics(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap()
    }
}

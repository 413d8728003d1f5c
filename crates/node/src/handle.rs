//! The interface of the node for other parts of the agent.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use model::image_claims::ImageListener;
use model::ports::cluster::ApiError;
use model::ports::node_api::NodeApi;
use model::ports::runtime::RuntimeFeatures;
use tokio::sync::{Notify, watch};

use crate::decide::addresses::first_known;
use crate::decide::facts::Facts;
use crate::decide::health::Pressure;
use crate::own_node::OwnNode;

/// The reported state of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedRuntime {
    /// Whether it can run containers, as last reported.
    pub ready: bool,
    /// Its features, once it has reported them.
    pub features: Option<RuntimeFeatures>,
}

/// Receives state from other parts, and provides the state of the node. Clones share it. Methods do not block, unless
/// their names say so; an unchanged value has no effect.
#[derive(Debug, Clone)]
pub struct NodeHandle {
    /// Written here and by the observing tasks; a change wakes the status task.
    pub(crate) facts: watch::Sender<Facts>,
    pub(crate) own: OwnNode,
    pub(crate) api: Arc<dyn NodeApi>,
    pub(crate) name: Arc<str>,
    pub(crate) observe_again: Arc<Notify>,
    pub(crate) check_again: Arc<Notify>,
}

impl NodeHandle {
    /// Sets the resources under pressure; none initially.
    pub fn set_pressure(&self, pressure: Pressure) {
        self.set(|facts| &mut facts.pressure, pressure);
    }

    /// Requests a runtime check now, after a failure or a recovery.
    pub fn runtime_changed(&self) {
        self.check_again.notify_one();
    }

    /// Why pods outside the host network get no network, if the runtime reported a problem.
    pub fn network_error(&self) -> Option<String> {
        self.facts.borrow().runtime.known_network_error().map(ToOwned::to_owned)
    }

    /// Waits until readiness or features of the runtime differ from the known ones.
    pub async fn other_runtime(&self, known: ReportedRuntime) -> ReportedRuntime {
        let mut facts = self.facts.subscribe();
        let now = |facts: &Facts| {
            let ready = facts.runtime.runtime_error().is_none();
            ReportedRuntime { ready, features: facts.runtime.features }
        };
        let other = facts.wait_for(|facts| now(facts) != known).await.ok().map(|facts| now(&facts));
        match other {
            Some(other) => other,
            // Cannot happen while this handle exists, which owns a sender.
            None => std::future::pending().await,
        }
    }

    /// The latest known node object; `None` while it does not exist or was not received.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.own.node()
    }

    /// Fetches the node object from the server, because the watch may be late. If the request fails,
    /// the known object stays.
    pub async fn refresh(&self) -> Result<(), ApiError> {
        if let Some(node) = self.api.own_node(&self.name).await? {
            self.own.observe(node);
        }
        Ok(())
    }

    /// The host IPs of pods: from the node object, or if it has none, the detected addresses;
    /// `None` before either is known.
    pub fn host_ips(&self) -> Option<Vec<IpAddr>> {
        let node = self.node();
        let published = node.as_ref().and_then(|node| node.status.as_ref()?.addresses.as_deref());
        let facts = self.facts.borrow();
        let found = facts.addresses.as_ref().and_then(|found| found.as_deref().ok());
        first_known(published, found)
    }

    /// Waits until the host IPs differ from the known ones.
    pub async fn other_host_ips(&self, known: Option<&[IpAddr]>) -> Option<Vec<IpAddr>> {
        let (mut facts, mut own) = (self.facts.subscribe(), self.own.changes());
        loop {
            let now = self.host_ips();
            if now.as_deref() != known {
                return now;
            }
            // Biased: both are read after any change.
            tokio::select! {
                biased;
                Ok(()) = own.changed() => {}
                Ok(()) = facts.changed() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Waits until it is known whether the node object exists.
    pub async fn known(&self) {
        self.own.wait_for(|own| own.is_known().then_some(())).await;
    }

    /// Waits for a node object that satisfies the condition.
    pub async fn wait_for_node(&self, is_wanted: impl Fn(&Node) -> bool) -> Arc<Node> {
        self.own.wait_for(|own| own.node().filter(|node| is_wanted(node)).cloned()).await
    }

    fn set<T: PartialEq>(&self, field: impl FnOnce(&mut Facts) -> &mut T, value: T) {
        self.facts.send_if_modified(|facts| {
            let field = field(facts);
            let changed = *field != value;
            *field = value;
            changed
        });
    }
}

impl ImageListener for NodeHandle {
    /// Requests a new list of images, which the next status update publishes.
    fn images_changed(&self) {
        self.observe_again.notify_one();
    }
}

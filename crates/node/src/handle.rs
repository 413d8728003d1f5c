//! How other parts of the agent take part in what the node says.

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

/// What was heard of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeHeard {
    /// Whether it can run containers, as far as it has said anything.
    pub ready: bool,
    /// What it can do, once it has said so.
    pub features: Option<RuntimeFeatures>,
}

/// Says what other parts know, and tells them what is known. Clones are the same one. Nothing here waits,
/// and what is said again changes nothing.
#[derive(Debug, Clone)]
pub struct NodeHandle {
    /// Written here and by the tasks that look; read by the status task, which a change wakes.
    pub(crate) facts: watch::Sender<Facts>,
    pub(crate) own: OwnNode,
    pub(crate) api: Arc<dyn NodeApi>,
    pub(crate) name: Arc<str>,
    pub(crate) look_again: Arc<Notify>,
    pub(crate) check_again: Arc<Notify>,
}

impl NodeHandle {
    /// What the node is short of: nothing, until somebody says so.
    pub fn set_pressure(&self, pressure: Pressure) {
        self.set(|facts| &mut facts.pressure, pressure);
    }

    /// Something is wrong with the runtime, or right again: it is asked now.
    pub fn runtime_changed(&self) {
        self.check_again.notify_one();
    }

    /// Why pods get no network but the host's, if the runtime says so.
    pub fn network_error(&self) -> Option<String> {
        self.facts.borrow().runtime.known_network_error().map(ToOwned::to_owned)
    }

    /// Waits until the runtime said something else, of whether it is ready and what it can do, than what was heard.
    pub async fn other_runtime(&self, heard: RuntimeHeard) -> RuntimeHeard {
        let mut facts = self.facts.subscribe();
        let now = |facts: &Facts| {
            let ready = facts.runtime.runtime_error().is_none();
            RuntimeHeard { ready, features: facts.runtime.features }
        };
        let other = facts.wait_for(|facts| now(facts) != heard).await.ok().map(|facts| now(&facts));
        match other {
            Some(other) => other,
            // Not while this handle lives, which may write it.
            None => std::future::pending().await,
        }
    }

    /// The node object as the server has it; nothing while there is none, or none was told of.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.own.node()
    }

    /// Asks the server itself what the node object is like, as what was told of it may be late. Where it
    /// does not answer, what was told stands.
    pub async fn ask(&self) -> Result<(), ApiError> {
        if let Some(node) = self.api.own_node(&self.name).await? {
            self.own.saw(node);
        }
        Ok(())
    }

    /// The node's addresses as pods hear of them: those of its object, or where that has none those that
    /// were found; nothing before either is known.
    pub fn host_ips(&self) -> Option<Vec<IpAddr>> {
        let node = self.node();
        let told = node.as_ref().and_then(|node| node.status.as_ref()?.addresses.as_deref());
        let facts = self.facts.borrow();
        let found = facts.addresses.as_ref().and_then(|found| found.as_deref().ok());
        first_known(told, found)
    }

    /// Waits until its addresses are others than those that are known.
    pub async fn other_host_ips(&self, known: Option<&[IpAddr]>) -> Option<Vec<IpAddr>> {
        let (mut facts, mut own) = (self.facts.subscribe(), self.own.changes());
        loop {
            let now = self.host_ips();
            if now.as_deref() != known {
                return now;
            }
            // Biased: whichever changed, all is looked at.
            tokio::select! {
                biased;
                Ok(()) = own.changed() => {}
                Ok(()) = facts.changed() => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Waits until it is known whether there is a node object, and then what it says.
    pub async fn known(&self) {
        self.own.wait_for(|own| own.is_known().then_some(())).await;
    }

    /// Waits for a node object that is wanted.
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
    /// The list is made anew, and told with the next look at the status.
    fn images_changed(&self) {
        self.look_again.notify_one();
    }
}

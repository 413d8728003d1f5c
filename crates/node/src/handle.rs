//! How other parts of the agent take part in what the node says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use tokio::sync::{Notify, watch};

use crate::decide::facts::Facts;
use crate::decide::health::Pressure;
use crate::own_node::OwnNode;

/// Says what other parts know, and tells them what is known. Clones are the same one. Nothing here waits,
/// and what is said again changes nothing.
#[derive(Debug, Clone)]
pub struct NodeHandle {
    /// Written here and by the tasks that look; read by the status task, which a change wakes.
    pub(crate) facts: watch::Sender<Facts>,
    pub(crate) own: OwnNode,
    pub(crate) look_again: Arc<Notify>,
    pub(crate) check_again: Arc<Notify>,
}

impl NodeHandle {
    /// What the node is short of.
    pub fn set_pressure(&self, pressure: Pressure) {
        self.set(|facts| &mut facts.pressure, pressure);
    }

    /// Why there is no storage; nothing when there is.
    pub fn set_storage_error(&self, error: Option<String>) {
        self.set(|facts| &mut facts.storage, error);
    }

    /// Whether the machine is going down.
    pub fn set_shutting_down(&self, is_so: bool) {
        self.set(|facts| &mut facts.shutting_down, is_so);
    }

    /// What would be good to have and is not there.
    pub fn set_soft_requirements(&self, missing: Option<String>) {
        self.set(|facts| &mut facts.soft_requirements, missing);
    }

    /// Which volumes are in use, once that is known.
    pub fn set_volumes_in_use(&self, volumes: Vec<String>) {
        self.set(|facts| &mut facts.volumes_in_use, Some(volumes));
    }

    /// Images came or went: the list is made anew, and told with the next look at the status.
    pub fn images_changed(&self) {
        self.look_again.notify_one();
    }

    /// Something is wrong with the runtime, or right again: it is asked now.
    pub fn runtime_changed(&self) {
        self.check_again.notify_one();
    }

    /// Why pods get no network but the host's, if so.
    pub fn network_error(&self) -> Option<String> {
        self.facts.borrow().runtime.network_error().map(ToOwned::to_owned)
    }

    /// The node object as the server has it; nothing while there is none, or none was told of.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.own.node()
    }

    /// Waits for a node object that is wanted.
    pub async fn wait_for_node(&self, mut is_wanted: impl FnMut(&Node) -> bool) -> Arc<Node> {
        let mut changes = self.own.changes();
        loop {
            if let Some(node) = self.own.node().filter(|node| is_wanted(node)) {
                return node;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
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

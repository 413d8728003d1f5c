//! The latest known version of the node's own object.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use model::ports::cluster::Change;
use model::watched_object::{ObjectState, WatchedObject};

/// The latest version: from the watch, or from the response to a write.
#[derive(Debug, Clone, Default)]
pub struct OwnObject {
    node: Option<Arc<Node>>,
    watched: WatchedObject<Node>,
    /// Whether the watch has completed a list at least once.
    was_listed: bool,
    /// Whether the known version may be wrong, so that the object must be fetched.
    in_doubt: bool,
}

impl OwnObject {
    /// The object, if there is one.
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    /// Its uid.
    pub fn uid(&self) -> Option<&String> {
        self.node.as_ref()?.metadata.uid.as_ref()
    }

    /// Whether the existence of the object is known.
    pub fn is_known(&self) -> bool {
        self.was_listed || self.node.is_some()
    }

    /// Processes a change of the watch; returns whether it is new.
    pub fn receive(&mut self, change: Change<Node, ()>) -> bool {
        let is_end = matches!(change, Change::Complete);
        let is_first = is_end && !std::mem::replace(&mut self.was_listed, true);
        let is_new = match self.watched.apply(change) {
            None => false,
            Some(ObjectState::Missing) => self.set_missing(),
            // A complete list always counts: a server that lost its data restarts its resource versions at a
            // lower number.
            Some(ObjectState::Present(node)) if is_end => {
                self.take(node, |known, node| known != node)
            }
            Some(ObjectState::Present(node)) => self.observe(node),
        };
        is_first || is_new
    }

    /// Processes an object from a response; returns whether it is new. An older version than the
    /// known one is ignored.
    pub fn observe(&mut self, node: Node) -> bool {
        self.take(node, |known, node| is_newer(node, known))
    }

    /// Records that the object does not exist; returns whether that is new.
    pub fn set_missing(&mut self) -> bool {
        self.node.take().is_some()
    }

    /// Records that the known version may be wrong; returns whether that is new.
    pub fn mark_stale(&mut self) -> bool {
        !std::mem::replace(&mut self.in_doubt, true)
    }

    /// Whether the object must be fetched; resets the flag.
    pub fn take_stale(&mut self) -> bool {
        std::mem::take(&mut self.in_doubt)
    }

    fn take(&mut self, node: Node, is_other: impl Fn(&Node, &Node) -> bool) -> bool {
        let is_new = self.node.as_ref().is_none_or(|known| is_other(known, &node));
        if is_new {
            self.node = Some(Arc::new(node));
        }
        is_new
    }
}

/// Whether an object is another object than the known one, or a later version of it.
fn is_newer(node: &Node, known: &Node) -> bool {
    let version =
        |node: &Node| -> Option<u64> { node.metadata.resource_version.as_ref()?.parse().ok() };
    match (version(node), version(known)) {
        (Some(new), Some(old)) if node.metadata.uid == known.metadata.uid => new > old,
        _ => true,
    }
}

#[cfg(test)]
#[path = "own_object_tests.rs"]
mod tests;

//! What is known of the node's own object.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use model::watched_object::{ObjectState, WatchedObject};
use model::ports::cluster::Change;

/// The object as it was last seen: told by the feed, or answered to a write.
#[derive(Debug, Clone, Default)]
pub struct OwnObject {
    node: Option<Arc<Node>>,
    watched: WatchedObject<Node>,
    /// Whether the feed told all there is at least once.
    was_told: bool,
    /// Whether something speaks against what is known, so that the server has to be asked.
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

    /// Whether it is known by now if there is an object.
    pub fn is_known(&self) -> bool {
        self.was_told || self.node.is_some()
    }

    /// Takes what the feed tells; whether that is news.
    pub fn hear(&mut self, change: Change<Node, ()>) -> bool {
        let is_end = matches!(change, Change::Complete);
        let is_first = is_end && !std::mem::replace(&mut self.was_told, true);
        let is_news = match self.watched.apply(change) {
            None => false,
            Some(ObjectState::Missing) => self.is_gone(),
            // A list counts, whatever it says: a server that lost its data counts versions from an
            // earlier one.
            Some(ObjectState::Present(node)) if is_end => self.take(node, |known, node| known != node),
            Some(ObjectState::Present(node)) => self.saw(node),
        };
        is_first || is_news
    }

    /// The server answered that the object is like this; whether that is news. What is older than what
    /// is known says nothing.
    pub fn saw(&mut self, node: Node) -> bool {
        self.take(node, |known, node| is_newer(node, known))
    }

    /// There is no object; whether that is news.
    pub fn is_gone(&mut self) -> bool {
        self.node.take().is_some()
    }

    /// What is known may be wrong; whether nobody thought so before.
    pub fn doubt(&mut self) -> bool {
        !std::mem::replace(&mut self.in_doubt, true)
    }

    /// Whether the server has to be asked. It is asked once.
    pub fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.in_doubt)
    }

    fn take(&mut self, node: Node, is_other: impl Fn(&Node, &Node) -> bool) -> bool {
        let is_news = self.node.as_ref().is_none_or(|known| is_other(known, &node));
        if is_news {
            self.node = Some(Arc::new(node));
        }
        is_news
    }
}

/// Whether an object is another one than is known, or a later version of it.
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

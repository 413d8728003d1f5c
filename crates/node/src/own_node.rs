//! The node's own object, as the API server has it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use model::ports::cluster::{Change, Sink};
use model::ports::node_api::NodeApi;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The object as it was last seen: told by the feed, or answered to a write. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct OwnNode {
    seen: watch::Sender<Seen>,
    /// Tells the feed to begin anew.
    follow_again: Arc<Notify>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    node: Option<Arc<Node>>,
    /// Whether the feed told all there is at least once.
    was_told: bool,
    /// Whether something speaks against what is known, so that the server has to be asked.
    in_doubt: bool,
    /// What the feed is telling: all there is, or what changes.
    list: List,
}

/// Whether the feed tells all there is from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum List {
    /// It does not: it tells what changes.
    #[default]
    None,
    /// It does, and the object did not come yet.
    Empty,
    /// It does, and the object came.
    HasNode,
}

impl Default for OwnNode {
    fn default() -> Self {
        Self { seen: watch::Sender::new(Seen::default()), follow_again: Arc::default() }
    }
}

impl OwnNode {
    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        self.seen.borrow().node.clone()
    }

    pub(crate) fn uid(&self) -> Option<String> {
        self.seen.borrow().node.as_ref()?.metadata.uid.clone()
    }

    /// Whether it is known by now if there is an object.
    pub(crate) fn was_told(&self) -> bool {
        let seen = self.seen.borrow();
        seen.was_told || seen.node.is_some()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// The server answered that the object is like this. What is older than what is known says nothing.
    pub(crate) fn saw(&self, node: Node) {
        self.seen.send_if_modified(|seen| seen.take(node));
    }

    /// What is known may be wrong: something is gone that would not be gone without the object.
    pub(crate) fn doubt(&self) {
        self.seen.send_if_modified(|seen| !std::mem::replace(&mut seen.in_doubt, true));
    }

    /// Whether the server has to be asked. It is asked once.
    pub(crate) fn take_doubt(&self) -> bool {
        let mut doubt = false;
        self.seen.send_if_modified(|seen| {
            doubt = std::mem::take(&mut seen.in_doubt);
            false
        });
        doubt
    }

    /// The object had to be made again: a feed that did not tell why may be deaf. A server that lost its
    /// data counts versions anew, and tells nothing to who waits for later ones.
    pub(crate) fn follow_again(&self) {
        self.follow_again.notify_one();
    }

    /// There is no object.
    pub(crate) fn is_gone(&self) {
        self.seen.send_if_modified(|seen| seen.node.take().is_some());
    }
}

impl Seen {
    /// Takes an object; whether it is news. A list counts, whatever it says: a server that lost its data
    /// counts versions from an earlier one.
    fn take(&mut self, mut node: Node) -> bool {
        // Who wrote what is of no use here, and larger than all the rest.
        node.metadata.managed_fields = None;
        let known = self.node.as_ref();
        let is_news = match self.list {
            List::None => known.is_none_or(|known| is_newer(&node, known)),
            _ => known.is_none_or(|known| **known != node),
        };
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

impl Sink<Node, ()> for OwnNode {
    fn hear(&self, change: Change<Node, ()>) {
        match change {
            Change::Restarted => {
                self.seen.send_if_modified(|seen| {
                    seen.list = List::Empty;
                    false
                });
            }
            Change::Applied(node) => {
                self.seen.send_if_modified(|seen| {
                    if seen.list != List::None {
                        seen.list = List::HasNode;
                    }
                    seen.take(node)
                });
            }
            Change::Unreadable(()) => {
                self.seen.send_if_modified(|seen| {
                    if seen.list != List::None {
                        seen.list = List::HasNode;
                    }
                    false
                });
            }
            Change::Gone(()) => self.is_gone(),
            Change::Complete => {
                self.seen.send_if_modified(|seen| {
                    let is_first = !std::mem::replace(&mut seen.was_told, true);
                    let was_empty = std::mem::take(&mut seen.list) == List::Empty;
                    let is_gone = was_empty && seen.node.take().is_some();
                    is_first || is_gone
                });
            }
        }
    }
}

/// Follows the node's own object.
#[derive(Debug)]
pub struct OwnNodeFeed {
    pub(crate) api: Arc<dyn NodeApi>,
    pub(crate) own: OwnNode,
    pub(crate) name: String,
}

impl OwnNodeFeed {
    /// Follows until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            // Biased: a stop comes once, and the feed does not end.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.own.follow_again.notified() => {}
                () = self.api.follow_own_node(&self.name, &self.own) => {}
            }
        }
    }
}

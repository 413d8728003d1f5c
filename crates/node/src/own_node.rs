//! The node's own object, as the API server has it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use model::ports::cluster::{Change, Sink};
use model::ports::node_api::NodeApi;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::decide::own_object::OwnObject;

/// What is known of the object, for those who tell and those who ask. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct OwnNode {
    known: watch::Sender<OwnObject>,
    /// Tells the feed to begin anew.
    follow_again: Arc<Notify>,
}

impl Default for OwnNode {
    fn default() -> Self {
        Self { known: watch::Sender::new(OwnObject::default()), follow_again: Arc::default() }
    }
}

impl OwnNode {
    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        self.known.borrow().node().cloned()
    }

    pub(crate) fn uid(&self) -> Option<String> {
        self.known.borrow().uid().cloned()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<OwnObject> {
        self.known.subscribe()
    }

    /// Waits until what is known is as wanted, and takes something of it.
    pub(crate) async fn wait_for<T>(&self, mut wanted: impl FnMut(&OwnObject) -> Option<T>) -> T {
        let mut known = self.known.subscribe();
        loop {
            let found = wanted(&known.borrow_and_update());
            if let Some(found) = found {
                return found;
            }
            if known.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The server answered that the object is like this.
    pub(crate) fn saw(&self, node: Node) {
        self.known.send_if_modified(|known| known.saw(node));
    }

    /// What is known may be wrong: something is gone that would not be gone without the object.
    pub(crate) fn doubt(&self) {
        self.known.send_if_modified(OwnObject::doubt);
    }

    /// Whether the server has to be asked. It is asked once.
    pub(crate) fn take_doubt(&self) -> bool {
        let mut doubt = false;
        self.known.send_if_modified(|known| {
            doubt = known.take_doubt();
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
        self.known.send_if_modified(OwnObject::is_gone);
    }
}

impl Sink<Node, ()> for OwnNode {
    fn hear(&self, change: Change<Node, ()>) {
        self.known.send_if_modified(|known| known.hear(change));
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

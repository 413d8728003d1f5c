//! The node's own object in the API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use model::ports::cluster::{Change, Sink};
use model::ports::node_api::NodeApi;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::decide::own_object::OwnObject;

/// The known object, shared between its writers and readers by cloning.
#[derive(Debug, Clone)]
pub(crate) struct OwnNode {
    known: watch::Sender<OwnObject>,
    /// Restarts the feed.
    restart_watch: Arc<Notify>,
}

impl Default for OwnNode {
    fn default() -> Self {
        Self { known: watch::Sender::new(OwnObject::default()), restart_watch: Arc::default() }
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

    /// Waits until `wanted` returns a value for the known object.
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

    /// Records an object from a response.
    pub(crate) fn observe(&self, node: Node) {
        self.known.send_if_modified(|known| known.observe(node));
    }

    /// Records that the known object may be wrong: a dependent object is missing.
    pub(crate) fn mark_stale(&self) {
        self.known.send_if_modified(OwnObject::mark_stale);
    }

    /// Whether the object must be fetched. Returns true once.
    pub(crate) fn take_stale(&self) -> bool {
        let mut stale = false;
        self.known.send_if_modified(|known| {
            stale = known.take_stale();
            false
        });
        stale
    }

    /// Restarts the watch, because the object had to be created again and a watch that missed the deletion may
    /// be broken. A server that lost its data restarts its resource versions, and sends no events to a watch of
    /// later ones.
    pub(crate) fn restart_watch(&self) {
        self.restart_watch.notify_one();
    }

    /// Records that the object does not exist.
    pub(crate) fn set_missing(&self) {
        self.known.send_if_modified(OwnObject::set_missing);
    }
}

impl Sink<Node, ()> for OwnNode {
    fn receive(&self, change: Change<Node, ()>) {
        self.known.send_if_modified(|known| known.receive(change));
    }
}

/// Watches the node's own object.
#[derive(Debug)]
pub struct OwnNodeFeed {
    pub(crate) api: Arc<dyn NodeApi>,
    pub(crate) own: OwnNode,
    pub(crate) name: String,
}

impl OwnNodeFeed {
    /// Watches until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            // Biased: `stop` is cancelled once, and the feed does not end.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.own.restart_watch.notified() => {}
                () = self.api.follow_own_node(&self.name, &self.own) => {}
            }
        }
    }
}

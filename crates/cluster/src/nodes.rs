//! Nodes of the API server.

use std::borrow::Cow;

use async_trait::async_trait;
use model::cluster::NodeRecord;
use model::ports::cluster::{ApiError, Nodes, Sink};

use crate::call::{Call, decoded, found};
use crate::decode::Identity;
use crate::decode::node::Node;
use crate::follow::{Follower, Kind, has_slim_metadata};
use crate::{Cluster, urls};

struct AllNodes;

has_slim_metadata!(Node);

impl Kind for AllNodes {
    type Object<'a> = Node<'a>;
    type Record = NodeRecord;
    type Key = String;
    const NAME: &'static str = "nodes";
    const FORGETS: bool = true;

    fn path(&self) -> Cow<'_, str> {
        "/api/v1/nodes".into()
    }

    fn key(node: &Identity<'_>) -> String {
        node.name.clone().into_owned()
    }

    fn record(&self, object: Node<'_>) -> NodeRecord {
        object.record()
    }
}

#[async_trait]
impl Nodes for Cluster {
    async fn follow_nodes(&self, sink: &dyn Sink<NodeRecord, String>) {
        Follower::new(&self.caller, AllNodes, sink).run().await;
    }

    async fn node(&self, name: &str) -> Result<Option<NodeRecord>, ApiError> {
        let call = Call::get(urls::node(name)).about("nodes", name);
        let answer = found(self.caller.read(call).await)?;
        answer.map(|answer| Ok(decoded::<Node<'_>>(&answer)?.record())).transpose()
    }
}

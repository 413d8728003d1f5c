//! Nodes of the API server.

use async_trait::async_trait;
use model::cluster::NodeRecord;
use model::ports::cluster::{ApiError, Nodes, Sink};

use crate::call::Call;
use crate::decode::Metadata;
use crate::decode::node::Node;
use crate::follow::{Follower, HasMetadata, Kind};
use crate::{Cluster, urls};

struct AllNodes;

impl HasMetadata for Node<'_> {
    fn metadata(&self) -> &Metadata<'_> {
        &self.metadata
    }
}

impl Kind for AllNodes {
    type Object<'a> = Node<'a>;
    type Record = NodeRecord;
    type Key = String;
    const PATH: &'static str = "/api/v1/nodes";
    const NAME: &'static str = "nodes";

    fn key(metadata: &Metadata<'_>) -> String {
        metadata.name.clone().into_owned()
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
        let answer = match self.caller.read(Call::get(urls::node(name))).await {
            Err(ApiError::NotFound) => return Ok(None),
            answer => answer?,
        };
        let node: Node<'_> = serde_json::from_slice(&answer)
            .map_err(|error| ApiError::Unreadable(Box::new(error)))?;
        Ok(Some(node.record()))
    }
}

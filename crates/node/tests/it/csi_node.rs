use k8s_openapi::api::storage::v1::CSINode;
use testkit::cluster::Trouble;
use testkit::cluster::node_api::NodeAsk;

use crate::world::{NAME, World, is_ready, wait};

fn owned_by(node: &CSINode, uid: Option<&String>) -> bool {
    let owners = node.metadata.owner_references.as_deref().unwrap_or_default();
    owners.len() == 1 && Some(&owners[0].uid) == uid
}

// behaviour: NODE-72
#[tokio::test(start_paused = true)]
async fn csi_node_is_created_after_failures_and_follows_the_node() {
    let world = World::new();
    world.api.trouble(NodeAsk::GetCsiNode, Trouble::Unreachable, 1);
    world.api.trouble(NodeAsk::CreateCsiNode, Trouble::Unreachable, 2);
    let _running = world.start();
    let node = world.node(is_ready).await;
    let uid = node.metadata.uid;
    wait(|| world.api.csi_node_of(NAME).filter(|found| owned_by(found, uid.as_ref()))).await;
    world.api.drop_node(NAME);
    let again = world.node(|node| node.metadata.uid != uid).await;
    let uid = again.metadata.uid;
    wait(|| world.api.csi_node_of(NAME).filter(|found| owned_by(found, uid.as_ref()))).await;
    assert_eq!(world.api.count(NodeAsk::UpdateCsiNode), 1);
}

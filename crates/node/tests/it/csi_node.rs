use k8s_openapi::api::storage::v1::CSINode;
use testkit::cluster::CallFault;
use testkit::cluster::node_api::NodeApiCall;

use crate::harness::{Harness, NAME, is_ready, wait};

fn owned_by(node: &CSINode, uid: Option<&String>) -> bool {
    let owners = node.metadata.owner_references.as_deref().unwrap_or_default();
    owners.len() == 1 && Some(&owners[0].uid) == uid
}

// behaviour: NODE-72
#[tokio::test(start_paused = true)]
async fn csi_node_is_created_after_failures_and_follows_the_node() {
    let harness = Harness::new();
    harness.api.inject_fault(NodeApiCall::GetCsiNode, CallFault::Unreachable, 1);
    harness.api.inject_fault(NodeApiCall::CreateCsiNode, CallFault::Unreachable, 2);
    let _running = harness.start();
    let node = harness.node(is_ready).await;
    let uid = node.metadata.uid;
    wait(|| harness.api.csi_node_of(NAME).filter(|found| owned_by(found, uid.as_ref()))).await;
    harness.api.drop_node(NAME);
    let again = harness.node(|node| node.metadata.uid != uid).await;
    let uid = again.metadata.uid;
    wait(|| harness.api.csi_node_of(NAME).filter(|found| owned_by(found, uid.as_ref()))).await;
    assert_eq!(harness.api.count(NodeApiCall::UpdateCsiNode), 1);
}

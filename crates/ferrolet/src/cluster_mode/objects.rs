//! What pods need of the API: the objects that they refer to, services and runtime classes.

use std::sync::Arc;

use ::objects::decide::time_to_live;
use ::objects::{ObjectStore, RuntimeClasses, Services};
use k8s_openapi::api::core::v1::Node;
use node::NodeHandle;
use runtime::ApiParts;

use crate::tasks::Tasks;
use crate::wiring::{Ports, Settings};

/// Starts to follow what pods need, where there is a cluster.
pub(crate) fn provide(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    tasks: &mut Tasks,
) -> Option<ApiParts> {
    let cluster = ports.cluster.as_ref()?;
    let objects = ObjectStore::new(Arc::clone(&cluster.objects), settings.objects);
    let followed = objects.clone();
    tasks.spawn("objects of pods", |stop| followed.run(stop));
    if let Some(node) = node.cloned() {
        let objects = objects.clone();
        tasks.spawn("time to live of objects", |stop| async move {
            stop.run_until_cancelled(follow_time_to_live(&objects, &node)).await;
        });
    }
    let services = Services::default();
    let (followed, feed) = (services.clone(), Arc::clone(&cluster.services));
    tasks.spawn("services", |stop| followed.run(feed, stop));
    let classes = RuntimeClasses::default();
    let (followed, feed) = (classes.clone(), Arc::clone(&cluster.classes));
    tasks.spawn("runtime classes", |stop| followed.run(feed, stop));
    let (objects, services, classes) = (Arc::new(objects), Arc::new(services), Arc::new(classes));
    Some(ApiParts { objects, services, classes })
}

/// The node says for how long an object that was read is good. Never returns.
async fn follow_time_to_live(objects: &ObjectStore, node: &NodeHandle) {
    let said = |node: &Node| time_to_live(node.metadata.annotations.as_ref());
    let mut known = None;
    loop {
        let node = node.wait_for_node(|node| said(node) != known).await;
        known = said(&node);
        objects.set_time_to_live(known);
    }
}

//! What pods need of the API: the objects that they refer to, services and runtime classes.

use std::sync::Arc;

use ::objects::{ObjectStore, RuntimeClasses, Services};
use runtime::ApiParts;

use crate::tasks::Tasks;
use crate::wiring::{Ports, Settings};

/// Starts to follow what pods need, where there is a cluster.
pub(crate) fn provide(settings: &Settings, ports: &Ports, tasks: &mut Tasks) -> Option<ApiParts> {
    let cluster = ports.cluster.as_ref()?;
    let objects = ObjectStore::new(Arc::clone(&cluster.objects), settings.objects);
    let followed = objects.clone();
    tasks.spawn("objects of pods", |stop| followed.run(stop));
    let services = Services::default();
    let (followed, feed) = (services.clone(), Arc::clone(&cluster.services));
    tasks.spawn("services", |stop| followed.run(feed, stop));
    let classes = RuntimeClasses::default();
    let (followed, feed) = (classes.clone(), Arc::clone(&cluster.classes));
    tasks.spawn("runtime classes", |stop| followed.run(feed, stop));
    let (objects, services, classes) = (Arc::new(objects), Arc::new(services), Arc::new(classes));
    Some(ApiParts { objects, services, classes })
}

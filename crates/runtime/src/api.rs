//! The parts of the Kubernetes API that pods need, in a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use model::ports::objects::{PodObjects, RuntimeHandlers, ServiceVariables};
use podspec::objects::environment_objects;
use podspec::view;

use crate::decide::{ApiFacts, ConfigError};

/// Access to the API for pods.
#[derive(Debug, Clone)]
pub struct ApiParts {
    /// The secrets and config maps that pods refer to.
    pub objects: Arc<dyn PodObjects>,
    /// The environment variables of services.
    pub services: Arc<dyn ServiceVariables>,
    /// The handlers of runtime classes.
    pub classes: Arc<dyn RuntimeHandlers>,
}

impl ApiParts {
    /// The objects and variables of a container.
    pub(crate) async fn facts(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Result<ApiFacts, ConfigError> {
        let namespace = view::pod_name(pod).namespace;
        let links = view::spec(pod).and_then(|spec| spec.enable_service_links).unwrap_or(true);
        let is_static = view::is_static(pod);
        if !is_static {
            self.services.first_list().await;
        }
        let services = match self.services.variables(&namespace, links) {
            Some(services) => services,
            // A static pod runs without an API, too.
            None if is_static => Vec::new(),
            None => return Err(ConfigError::NoServices),
        };
        let keys = environment_objects(&namespace, container);
        let found = keys.into_iter().map(|key| async move {
            let found = self.objects.get(&key).await;
            (key, found)
        });
        let objects: BTreeMap<_, _> = join_all(found).await.into_iter().collect();
        Ok(ApiFacts { objects: Some(objects), services, files: BTreeMap::new() })
    }
}

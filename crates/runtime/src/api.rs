//! What pods need of the API, where there is one.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod};
use model::ports::objects::{ObjectError, PodObjects, RuntimeHandlers, ServiceVariables};
use podspec::objects::{environment_objects, pod_objects};
use podspec::view;

use crate::act::PodRuntime;
use crate::decide::{ApiFacts, ConfigError};

/// The API, as pods need it.
#[derive(Debug, Clone)]
pub struct ApiParts {
    /// The secrets and config maps that pods refer to.
    pub objects: Arc<dyn PodObjects>,
    /// The variables that tell of services.
    pub services: Arc<dyn ServiceVariables>,
    /// What runtime classes stand for.
    pub classes: Arc<dyn RuntimeHandlers>,
}

impl PodRuntime {
    /// The pod is about to need what it refers to.
    pub(crate) fn register_objects(&self, pod: &Pod) {
        if let Some(api) = &self.parts.api {
            api.objects.register(&view::uid(pod), pod_objects(pod));
        }
    }

    /// The pod needs nothing any more.
    pub(crate) fn unregister_objects(&self, pod: &Pod) {
        if let Some(api) = &self.parts.api {
            api.objects.unregister(&view::uid(pod));
        }
    }

    /// How the runtime calls the pod's class; empty for the usual one.
    pub(crate) async fn runtime_handler(&self, pod: &Pod) -> Result<String, ObjectError> {
        let class = view::spec(pod).and_then(|spec| spec.runtime_class_name.as_deref());
        match (&self.parts.api, class.unwrap_or_default()) {
            (None, _) | (_, "") => Ok(String::new()),
            (Some(api), class) => api.classes.handler(class).await,
        }
    }

    /// What the API has for a container.
    pub(crate) async fn api_facts(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Result<ApiFacts, ConfigError> {
        let Some(api) = &self.parts.api else { return Ok(ApiFacts::default()) };
        let namespace = view::pod_name(pod).namespace;
        let links = view::spec(pod).and_then(|spec| spec.enable_service_links).unwrap_or(true);
        let services = match api.services.variables(&namespace, links) {
            Some(services) => services,
            // It runs without an API, too.
            None if view::is_static(pod) => Vec::new(),
            None => return Err(ConfigError::NoServices),
        };
        let keys = environment_objects(&namespace, container);
        let found = keys.into_iter().map(|key| async move {
            let found = api.objects.get(&key).await;
            (key, found)
        });
        let objects: BTreeMap<_, _> = join_all(found).await.into_iter().collect();
        Ok(ApiFacts { objects: Some(objects), services })
    }
}

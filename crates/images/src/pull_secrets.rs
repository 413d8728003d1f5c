//! The pull secrets of pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::image_access::{AccessObject, CredentialSource};
use model::objects::{DataObject, ObjectKey};
use model::ports::events::{Events, PodEvent};
use model::ports::image_access::CredentialsError;
use model::ports::objects::PodObjects;
use podspec::view;
use tracing::debug;

use crate::decide::docker_config::{parse_config_json, parse_dockercfg};
use crate::decide::keyring::Keyring;

/// The type of secrets with `config.json`, and its key.
const CONFIG_JSON: (&str, &str) = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson");
/// The type of secrets with the older format, and its key.
const DOCKERCFG: (&str, &str) = ("kubernetes.io/dockercfg", ".dockercfg");

/// A pod, and the ports to its secrets.
#[derive(Debug)]
pub(crate) struct SecretRequest<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) objects: &'a dyn PodObjects,
    pub(crate) events: &'a dyn Events,
}

/// Adds the credentials of the pull secrets of a pod, in their order. Secrets that are missing are reported and left
/// out; a malformed one is an error.
pub(crate) async fn add_pull_secrets(
    keyring: &mut Keyring,
    request: SecretRequest<'_>,
) -> Result<(), CredentialsError> {
    let SecretRequest { pod, objects, events } = request;
    let namespace = view::pod_name(pod).namespace;
    let secrets = view::spec(pod).and_then(|spec| spec.image_pull_secrets.as_ref());
    let names = secrets.into_iter().flatten().map(|secret| secret.name.as_str());
    let mut missing = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        match objects.get(&ObjectKey::secret(&namespace, name)).await {
            Ok(secret) => add_secret(keyring, &secret, &namespace, name)?,
            Err(error) => {
                debug!(secret = name, %error, "Pull secret of a pod is missing");
                missing.push(name);
            }
        }
    }
    if !missing.is_empty() {
        let missing = missing.join(", ");
        let message = format!(
            "Unable to retrieve some image pull secrets ({missing}); \
             attempting to pull the image may not succeed."
        );
        let reason = "FailedToRetrieveImagePullSecret";
        let (uid, pod) = (view::uid(pod), view::pod_name(pod));
        events.record(PodEvent::warning(uid, pod, reason, message));
    }
    Ok(())
}

fn add_secret(
    keyring: &mut Keyring,
    secret: &Arc<DataObject>,
    namespace: &str,
    name: &str,
) -> Result<(), CredentialsError> {
    let content = |(kind, key): (&str, &str)| {
        let content = secret.data.get(key).filter(|_| *secret.secret_type == *kind)?;
        Some(content).filter(|content| !content.is_empty())
    };
    let parsed = if let Some(content) = content(CONFIG_JSON) {
        parse_config_json(content)
    } else if let Some(content) = content(DOCKERCFG) {
        parse_dockercfg(content)
    } else {
        debug!(secret = name, "Pull secret of a pod has no credentials");
        return Ok(());
    };
    let config = parsed
        .map_err(|error| CredentialsError(format!("pull secret {namespace}/{name}: {error}")))?;
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let object = AccessObject { namespace, name, uid: secret.uid.to_string() };
    keyring.add(config, &CredentialSource::Secret(object));
    Ok(())
}

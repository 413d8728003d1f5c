//! Images that are mounted as volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ImageVolumeSource, Pod};
use model::image_claims::ImageClaim;
use model::ports::events::Events;
use podspec::view;

use crate::error::StartError;
use crate::image::{ImageProvider, ImageRequest};
use crate::report::Reporter;
use crate::start_context::StartContext;

/// The images of the volumes that a container mounts.
#[derive(Debug, Default)]
pub(crate) struct ImageVolumes {
    /// Their references in the runtime, by the name of the volume.
    pub(crate) references: BTreeMap<String, String>,
    /// Image garbage collection keeps them until the container is created.
    claims: Vec<ImageClaim>,
}

/// The image volumes that a container mounts, by their names.
pub(crate) fn mounted_images<'a>(
    pod: &'a Pod,
    container: &Container,
) -> BTreeMap<&'a str, &'a ImageVolumeSource> {
    let mounts = |name: &str| {
        container.volume_mounts.iter().flatten().any(|mount| mount.name.as_str() == name)
    };
    let volumes = view::spec(pod).into_iter().flat_map(|spec| spec.volumes.iter().flatten());
    let images = volumes.filter_map(|volume| Some((volume.name.as_str(), volume.image.as_ref()?)));
    images.filter(|(name, _)| mounts(name)).collect()
}

/// Ensures the images of the volumes that a container mounts. Events are the pod's, as the volumes are.
pub(crate) async fn ensure(
    images: &ImageProvider,
    events: &dyn Events,
    starting: &StartContext<'_>,
) -> Result<ImageVolumes, StartError> {
    let StartContext { pod, container, sandbox, cancel, .. } = *starting;
    let report = Reporter::of_pod(events, pod);
    let mut ensured = ImageVolumes::default();
    let mut failure = None;
    for (name, volume) in mounted_images(pod, container) {
        let image = volume.reference.as_deref().unwrap_or_default();
        ensured.claims.push(images.claim(image));
        let policy = volume.pull_policy.as_deref().filter(|policy| !policy.is_empty());
        let request = ImageRequest {
            pod,
            sandbox: &sandbox.config,
            container: &container.name,
            image,
            policy,
            early: None,
            cancel,
        };
        // All images are pulled even after a failure, so that the next attempt waits for fewer.
        match images.ensure(request, &report).await {
            Ok(one) => {
                ensured.references.insert(name.to_owned(), one.image_ref);
                ensured.claims.extend(one.resolved);
            }
            Err(StartError::PodEnds) => return Err(StartError::PodEnds),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(ensured),
    }
}

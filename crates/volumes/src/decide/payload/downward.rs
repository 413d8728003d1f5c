//! Fields of the pod and resources of its containers.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod, ResourceFieldSelector};
use model::names::qualified_name;
use podspec::downward::{container_named, limits_or, metadata_field, resource, subscript};

use super::{Files, PayloadError, Sources, file, paths};

/// The files of the downward API. All errors are returned together.
pub(super) fn files(
    items: &[DownwardAPIVolumeFile],
    default_mode: i32,
    sources: &Sources<'_>,
) -> Result<Files, PayloadError> {
    let mut errors = Vec::new();
    let mut files = Files::new();
    for item in items {
        let content = match (&item.field_ref, &item.resource_field_ref) {
            (Some(selector), _) => field(sources.pod, &selector.field_path),
            (None, Some(selector)) => container_resource(selector, sources),
            (None, None) => Ok(String::new()),
        };
        match content {
            Ok(content) => {
                let mode = item.mode.unwrap_or(default_mode);
                files.push((paths::clean(&item.path), file(content.as_bytes(), mode)));
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(files) } else { Err(PayloadError::all(errors)) }
}

fn field(pod: &Pod, path: &str) -> Result<String, PayloadError> {
    let Some((map, key)) = subscript(path) else {
        let value = metadata_field(pod, path);
        return value.ok_or_else(|| PayloadError::FieldPath(path.to_owned()));
    };
    let (map, problems) = match map {
        "metadata.annotations" => (&pod.metadata.annotations, qualified_name(&key.to_lowercase())),
        "metadata.labels" => (&pod.metadata.labels, qualified_name(key)),
        _ => return Err(PayloadError::FieldSubscript(path.to_owned())),
    };
    if !problems.is_empty() {
        let (path, problems) = (path.to_owned(), problems.join(";"));
        return Err(PayloadError::FieldKey { path, problems });
    }
    Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default())
}

/// A resource of a container. For limits that are not set, the allocatable resources of the node are
/// used, for init containers too.
fn container_resource(
    selector: &ResourceFieldSelector,
    sources: &Sources<'_>,
) -> Result<String, PayloadError> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let (container, _) = container_named(sources.pod, name)
        .ok_or_else(|| PayloadError::NoContainer(name.to_owned()))?;
    let limits = limits_or(container, &[sources.allocatable]);
    resource(selector, container, &limits)
        .ok_or_else(|| PayloadError::Resource(selector.resource.clone()))
}

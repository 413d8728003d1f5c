//! Volumes that nobody mounts yet: a pod that has one waits.

use k8s_openapi::api::core::v1::Pod;
use podspec::view;

/// Why a pod waits for its volumes, if it has any.
pub(crate) fn unmounted(pod: &Pod) -> Option<String> {
    let volumes = view::spec(pod)?.volumes.as_deref().unwrap_or_default();
    if volumes.is_empty() {
        return None;
    }
    let named = volumes.iter().map(|volume| {
        let kinds = podspec::volume_kinds(volume);
        format!("{} ({})", volume.name, kinds.first().unwrap_or(&"unknown"))
    });
    let named: Vec<String> = named.collect();
    let which = named.join(" ");
    Some(format!(
        "Unable to attach or mount volumes: volumes of these kinds are not supported yet: [{which}]"
    ))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, SecretVolumeSource, Volume};
    use testkit::pods::pod;

    use super::*;

    // behaviour: API-10
    #[test]
    fn what_a_pod_waits_for_is_named_with_its_kind() {
        assert_eq!(unmounted(&pod("web").build()), None);
        let scratch = Volume {
            name: "scratch".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        };
        let keys = Volume {
            name: "keys".to_owned(),
            secret: Some(SecretVolumeSource::default()),
            ..Volume::default()
        };
        let pod = pod("web").spec(|spec| spec.volumes = Some(vec![scratch, keys])).build();
        let message = unmounted(&pod).unwrap();
        assert!(message.ends_with("[scratch (emptyDir) keys (secret)]"), "{message}");
    }
}

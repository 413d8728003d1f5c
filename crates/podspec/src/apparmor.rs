//! The `AppArmor` profiles of a pod.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, Pod};

use crate::view;

/// The prefix of the deprecated annotation with the profile of a container.
pub const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The profile of a container: from its field, then from the annotation, then from the pod's field. The annotation of
/// a static pod is not converted to a field.
pub fn apparmor_profile(pod: &Pod, container: &Container) -> Option<AppArmorProfile> {
    let own = container.security_context.as_ref().and_then(|own| own.app_armor_profile.clone());
    let annotated = || {
        let annotations = pod.metadata.annotations.as_ref()?;
        annotation_profile(annotations.get(&format!("{APPARMOR_ANNOTATION}{}", container.name))?)
    };
    own.or_else(annotated).or_else(|| of_whole_pod(pod).cloned())
}

/// The profile of the pod.
pub fn of_whole_pod(pod: &Pod) -> Option<&AppArmorProfile> {
    view::spec(pod)?.security_context.as_ref()?.app_armor_profile.as_ref()
}

fn annotation_profile(value: &str) -> Option<AppArmorProfile> {
    let profile = |kind: &str, name: Option<&str>| AppArmorProfile {
        type_: kind.to_owned(),
        localhost_profile: name.map(ToOwned::to_owned),
    };
    match value {
        "runtime/default" => Some(profile("RuntimeDefault", None)),
        "unconfined" => Some(profile("Unconfined", None)),
        other => other.strip_prefix("localhost/").map(|name| profile("Localhost", Some(name))),
    }
}

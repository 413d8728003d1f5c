//! Why a pod of the API waits: it relies on something that the agent does not support yet. It is not rejected: its
//! controller would only create another one, and containers that an earlier agent started go on.

use k8s_openapi::api::core::v1::Pod;
use podspec::{unsupported, view};

use crate::decide::sync_plan::Unsupported;

/// Why a pod of the API waits, if it does.
pub(crate) fn unsupported_wait(pod: &Pod) -> Option<Unsupported> {
    if view::is_static(pod) {
        return None;
    }
    let ignored = || {
        let fields = unsupported(pod);
        (!fields.is_empty()).then(|| format!("not supported yet: {}", fields.join(", ")))
    };
    let fields = || Some(Unsupported { reason: "UnsupportedFields", message: ignored()? });
    let volumes = unmounted(pod).map(|message| Unsupported { reason: "FailedMount", message });
    volumes.or_else(fields)
}

/// Names the volumes, if the pod has any: none can be mounted yet.
fn unmounted(pod: &Pod) -> Option<String> {
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
    use k8s_openapi::api::core::v1::{
        Container, EmptyDirVolumeSource, Probe, SecretVolumeSource, Volume,
    };
    use podspec::annotations;
    use testkit::pods::pod;

    use super::*;

    // behaviour: API-13
    #[test]
    fn api_pod_waits_for_unsupported_fields_and_static_pod_does_not() {
        let probed = |pod: testkit::pods::PodBuilder| {
            let readiness_probe = Some(Probe::default());
            let main = Container { readiness_probe, ..Container::default() };
            pod.spec(|spec| spec.containers = vec![main]).build()
        };
        let Unsupported { reason, message } = unsupported_wait(&probed(pod("web"))).unwrap();
        assert_eq!(reason, "UnsupportedFields");
        assert_eq!(message, "not supported yet: spec.containers[0].readinessProbe");
        let source = (annotations::CONFIG_SOURCE, annotations::SOURCE_FILE);
        assert_eq!(unsupported_wait(&probed(pod("web").annotation(source.0, source.1))), None);
        let marked = pod("web").annotation("seccomp.security.alpha.kubernetes.io/pod", "x").build();
        assert_eq!(unsupported_wait(&marked), None, "the API server is past that annotation");
        assert_eq!(unsupported_wait(&pod("web").build()), None);
    }

    // behaviour: API-10
    #[test]
    fn volumes_are_named_with_their_kinds() {
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

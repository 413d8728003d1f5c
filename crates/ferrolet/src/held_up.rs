//! Why a pod of the API waits: it relies on something that is not built yet. It is not refused: who made it
//! would only make another one, and what an agent before this one started runs on.

use k8s_openapi::api::core::v1::Pod;
use podspec::{unsupported, view};

/// Why a pod of the API waits, if it does: the reason and the message of the event.
pub(crate) fn held_up(pod: &Pod) -> Option<(&'static str, String)> {
    if view::is_static(pod) {
        return None;
    }
    let ignored = || {
        let fields = unsupported(pod);
        (!fields.is_empty()).then(|| format!("not supported yet: {}", fields.join(", ")))
    };
    let fields = || Some(("UnsupportedFields", ignored()?));
    unmounted(pod).map(|message| ("FailedMount", message)).or_else(fields)
}

/// Which volumes nobody mounts.
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
    fn a_pod_of_the_api_waits_for_what_is_not_built_and_a_static_one_is_refused_elsewhere() {
        let probed = |pod: testkit::pods::PodBuilder| {
            let readiness_probe = Some(Probe::default());
            let main = Container { readiness_probe, ..Container::default() };
            pod.spec(|spec| spec.containers = vec![main]).build()
        };
        let (reason, message) = held_up(&probed(pod("web"))).unwrap();
        assert_eq!(reason, "UnsupportedFields");
        assert_eq!(message, "not supported yet: spec.containers[0].readinessProbe");
        let source = (annotations::CONFIG_SOURCE, annotations::SOURCE_FILE);
        assert_eq!(held_up(&probed(pod("web").annotation(source.0, source.1))), None);
        let marked = pod("web").annotation("seccomp.security.alpha.kubernetes.io/pod", "x").build();
        assert_eq!(held_up(&marked), None, "the API server is past that annotation");
        assert_eq!(held_up(&pod("web").build()), None);
    }

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

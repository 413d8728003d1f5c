//! Fields of a pod that would be ignored. A pod that relies on one is refused: running it without
//! its volumes, limits or security settings would be worse than not running it.

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, PodSpec};
use podspec::view;

/// The paths of fields that the pod sets and the agent does not act on yet.
pub(crate) fn unsupported(pod: &Pod) -> Vec<String> {
    let Some(spec) = view::spec(pod) else { return Vec::new() };
    let mut paths: Vec<String> =
        pod_fields(spec).into_iter().map(|field| format!("spec.{field}")).collect();
    for (index, container) in spec.containers.iter().enumerate() {
        let fields = container_fields(container).into_iter();
        paths.extend(fields.map(|field| format!("spec.containers[{index}].{field}")));
    }
    paths
}

fn has_any<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}

fn set_fields(fields: &[(&'static str, bool)]) -> Vec<&'static str> {
    fields.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect()
}

fn pod_fields(spec: &PodSpec) -> Vec<&'static str> {
    let security = spec.security_context.as_ref();
    set_fields(&[
        ("initContainers", has_any(spec.init_containers.as_ref())),
        ("ephemeralContainers", has_any(spec.ephemeral_containers.as_ref())),
        ("volumes", has_any(spec.volumes.as_ref())),
        (
            "securityContext",
            security.is_some_and(|context| *context != PodSecurityContext::default()),
        ),
        ("activeDeadlineSeconds", spec.active_deadline_seconds.is_some()),
        ("dnsConfig", spec.dns_config.is_some()),
        ("dnsPolicy", spec.dns_policy.as_deref() == Some("None")),
        ("hostAliases", has_any(spec.host_aliases.as_ref())),
        ("hostUsers", spec.host_users == Some(false)),
        ("hostnameOverride", spec.hostname_override.is_some()),
        ("setHostnameAsFQDN", spec.set_hostname_as_fqdn == Some(true)),
        ("subdomain", spec.subdomain.as_ref().is_some_and(|name| !name.is_empty())),
        ("runtimeClassName", spec.runtime_class_name.is_some()),
        ("resourceClaims", has_any(spec.resource_claims.as_ref())),
        ("resources", spec.resources.is_some()),
        ("readinessGates", has_any(spec.readiness_gates.as_ref())),
    ])
}

fn container_fields(container: &Container) -> Vec<&'static str> {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let ports = container.ports.iter().flatten();
    let values_from = container.env.iter().flatten().any(|env| env.value_from.is_some());
    set_fields(&[
        ("volumeMounts", has_any(container.volume_mounts.as_ref())),
        ("volumeDevices", has_any(container.volume_devices.as_ref())),
        ("securityContext", container.security_context.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
        ("lifecycle", container.lifecycle.is_some()),
        ("envFrom", has_any(container.env_from.as_ref())),
        ("env[].valueFrom", values_from),
        ("ports[].hostPort", ports.into_iter().any(|port| port.host_port.is_some_and(|p| p != 0))),
        ("resources.limits", limits.is_some_and(|limits| !limits.is_empty())),
    ])
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerPort, Probe, SecurityContext, Volume};

    use super::*;

    fn pod(spec: PodSpec) -> Pod {
        Pod { spec: Some(spec), ..Pod::default() }
    }

    #[test]
    fn a_plain_pod_is_supported() {
        let main = Container { name: "main".to_owned(), ..Container::default() };
        assert!(
            unsupported(&pod(PodSpec { containers: vec![main], ..PodSpec::default() })).is_empty()
        );
    }

    #[test]
    fn fields_that_would_be_ignored_are_named() {
        let container = Container {
            liveness_probe: Some(Probe::default()),
            security_context: Some(SecurityContext::default()),
            ports: Some(vec![ContainerPort { host_port: Some(80), ..ContainerPort::default() }]),
            ..Container::default()
        };
        let spec = PodSpec {
            volumes: Some(vec![Volume::default()]),
            containers: vec![Container::default(), container],
            ..PodSpec::default()
        };
        let expected = [
            "spec.volumes",
            "spec.containers[1].securityContext",
            "spec.containers[1].livenessProbe",
            "spec.containers[1].ports[].hostPort",
        ];
        assert_eq!(unsupported(&pod(spec)), expected);
    }
}

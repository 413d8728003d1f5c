//! Fields of a pod that the agent does not support. A pod that relies on one is rejected: running it without
//! its probes, limits or security settings would be worse than not running it.
//!
//! Every field of the specification is named here, by destructuring the types: a field that a new
//! version of the API adds does not compile until it is handled.

use crate::view;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// Annotations with security settings. Upstream also uses only the fields by now, so a
/// pod that relies on the annotation would run unconfined.
const ANNOTATIONS: [&str; 2] =
    ["container.seccomp.security.alpha.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/pod"];

/// The pods for which a field is unsupported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnsupportedIn {
    /// All pods.
    Any,
    /// Pods of manifests. For a pod of the API the cluster provides the feature.
    Manifests,
}

/// The paths of fields that the pod sets and the agent does not support.
pub fn unsupported(pod: &Pod) -> Vec<String> {
    let Some(spec) = view::spec(pod) else { return Vec::new() };
    let is_static = view::is_static(pod);
    let mut paths = if is_static { annotations(pod) } else { Vec::new() };
    paths.extend(pod_fields(spec, is_static).into_iter().map(|field| format!("spec.{field}")));
    let mut check = |list: &str, containers: &[Container]| {
        for (index, container) in containers.iter().enumerate() {
            let fields = container_fields(container, is_static).into_iter();
            paths.extend(fields.map(|field| format!("spec.{list}[{index}].{field}")));
        }
    };
    check("initContainers", view::init_containers(pod));
    check("containers", view::containers(pod));
    check("ephemeralContainers", &view::ephemeral_containers(pod));
    paths
}

/// The annotations of a manifest. On a pod of the API they may be added at any time, and have no effect.
fn annotations(pod: &Pod) -> Vec<String> {
    let names = pod.metadata.annotations.iter().flatten().map(|(name, _)| name);
    let requested = names.filter(|name| ANNOTATIONS.iter().any(|known| name.starts_with(known)));
    requested.map(|name| format!("metadata.annotations[{name}]")).collect()
}

fn has_any<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}

fn set_fields(
    fields: &[(&'static str, UnsupportedIn, bool)],
    is_static: bool,
) -> Vec<&'static str> {
    let counts = |of: UnsupportedIn, set: bool| set && (is_static || of == UnsupportedIn::Any);
    fields.iter().filter(|(_, of, set)| counts(*of, *set)).map(|(name, ..)| *name).collect()
}

#[rustfmt::skip]
fn pod_fields(spec: &PodSpec, is_static: bool) -> Vec<&'static str> {
    let PodSpec {
        // Supported.
        active_deadline_seconds: _, containers: _, dns_config: _, dns_policy: _,
        ephemeral_containers: _, host_aliases: _, host_ipc: _, host_network: _, host_pid: _,
        host_users: _, hostname: _, hostname_override: _, init_containers: _, os: _, overhead: _,
        restart_policy: _,
        resources: _, security_context: _, set_hostname_as_fqdn: _, share_process_namespace: _,
        subdomain: _, termination_grace_period_seconds: _, volumes: _,
        // For other components: schedulers, controllers, and the API server.
        affinity: _, automount_service_account_token: _, enable_service_links: _, node_name: _,
        node_selector: _, preemption_policy: _, priority: _, priority_class_name: _,
        scheduler_name: _, scheduling_gates: _, service_account: _, service_account_name: _,
        tolerations: _, topology_spread_constraints: _,
        // Ignored: a cluster sets them on pods that need none, and an
        // image that needs one is not pulled.
        image_pull_secrets: _,
        // Not supported.
        readiness_gates, resource_claims, runtime_class_name, scheduling_group,
    } = spec;
    set_fields(&[
        ("readinessGates", UnsupportedIn::Manifests, has_any(readiness_gates.as_ref())),
        ("resourceClaims", UnsupportedIn::Any, has_any(resource_claims.as_ref())),
        ("runtimeClassName", UnsupportedIn::Manifests, runtime_class_name.is_some()),
        ("schedulingGroup", UnsupportedIn::Any, scheduling_group.is_some()),
    ], is_static)
}

#[rustfmt::skip]
fn container_fields(container: &Container, is_static: bool) -> Vec<&'static str> {
    let Container {
        // Supported.
        args: _, command: _, env: _, image: _, image_pull_policy: _, lifecycle: _, liveness_probe: _, name: _,
        ports: _, readiness_probe: _, resize_policy: _, restart_policy: _, restart_policy_rules: _,
        security_context: _, startup_probe: _, stdin: _, stdin_once: _,
        termination_message_path: _, termination_message_policy: _, tty: _, volume_devices: _, volume_mounts: _,
        working_dir: _,
        // Not supported, or not in every form.
        env_from, resources,
    } = container;
    let claims = resources.as_ref().and_then(|resources| resources.claims.as_ref());
    set_fields(&[
        ("envFrom", UnsupportedIn::Manifests, has_any(env_from.as_ref())),
        ("resources.claims", UnsupportedIn::Any, has_any(claims)),
    ], is_static)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodReadinessGate, PodSchedulingGroup, Volume};

    use super::*;
    use crate::{Origin, read_manifest};

    /// The unsupported fields of a pod in a manifest.
    fn refused(spec: &str, container: &str) -> Vec<String> {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  {spec}\n  containers:\n  \
             - name: main\n    image: image:1\n    {container}\n"
        );
        let origin = Origin::File("/manifests/web.yaml".into());
        let read = read_manifest(manifest.as_bytes(), &origin, "node");
        let read = read.unwrap_or_else(|error| panic!("{manifest}: {error:?}"));
        unsupported(&read.pods[0])
    }

    // behaviour: OBJ-31
    #[test]
    fn supported_fields_are_accepted() {
        let spec = "hostNetwork: true\n  hostPID: true\n  restartPolicy: OnFailure\n  \
                    overhead: {cpu: 250m, memory: 64Mi}\n  \
                    terminationGracePeriodSeconds: 5\n  activeDeadlineSeconds: 60\n  \
                    initContainers: [{name: i, image: i}, {name: s, image: i, restartPolicy: Always}]\n  \
                    dnsPolicy: None\n  dnsConfig: {nameservers: [1.1.1.1]}\n  \
                    hostAliases: [{ip: 1.2.3.4, hostnames: [x]}]\n  \
                    os: {name: linux}\n  \
                    volumes: [{name: v, emptyDir: {}}, {name: w, hostPath: {path: /x}}]\n  \
                    securityContext: {runAsUser: 1, seccompProfile: {type: RuntimeDefault}}";
        let container = "command: [a]\n    args: [b]\n    \
                         ports: [{containerPort: 80, hostPort: 80}]\n    \
                         env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]\n    \
                         securityContext: {privileged: true}\n    \
                         resources: {limits: {memory: 1Mi}}\n    \
                         volumeMounts: [{name: v, mountPath: /v, subPath: s}]\n    \
                         terminationMessagePath: /x\n    \
                         terminationMessagePolicy: FallbackToLogsOnError\n    \
                         livenessProbe: {tcpSocket: {port: 1}}\n    \
                         readinessProbe: {httpGet: {port: 1}}\n    \
                         startupProbe: {grpc: {port: 1}}\n    \
                         lifecycle: {preStop: {sleep: {seconds: 1}}, stopSignal: SIGUSR1}";
        assert_eq!(refused(spec, container), Vec::<String>::new());
    }

    // behaviour: SRC-26
    #[test]
    fn unsupported_fields_are_named() {
        let rows = [
            ("readinessGates: [{conditionType: x}]", "", "spec.readinessGates"),
            ("runtimeClassName: fast", "", "spec.runtimeClassName"),
        ];
        for (spec, container, path) in rows {
            assert!(refused(spec, container).contains(&path.to_owned()), "{path}");
        }
    }

    // behaviour: API-10
    #[test]
    fn api_pod_is_not_refused_for_volumes_and_cluster_features() {
        let volume = Volume { name: "v".to_owned(), ..Volume::default() };
        let spec = PodSpec {
            volumes: Some(vec![volume]),
            runtime_class_name: Some("fast".to_owned()),
            readiness_gates: Some(vec![PodReadinessGate::default()]),
            scheduling_group: Some(PodSchedulingGroup::default()),
            ..PodSpec::default()
        };
        let pod = Pod { spec: Some(spec), ..Pod::default() };
        assert_eq!(unsupported(&pod), ["spec.schedulingGroup"]);
    }

    #[test]
    fn security_annotations_are_named() {
        let mut pod = Pod { spec: Some(PodSpec::default()), ..Pod::default() };
        let name = "container.seccomp.security.alpha.kubernetes.io/main".to_owned();
        pod.metadata.annotations = Some([(name.clone(), "localhost/tight.json".to_owned())].into());
        assert!(unsupported(&pod).is_empty(), "pods of the API may be annotated at any time");
        let source = (crate::annotations::CONFIG_SOURCE.to_owned(), "file".to_owned());
        pod.metadata.annotations.get_or_insert_default().extend([source]);
        assert_eq!(unsupported(&pod), [format!("metadata.annotations[{name}]")]);
    }
}

//! The configuration of a container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use model::labels;
use model::wanted::ContainerConfig;
use podspec::view;

use crate::decide::{ConfigError, environment, expand};
use crate::layout::LogLayout;
use crate::sandbox;

/// What of the kernel a container must not see, and what it must not write: upstream's lists for a
/// container that does not ask for more. Without them, root in a container could change the host.
const MASKED_PATHS: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const READONLY_PATHS: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What the runtime is asked for.
pub(crate) fn container_config(
    pod: &Pod,
    container: &Container,
    restart_count: u32,
    image_ref: String,
) -> Result<ContainerConfig, ConfigError> {
    let envs = environment(container)?;
    let values: BTreeMap<String, String> = envs.iter().cloned().collect();
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand(word, &values)).collect()
    };
    Ok(ContainerConfig {
        name: container.name.as_str().into(),
        attempt: restart_count,
        image_ref,
        user_image: container.image.clone().unwrap_or_default(),
        command: expanded(&container.command),
        args: expanded(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs,
        labels: container_labels(pod, container),
        annotations: container_annotations(pod, container, restart_count),
        log_path: LogLayout::container_log(&container.name, restart_count),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        masked_paths: MASKED_PATHS.map(ToOwned::to_owned).into(),
        readonly_paths: READONLY_PATHS.map(ToOwned::to_owned).into(),
        pid: sandbox::pid_mode(pod),
        pid_target: None,
        mounts: Vec::new(),
        stop_signal: stop_signal(container),
    })
}

fn stop_signal(container: &Container) -> Option<String> {
    container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone())
}

fn container_labels(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut labels = sandbox::pod_labels(pod);
    labels.insert(labels::CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

/// What must be known of the container after a restart of the agent, under upstream's names, so that
/// either agent can take over from the other.
fn container_annotations(
    pod: &Pod,
    container: &Container,
    restart_count: u32,
) -> BTreeMap<String, String> {
    let image = container.image.as_deref().unwrap_or_default();
    let hash = podspec::definition_hash_hex(&container.name, image);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut annotations = BTreeMap::from([
        (labels::CONTAINER_HASH, hash),
        (labels::CONTAINER_RESTART_COUNT, restart_count.to_string()),
        (labels::CONTAINER_TERMINATION_MESSAGE_PATH, text(&container.termination_message_path)),
        (labels::CONTAINER_TERMINATION_MESSAGE_POLICY, text(&container.termination_message_policy)),
    ]);
    if let Some(grace) = pod.metadata.deletion_grace_period_seconds {
        annotations.insert(labels::POD_DELETION_GRACE, grace.to_string());
    }
    if let Some(grace) = view::spec(pod).and_then(|spec| spec.termination_grace_period_seconds) {
        annotations.insert(labels::POD_TERMINATION_GRACE, grace.to_string());
    }
    if let Some(ports) = container.ports.as_ref().filter(|ports| !ports.is_empty())
        && let Ok(ports) = serde_json::to_string(ports)
    {
        annotations.insert(labels::CONTAINER_PORTS, ports);
    }
    let lifecycle = container.lifecycle.as_ref();
    if let Some(hook) = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref())
        && let Ok(hook) = serde_json::to_string(hook)
    {
        annotations.insert(labels::CONTAINER_PRE_STOP_HANDLER, hook);
    }
    annotations.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerPort, EnvVar, PodSpec};

    use super::*;

    fn made(container: &Container) -> ContainerConfig {
        let spec = PodSpec {
            termination_grace_period_seconds: Some(30),
            containers: vec![container.clone()],
            ..PodSpec::default()
        };
        let mut pod = Pod { spec: Some(spec), ..Pod::default() };
        pod.metadata.name = Some("web".to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        pod.metadata.uid = Some("uid".to_owned());
        container_config(&pod, container, 4, "sha256:1".to_owned()).unwrap()
    }

    #[test]
    fn command_arguments_and_environment_are_expanded() {
        let config = made(&Container {
            name: "main".to_owned(),
            image: Some("image:1".to_owned()),
            command: Some(vec!["/bin/$(WHAT)".to_owned()]),
            args: Some(vec!["$(WHAT)".to_owned(), "$(NONE)".to_owned()]),
            env: Some(vec![EnvVar {
                name: "WHAT".to_owned(),
                value: Some("ls".to_owned()),
                ..EnvVar::default()
            }]),
            ..Container::default()
        });
        assert_eq!(config.command, ["/bin/ls"]);
        assert_eq!(config.args, ["ls", "$(NONE)"]);
        assert_eq!(config.envs, [("WHAT".to_owned(), "ls".to_owned())]);
        assert_eq!(config.log_path, "main/4.log");
        assert_eq!(config.attempt, 4);
    }

    #[test]
    fn labels_and_annotations_are_upstreams() {
        let config = made(&Container {
            name: "test_container".to_owned(),
            image: Some("foo/image:v1".to_owned()),
            termination_message_path: Some("/dev/termination-log".to_owned()),
            termination_message_policy: Some("File".to_owned()),
            ports: Some(vec![ContainerPort {
                container_port: 80,
                protocol: Some("TCP".to_owned()),
                ..ContainerPort::default()
            }]),
            ..Container::default()
        });
        let expected = [
            ("io.kubernetes.container.hash", "8e45cbd0"),
            ("io.kubernetes.container.ports", r#"[{"containerPort":80,"protocol":"TCP"}]"#),
            ("io.kubernetes.container.restartCount", "4"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.pod.terminationGracePeriod", "30"),
        ];
        let annotations: Vec<_> =
            config.annotations.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(annotations, expected);
        let labels: Vec<_> = config.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let expected = [
            ("io.kubernetes.container.name", "test_container"),
            ("io.kubernetes.pod.name", "web"),
            ("io.kubernetes.pod.namespace", "default"),
            ("io.kubernetes.pod.uid", "uid"),
        ];
        assert_eq!(labels, expected);
    }
}

//! The configuration of a container.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Pod};
use model::environment::Environment;
use model::labels;
use model::ports::runtime::ImageUser;
use model::wanted::{ContainerConfig, Device, Mount};
use podspec::{Size, view};

use crate::decide::{
    ConfigError, Confinement, ContainerString, NodeSettings, StringBudget, add_volume_groups,
    container_resources, container_security, handler_json, ports_json,
};
use crate::layout::seccomp_profiles;
use crate::sandbox_config;
use model::log_layout::LogLayout;

/// The properties of a container instance in addition to its spec.
#[derive(Debug)]
pub(crate) struct Instance {
    /// Its restart count.
    pub(crate) restart_count: u32,
    /// The reference of its image in the runtime.
    pub(crate) image_ref: String,
    /// The user of its image.
    pub(crate) image_user: Option<ImageUser>,
    /// Its environment.
    pub(crate) envs: Environment,
    /// Its mounts.
    pub(crate) mounts: Vec<Mount>,
    /// Block devices of its volumes.
    pub(crate) devices: Vec<Device>,
    /// The groups of the pod's persistent volumes.
    pub(crate) groups: BTreeSet<i64>,
}

/// The configuration for the runtime.
pub(crate) fn container_config(
    pod: &Pod,
    container: &Container,
    instance: Instance,
    node: &NodeSettings,
) -> Result<ContainerConfig, ConfigError> {
    let Instance { restart_count, image_ref, image_user, envs, mounts, devices, groups } = instance;
    let confinement = Confinement {
        seccomp_default: node.seccomp_default,
        seccomp_profiles: &seccomp_profiles(&node.root_dir),
        masked_paths: &node.machine.thermal_throttle,
    };
    let mut security = container_security(pod, container, image_user.as_ref(), &confinement)?;
    add_volume_groups(&mut security.supplemental_groups, &groups);
    let (command, args) = command_and_args(container, &envs)?;
    Ok(ContainerConfig {
        name: container.name.as_str().into(),
        attempt: restart_count,
        image_ref,
        user_image: container.image.clone().unwrap_or_default(),
        command,
        args,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs,
        mounts,
        devices,
        labels: container_labels(pod, container),
        annotations: container_annotations(pod, container, restart_count),
        log_path: LogLayout::container_log(&container.name, restart_count),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        security,
        resources: container_resources(pod, container, &node.limits, &node.machine),
        pid: sandbox_config::pid_mode(pod),
        pid_target: None,
        stop_signal: stop_signal(container).filter(|_| node.stop_signals),
    })
}

/// The command and the arguments, with the values of variables.
fn command_and_args(
    container: &Container,
    envs: &[(String, String)],
) -> Result<(Vec<String>, Vec<String>), ConfigError> {
    let values: BTreeMap<&str, &str> =
        envs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let known = |name: &str| values.get(name).copied();
    let mut budget = StringBudget::after(&container.name, envs);
    let mut expanded = |words: &Option<Vec<String>>,
                        string: fn(usize) -> ContainerString<'static>| {
        let words = words.iter().flatten().enumerate();
        words.map(|(at, word)| budget.expand(word, string(at), known)).collect::<Result<_, _>>()
    };
    let command = expanded(&container.command, ContainerString::Command)?;
    Ok((command, expanded(&container.args, ContainerString::Argument)?))
}

fn stop_signal(container: &Container) -> Option<String> {
    container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone())
}

fn container_labels(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut labels = sandbox_config::pod_labels(pod);
    labels.insert(labels::CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

/// The data that the agent needs after a restart, under upstream's names, so that
/// either agent can take over from the other; and its resources, which upstream stores elsewhere.
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
        (labels::CONTAINER_SIZE, Size::effective(pod, container).to_string()),
        (labels::CONTAINER_TERMINATION_MESSAGE_PATH, text(&container.termination_message_path)),
        (labels::CONTAINER_TERMINATION_MESSAGE_POLICY, text(&container.termination_message_policy)),
    ]);
    if let Some(grace) = pod.metadata.deletion_grace_period_seconds {
        annotations.insert(labels::POD_DELETION_GRACE, grace.to_string());
    }
    if let Some(grace) = view::spec(pod).and_then(|spec| spec.termination_grace_period_seconds) {
        annotations.insert(labels::POD_TERMINATION_GRACE, grace.to_string());
    }
    let pre_stop = container.lifecycle.as_ref().and_then(|hooks| hooks.pre_stop.as_ref());
    if let Some(pre_stop) = pre_stop {
        annotations.insert(labels::CONTAINER_PRE_STOP_HANDLER, handler_json(pre_stop));
    }
    if let Some(ports) = container.ports.as_ref().filter(|ports| !ports.is_empty()) {
        annotations.insert(labels::CONTAINER_PORTS, ports_json(ports));
    }
    annotations.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ContainerPort, EnvVar, ExecAction, Lifecycle, LifecycleHandler, PodSpec,
    };

    use super::*;
    use crate::decide::{ApiFacts, EnvironmentSources, environment};

    fn made(container: &Container) -> ContainerConfig {
        made_in(Pod::default(), container)
    }

    /// The configuration of a container in this pod.
    fn made_in(mut pod: Pod, container: &Container) -> ContainerConfig {
        pod.spec = Some(PodSpec {
            termination_grace_period_seconds: Some(30),
            containers: vec![container.clone()],
            ..PodSpec::default()
        });
        pod.metadata.name = Some("web".to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        pod.metadata.uid = Some("uid".to_owned());
        let (node, api) = (NodeSettings::default(), ApiFacts::default());
        let sources = EnvironmentSources { ips: &[], node_ips: &[], node: &node, api: &api };
        let instance = Instance {
            restart_count: 4,
            image_ref: "sha256:1".to_owned(),
            image_user: None,
            envs: environment(&pod, container, &sources).unwrap().into(),
            mounts: Vec::new(),
            devices: Vec::new(),
            groups: BTreeSet::new(),
        };
        container_config(&pod, container, instance, &node).unwrap()
    }

    // behaviour: CON-9
    #[test]
    fn command_args_and_environment_are_expanded() {
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
        assert_eq!(config.envs.0, [("WHAT".to_owned(), "ls".to_owned())]);
        assert_eq!(config.log_path, "main/4.log");
        assert_eq!(config.attempt, 4);
    }

    // behaviour: CON-10
    #[test]
    fn labels_and_annotations_match_upstream_except_for_the_size() {
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
            ("io.ferrolet.container.size", "0 0 0 0"),
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

    // behaviour: CON-10
    #[test]
    fn container_annotations_have_the_data_for_its_termination() {
        let mut pod = Pod::default();
        pod.metadata.deletion_grace_period_seconds = Some(5);
        let command = Some(vec!["/bin/bye".to_owned(), "a b".to_owned()]);
        let pre_stop =
            LifecycleHandler { exec: Some(ExecAction { command }), ..LifecycleHandler::default() };
        let container = Container {
            name: "main".to_owned(),
            image: Some("image:1".to_owned()),
            lifecycle: Some(Lifecycle { pre_stop: Some(pre_stop), ..Lifecycle::default() }),
            ..Container::default()
        };
        let config = made_in(pod, &container);
        let rows = [
            (
                "io.kubernetes.container.preStopHandler",
                r#"{"exec":{"command":["/bin/bye","a b"]}}"#,
            ),
            ("io.kubernetes.pod.deletionGracePeriod", "5"),
            ("io.kubernetes.pod.terminationGracePeriod", "30"),
        ];
        for (name, expected) in rows {
            assert_eq!(config.annotations.get(name).map(String::as_str), Some(expected), "{name}");
        }
    }
}

//! Things to ask for, and labels and verdicts that go with them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::ids::PodName;
use model::verdict::{Subject, Verdict};
use model::wanted::{ContainerConfig, Mount, NamespaceMode, SandboxConfig};

pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// What a node agent writes on a container, to know it again.
pub(crate) fn pod_labels() -> BTreeMap<String, String> {
    map(&[
        ("io.kubernetes.pod.name", "web"),
        ("io.kubernetes.pod.namespace", "shop"),
        ("io.kubernetes.pod.uid", "uid-1"),
    ])
}

/// No two fields of a kind are alike, so that none can be taken for another.
pub(crate) fn sandbox_config() -> SandboxConfig {
    SandboxConfig {
        pod_uid: "uid-1".into(),
        pod: PodName::new("shop", "web"),
        attempt: 3,
        hostname: "web-host".into(),
        log_directory: "/var/log/pods/shop_web_uid-1".into(),
        labels: map(&[("tier", "front")]),
        annotations: map(&[("note", "a")]),
        network: NamespaceMode::Pod,
        pid: NamespaceMode::Container,
        ipc: NamespaceMode::Node,
        cgroup_parent: "/kubepods/poduid-1".into(),
    }
}

pub(crate) fn container_config() -> ContainerConfig {
    ContainerConfig {
        name: "app".into(),
        attempt: 4,
        image_ref: "sha256:beef".into(),
        user_image: "shop/app:1".into(),
        command: vec!["/bin/app".into(), "serve".into()],
        args: vec!["--port".into(), "80".into()],
        working_dir: "/srv".into(),
        envs: vec![("B".into(), "2".into()), ("A".into(), "ö".into())],
        labels: map(&[("tier", "inner")]),
        annotations: map(&[("note", "b")]),
        log_path: "app/4.log".into(),
        stdin: true,
        stdin_once: false,
        tty: true,
        masked_paths: vec!["/proc/kcore".into()],
        readonly_paths: vec!["/proc/sys".into()],
        pid: NamespaceMode::Container,
        pid_target: None,
        mounts: vec![Mount {
            host_path: "/on/host".into(),
            container_path: "/in/container".into(),
            read_only: true,
        }],
        stop_signal: Some("SIGUSR1".into()),
    }
}

pub(crate) fn verdict(subject: Subject) -> Verdict {
    Verdict { subject, rule: "a-rule", inputs: String::new(), at: Timestamp::UNIX_EPOCH }
}

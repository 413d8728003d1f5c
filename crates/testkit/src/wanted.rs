//! Configurations for requests to a runtime. All fields are public, so that tests can change them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::ids::{PodName, PodUid};
use model::labels;
use model::verdict::{Detail, Subject, Verdict};
use model::wanted::{ContainerConfig, SandboxConfig};

/// The first sandbox of a pod, with the labels by which its objects are found again.
pub fn sandbox(pod: &PodName, uid: &PodUid) -> SandboxConfig {
    SandboxConfig {
        hostname: pod.name.to_string(),
        log_directory: format!("/var/log/pods/{}_{}_{uid}", pod.namespace, pod.name),
        labels: pod_labels(pod, uid),
        ..SandboxConfig::new(uid.clone(), pod.clone(), 0)
    }
}

/// The first instance of a container in that sandbox, with arguments for the image's entry point.
pub fn container(
    sandbox: &SandboxConfig,
    name: &str,
    image: &str,
    args: &[&str],
) -> ContainerConfig {
    let mut labels = pod_labels(&sandbox.pod, &sandbox.pod_uid);
    labels.insert(labels::CONTAINER_NAME.into(), name.into());
    ContainerConfig {
        args: args.iter().map(ToString::to_string).collect(),
        labels,
        log_path: format!("{name}/0.log"),
        ..ContainerConfig::new(name, image)
    }
}

/// A removal verdict whose reason is that a test requested it.
pub fn removal(subject: Subject) -> Verdict {
    Verdict {
        subject,
        name: "".into(),
        owner: None,
        rule: "test",
        detail: Detail::default(),
        at: Timestamp::UNIX_EPOCH,
    }
}

fn pod_labels(pod: &PodName, uid: &PodUid) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::POD_NAME.into(), pod.name.to_string()),
        (labels::POD_NAMESPACE.into(), pod.namespace.to_string()),
        (labels::POD_UID.into(), uid.to_string()),
    ])
}

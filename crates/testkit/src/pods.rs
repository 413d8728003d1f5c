//! A concise builder of pods for tests.
//!
//! ```text
//! let pod = testkit::pods::pod("web")
//!     .container("main", "ferrolet.test/workload:1", ["sleep", "forever"])
//!     .build();
//! assert_eq!(pod.metadata.uid.as_deref(), Some("uid-of-web"));
//! ```

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A pod without containers, called `name` in the namespace `default`.
pub fn pod(name: &str) -> PodBuilder {
    PodBuilder {
        pod: Pod {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some("default".into()),
                uid: Some(format!("uid-of-{name}")),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec::default()),
            status: None,
        },
    }
}

/// The builder of a pod.
#[derive(Debug, Clone)]
pub struct PodBuilder {
    pod: Pod,
}

impl PodBuilder {
    /// Sets the namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.pod.metadata.namespace = Some(namespace.into());
        self
    }

    /// Sets another UID, for a recreated pod of the same name.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.pod.metadata.uid = Some(uid.into());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let labels = self.pod.metadata.labels.get_or_insert_default();
        labels.insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.pod.metadata.annotations.get_or_insert_default();
        annotations.insert(key.into(), value.into());
        self
    }

    /// Adds a container, whose image's entry point gets these arguments.
    #[must_use]
    pub fn container<const N: usize>(self, name: &str, image: &str, args: [&str; N]) -> Self {
        let container = container(name, image, &args);
        self.spec(|spec| spec.containers.push(container))
    }

    /// Adds an init container.
    #[must_use]
    pub fn init_container<const N: usize>(self, name: &str, image: &str, args: [&str; N]) -> Self {
        let container = container(name, image, &args);
        self.spec(|spec| spec.init_containers.get_or_insert_default().push(container))
    }

    /// Adds a sidecar: an init container with restart policy `Always`.
    #[must_use]
    pub fn sidecar<const N: usize>(self, name: &str, image: &str, args: [&str; N]) -> Self {
        let mut container = container(name, image, &args);
        container.restart_policy = Some("Always".into());
        self.spec(|spec| spec.init_containers.get_or_insert_default().push(container))
    }

    /// Sets the restart policy: `Always`, `OnFailure` or `Never`.
    #[must_use]
    pub fn restart_policy(self, policy: &str) -> Self {
        self.spec(|spec| spec.restart_policy = Some(policy.into()))
    }

    /// Sets the termination grace period in seconds.
    #[must_use]
    pub fn grace(self, seconds: i64) -> Self {
        self.spec(|spec| spec.termination_grace_period_seconds = Some(seconds))
    }

    /// Uses the host network.
    #[must_use]
    pub fn host_network(self) -> Self {
        self.spec(|spec| spec.host_network = Some(true))
    }

    /// Sets the node.
    #[must_use]
    pub fn on_node(self, node: &str) -> Self {
        self.spec(|spec| spec.node_name = Some(node.into()))
    }

    /// Applies any other change.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.pod);
        self
    }

    /// Applies any other change to the spec.
    #[must_use]
    pub fn spec(mut self, change: impl FnOnce(&mut PodSpec)) -> Self {
        change(self.pod.spec.get_or_insert_default());
        self
    }

    /// Builds the pod.
    pub fn build(self) -> Pod {
        self.pod
    }
}

fn container(name: &str, image: &str, args: &[&str]) -> Container {
    Container {
        name: name.into(),
        image: Some(image.into()),
        args: (!args.is_empty()).then(|| args.iter().map(ToString::to_string).collect()),
        ..Container::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_uid_is_derived_from_its_name() {
        let args = ["sleep", "forever"];
        let pod = pod("web").container("main", "ferrolet.test/workload:1", args).build();
        assert_eq!(pod.metadata.uid.as_deref(), Some("uid-of-web"));
    }

    #[test]
    fn builder_sets_all_pod_fields() {
        let pod = pod("web")
            .namespace("shop")
            .label("app", "web")
            .restart_policy("OnFailure")
            .init_container("prepare", "image", ["exit", "0"])
            .sidecar("proxy", "image", ["sleep", "forever"])
            .container("main", "image", [])
            .build();
        let spec = pod.spec.unwrap();
        let init = spec.init_containers.unwrap();
        assert_eq!(pod.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(pod.metadata.labels.unwrap()["app"], "web");
        assert_eq!(spec.restart_policy.as_deref(), Some("OnFailure"));
        assert_eq!(init[0].args.as_deref(), Some(&["exit".into(), "0".into()][..]));
        assert_eq!(init[1].restart_policy.as_deref(), Some("Always"));
        assert_eq!(spec.containers[0].args, None);
    }
}

//! Ephemeral containers as containers.
//!
//! The API has the same fields in another type. Rules for containers are
//! written once, for [`Container`].

use k8s_openapi::api::core::v1::{Container, EphemeralContainer};

macro_rules! convert {
    ($from:expr, $to:ident { $($extra:ident)? }) => {{
        let from = $from;
        $to {
            args: from.args,
            command: from.command,
            env: from.env,
            env_from: from.env_from,
            image: from.image,
            image_pull_policy: from.image_pull_policy,
            lifecycle: from.lifecycle,
            liveness_probe: from.liveness_probe,
            name: from.name,
            ports: from.ports,
            readiness_probe: from.readiness_probe,
            resize_policy: from.resize_policy,
            resources: from.resources,
            restart_policy: from.restart_policy,
            restart_policy_rules: from.restart_policy_rules,
            security_context: from.security_context,
            startup_probe: from.startup_probe,
            stdin: from.stdin,
            stdin_once: from.stdin_once,
            termination_message_path: from.termination_message_path,
            termination_message_policy: from.termination_message_policy,
            tty: from.tty,
            volume_devices: from.volume_devices,
            volume_mounts: from.volume_mounts,
            working_dir: from.working_dir,
            $($extra)?
        }
    }};
}

/// The container with the fields of an ephemeral container.
pub(crate) fn to_container(ephemeral: EphemeralContainer) -> Container {
    convert!(ephemeral, Container {})
}

/// The ephemeral container with the fields of a container.
pub(crate) fn from_container(
    container: Container,
    target_container_name: Option<String>,
) -> EphemeralContainer {
    convert!(container, EphemeralContainer { target_container_name })
}

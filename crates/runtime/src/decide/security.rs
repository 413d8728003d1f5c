//! The security contexts of containers and sandboxes.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, Pod, PodSecurityContext, SELinuxOptions, SeccompProfile,
    SecurityContext,
};
use model::ports::runtime::ImageUser;
use model::wanted::{
    Capabilities, ContainerSecurity, GroupsPolicy, SandboxSecurity, SecurityProfile, SelinuxOptions,
};
use podspec::apparmor::apparmor_profile;
use podspec::view;

use super::ConfigError;
use super::go_path::cleaned;

/// The masked paths of a container with the default `procMount`: upstream's list. Without
/// it, root in a container could change the host.
pub const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// The read-only paths of such a container.
pub const READONLY_PATHS: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// The security settings of the node.
#[derive(Debug, Clone, Copy)]
pub struct Confinement<'a> {
    /// Whether `RuntimeDefault` is the default seccomp profile.
    pub seccomp_default: bool,
    /// The directory of the node's seccomp profiles.
    pub seccomp_profiles: &'a Path,
    /// Further masked paths of this machine.
    pub masked_paths: &'a [String],
}

/// The security context of a container. `image_user` is the user of its image; an image without one runs
/// as root.
pub fn container_security(
    pod: &Pod,
    container: &Container,
    image_user: Option<&ImageUser>,
    confinement: &Confinement<'_>,
) -> Result<ContainerSecurity, ConfigError> {
    let of_pod = pod_context(pod);
    let own = container.security_context.clone().unwrap_or_default();
    let image_user = image_user.cloned().unwrap_or(ImageUser::Uid(0));
    check_non_root(pod, container, &image_user)?;
    let (user, name) = match (run_as_user(pod, container), image_user) {
        (Some(user), _) | (None, ImageUser::Uid(user)) => (Some(user), String::new()),
        (None, ImageUser::Name(name)) => (None, name),
    };
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    let masked = MASKED_PATHS.iter().map(ToString::to_string);
    let masked = masked.chain(confinement.masked_paths.iter().cloned()).filter(|_| !unmasked);
    let readonly = READONLY_PATHS.iter().map(ToString::to_string).filter(|_| !unmasked);
    let selinux = own.se_linux_options.as_ref();
    Ok(ContainerSecurity {
        capabilities: own.capabilities.map(|changes| Capabilities {
            add: changes.add.unwrap_or_default(),
            drop: changes.drop.unwrap_or_default(),
        }),
        privileged: own.privileged == Some(true),
        selinux: selinux
            .or(of_pod.and_then(|pod| pod.se_linux_options.as_ref()))
            .map(selinux_options),
        run_as_user: user,
        run_as_username: name,
        run_as_group: own.run_as_group.or(of_pod.and_then(|pod| pod.run_as_group)),
        read_only_root: own.read_only_root_filesystem == Some(true),
        supplemental_groups: supplemental_groups(of_pod),
        groups_policy: groups_policy(of_pod)?,
        no_new_privileges: own.allow_privilege_escalation == Some(false),
        masked_paths: masked.collect(),
        readonly_paths: readonly.collect(),
        seccomp: Some(seccomp(of_pod, container.security_context.as_ref(), confinement)?),
        apparmor: apparmor_profile(pod, container).map(|profile| apparmor(&profile)).transpose()?,
    })
}

/// The security context of a sandbox.
pub fn sandbox_security(pod: &Pod) -> Result<SandboxSecurity, ConfigError> {
    let of_pod = pod_context(pod);
    let privileged = |container: &Container| {
        container.security_context.as_ref().and_then(|own| own.privileged) == Some(true)
    };
    let all = view::init_containers(pod).iter().chain(view::containers(pod));
    Ok(SandboxSecurity {
        privileged: all.into_iter().any(privileged)
            || view::ephemeral_containers(pod).iter().any(privileged),
        run_as_user: of_pod.and_then(|pod| pod.run_as_user),
        run_as_group: of_pod.and_then(|pod| pod.run_as_group),
        supplemental_groups: supplemental_groups(of_pod),
        groups_policy: groups_policy(of_pod)?,
        selinux: of_pod.and_then(|pod| pod.se_linux_options.as_ref()).map(selinux_options),
    })
}

fn pod_context(pod: &Pod) -> Option<&PodSecurityContext> {
    view::spec(pod)?.security_context.as_ref()
}

/// The setting of the container, else of the pod.
fn run_as_user(pod: &Pod, container: &Container) -> Option<i64> {
    let own = container.security_context.as_ref().and_then(|own| own.run_as_user);
    own.or(pod_context(pod).and_then(|pod| pod.run_as_user))
}

fn check_non_root(
    pod: &Pod,
    container: &Container,
    image_user: &ImageUser,
) -> Result<(), ConfigError> {
    let own = container.security_context.as_ref().and_then(|own| own.run_as_non_root);
    let wanted = own.or(pod_context(pod).and_then(|pod| pod.run_as_non_root));
    if wanted != Some(true) {
        return Ok(());
    }
    let user = run_as_user(pod, container);
    let (name, container) = (described(pod), container.name.clone());
    match (user, image_user) {
        (Some(0), _) => Err(ConfigError::RunsAsRoot { pod: name, container }),
        (None, ImageUser::Name(user)) => {
            Err(ConfigError::ImageUserUnknown { user: user.clone(), pod: name, container })
        }
        (None, ImageUser::Uid(0)) => Err(ConfigError::ImageRunsAsRoot { pod: name, container }),
        (None, ImageUser::Uid(user)) if i32::try_from(*user).is_err() || *user < 0 => {
            Err(ConfigError::ImageUserInvalid { user: *user, pod: name, container })
        }
        (Some(_), _) | (None, ImageUser::Uid(_)) => Ok(()),
    }
}

fn supplemental_groups(pod: Option<&PodSecurityContext>) -> Vec<i64> {
    let volumes = pod.and_then(|pod| pod.fs_group);
    let more = pod.and_then(|pod| pod.supplemental_groups.clone()).unwrap_or_default();
    volumes.into_iter().chain(more).collect()
}

/// Adds the groups of the pod's persistent volumes, without duplicates.
pub fn add_volume_groups(groups: &mut Vec<i64>, of_volumes: &BTreeSet<i64>) {
    for group in of_volumes {
        if !groups.contains(group) {
            groups.push(*group);
        }
    }
}

fn groups_policy(pod: Option<&PodSecurityContext>) -> Result<GroupsPolicy, ConfigError> {
    match pod.and_then(|pod| pod.supplemental_groups_policy.as_deref()) {
        None | Some("Merge") => Ok(GroupsPolicy::Merge),
        Some("Strict") => Ok(GroupsPolicy::Strict),
        Some(other) => Err(ConfigError::GroupsPolicy(other.to_owned())),
    }
}

fn selinux_options(options: &SELinuxOptions) -> SelinuxOptions {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    SelinuxOptions {
        user: text(&options.user),
        role: text(&options.role),
        kind: text(&options.type_),
        level: text(&options.level),
    }
}

fn seccomp(
    pod: Option<&PodSecurityContext>,
    own: Option<&SecurityContext>,
    confinement: &Confinement<'_>,
) -> Result<SecurityProfile, ConfigError> {
    let of_pod = || pod.and_then(|pod| pod.seccomp_profile.as_ref());
    let requested = own.and_then(|own| own.seccomp_profile.as_ref()).or_else(of_pod);
    let Some(SeccompProfile { type_, localhost_profile }) = requested else {
        return Ok(if confinement.seccomp_default {
            SecurityProfile::RuntimeDefault
        } else {
            SecurityProfile::Unconfined
        });
    };
    match type_.as_str() {
        "RuntimeDefault" => Ok(SecurityProfile::RuntimeDefault),
        "Localhost" => {
            let name = localhost_profile.as_deref().filter(|name| !name.is_empty());
            // The path must not leave the directory.
            let name = cleaned(name.ok_or(ConfigError::SeccompProfile)?);
            let profiles = confinement.seccomp_profiles.to_string_lossy();
            Ok(SecurityProfile::Localhost(format!("{profiles}{name}")))
        }
        _ => Ok(SecurityProfile::Unconfined),
    }
}

fn apparmor(profile: &AppArmorProfile) -> Result<SecurityProfile, ConfigError> {
    match profile.type_.as_str() {
        "RuntimeDefault" => Ok(SecurityProfile::RuntimeDefault),
        "Unconfined" => Ok(SecurityProfile::Unconfined),
        "Localhost" => {
            let name = profile.localhost_profile.clone().ok_or(ConfigError::ApparmorProfile)?;
            Ok(SecurityProfile::Localhost(name))
        }
        other => Err(ConfigError::ApparmorType(other.to_owned())),
    }
}

/// A pod with namespace and UID, as in upstream's messages.
pub fn described(pod: &Pod) -> String {
    let name = view::pod_name(pod);
    format!("{}_{}({})", name.name, name.namespace, view::uid(pod))
}

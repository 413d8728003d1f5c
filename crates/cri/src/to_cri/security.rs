//! Namespaces, users and security profiles.

use model::wanted::{
    ContainerConfig, GroupsPolicy, IdMapping, NamespaceMode, SandboxConfig, SecurityProfile,
    SelinuxOptions, UserNamespace,
};
use proto::runtime_v1 as cri;
use proto::runtime_v1::security_profile::ProfileType;

fn namespace_mode(mode: NamespaceMode) -> i32 {
    let mode = match mode {
        NamespaceMode::Pod => cri::NamespaceMode::Pod,
        NamespaceMode::Container => cri::NamespaceMode::Container,
        NamespaceMode::Node => cri::NamespaceMode::Node,
    };
    mode.into()
}

pub(super) fn id_mappings(users: UserNamespace) -> Vec<cri::IdMapping> {
    match users {
        UserNamespace::Node => Vec::new(),
        UserNamespace::Pod(IdMapping { host_id, container_id, length }) => {
            vec![cri::IdMapping { host_id, container_id, length }]
        }
    }
}

fn user_namespace(users: UserNamespace) -> cri::UserNamespace {
    let mode = match users {
        UserNamespace::Node => cri::NamespaceMode::Node,
        UserNamespace::Pod(_) => cri::NamespaceMode::Pod,
    };
    let ids = id_mappings(users);
    cri::UserNamespace { mode: mode.into(), uids: ids.clone(), gids: ids }
}

fn namespaces(sandbox: &SandboxConfig, pid: NamespaceMode) -> cri::NamespaceOption {
    cri::NamespaceOption {
        network: namespace_mode(sandbox.network),
        pid: namespace_mode(pid),
        ipc: namespace_mode(sandbox.ipc),
        userns_options: Some(user_namespace(sandbox.users)),
        ..cri::NamespaceOption::default()
    }
}

fn number(value: Option<i64>) -> Option<cri::Int64Value> {
    value.map(|value| cri::Int64Value { value })
}

fn groups_policy(policy: GroupsPolicy) -> i32 {
    let policy = match policy {
        GroupsPolicy::Merge => cri::SupplementalGroupsPolicy::Merge,
        GroupsPolicy::Strict => cri::SupplementalGroupsPolicy::Strict,
    };
    policy.into()
}

fn selinux(options: &SelinuxOptions) -> cri::SeLinuxOption {
    let SelinuxOptions { user, role, kind, level } = options.clone();
    cri::SeLinuxOption { user, role, r#type: kind, level }
}

fn profile(profile: &SecurityProfile) -> cri::SecurityProfile {
    let (kind, localhost) = match profile {
        SecurityProfile::RuntimeDefault => (ProfileType::RuntimeDefault, ""),
        SecurityProfile::Unconfined => (ProfileType::Unconfined, ""),
        SecurityProfile::Localhost(name) => (ProfileType::Localhost, name.as_str()),
    };
    cri::SecurityProfile { profile_type: kind.into(), localhost_ref: localhost.to_owned() }
}

pub(super) fn sandbox(config: &SandboxConfig) -> cri::LinuxSandboxSecurityContext {
    let security = &config.security;
    cri::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(config, config.pid)),
        selinux_options: security.selinux.as_ref().map(selinux),
        run_as_user: number(security.run_as_user),
        run_as_group: number(security.run_as_group),
        supplemental_groups: security.supplemental_groups.clone(),
        supplemental_groups_policy: groups_policy(security.groups_policy),
        privileged: security.privileged,
        // The sandbox runs no process of the pod, so the default is enough.
        seccomp: Some(profile(&SecurityProfile::RuntimeDefault)),
        ..cri::LinuxSandboxSecurityContext::default()
    }
}

#[expect(deprecated, reason = "upstream still fills the older field of AppArmor profiles")]
pub(super) fn container(
    config: &ContainerConfig,
    sandbox: &SandboxConfig,
) -> cri::LinuxContainerSecurityContext {
    let security = &config.security;
    let capabilities = security.capabilities.as_ref().map(|changes| cri::Capability {
        add_capabilities: changes.add.clone(),
        drop_capabilities: changes.drop.clone(),
        add_ambient_capabilities: Vec::new(),
    });
    let mut namespaces = namespaces(sandbox, config.pid);
    if let Some(target) = &config.pid_target {
        namespaces.pid = cri::NamespaceMode::Target.into();
        namespaces.target_id = target.to_string();
    }
    cri::LinuxContainerSecurityContext {
        capabilities,
        privileged: security.privileged,
        namespace_options: Some(namespaces),
        selinux_options: security.selinux.as_ref().map(selinux),
        run_as_user: number(security.run_as_user),
        run_as_username: security.run_as_username.clone(),
        run_as_group: number(security.run_as_group),
        readonly_rootfs: security.read_only_root,
        supplemental_groups: security.supplemental_groups.clone(),
        supplemental_groups_policy: groups_policy(security.groups_policy),
        no_new_privs: security.no_new_privileges,
        // An empty list means that the container sees all paths.
        masked_paths: security.masked_paths.clone(),
        readonly_paths: security.readonly_paths.clone(),
        seccomp: security.seccomp.as_ref().map(profile),
        apparmor: security.apparmor.as_ref().map(profile),
        apparmor_profile: security.apparmor.as_ref().map(apparmor_of_old).unwrap_or_default(),
    }
}

/// The profile in the deprecated field, for old runtimes.
fn apparmor_of_old(profile: &SecurityProfile) -> String {
    match profile {
        SecurityProfile::RuntimeDefault => "runtime/default".to_owned(),
        SecurityProfile::Unconfined => "unconfined".to_owned(),
        SecurityProfile::Localhost(name) => format!("localhost/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: CON-58
    #[test]
    fn apparmor_profile_is_also_sent_in_the_deprecated_field() {
        let rows = [
            (SecurityProfile::RuntimeDefault, "runtime/default"),
            (SecurityProfile::Unconfined, "unconfined"),
            (SecurityProfile::Localhost("tight".to_owned()), "localhost/tight"),
        ];
        for (profile, expected) in rows {
            assert_eq!(apparmor_of_old(&profile), expected, "{profile:?}");
        }
    }
}

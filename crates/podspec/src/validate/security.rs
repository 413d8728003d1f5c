//! Rules for security contexts, and for host namespaces.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
};
use model::sysctl::{Namespace, dotted};

use super::{PodContext, check_optional_word, containers_with_path, paths, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{between, is_sysctl_name};

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const PROC_MOUNTS: &[&str] = &["Default", "Unmasked"];
const FS_GROUP_CHANGE_POLICIES: &[&str] = &["Always", "OnRootMismatch"];
const SUPPLEMENTAL_GROUPS_POLICIES: &[&str] = &["Merge", "Strict"];
/// The other policy, `MountOption`, has a feature gate that is off.
const SELINUX_CHANGE_POLICIES: &[&str] = &["Recursive"];
/// A path may have 4096 bytes with the closing zero.
const PROFILE_MAX_BYTES: usize = 4095;
pub(super) fn check_pod(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let problem = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, problem);
    }
    if spec.host_users == Some(false) {
        check_own_users(spec, path, errors);
    }
    let Some(context) = &spec.security_context else {
        return;
    };
    let path = path.child("securityContext");
    check_id(context.fs_group, &path.child("fsGroup"), errors);
    check_id(context.run_as_user, &path.child("runAsUser"), errors);
    check_id(context.run_as_group, &path.child("runAsGroup"), errors);
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        check_id(Some(*group), &path.child("supplementalGroups").index(index), errors);
    }
    check_sysctls(spec, context, &path.child("sysctls"), errors);
    let words = [
        ("fsGroupChangePolicy", &context.fs_group_change_policy, FS_GROUP_CHANGE_POLICIES),
        (
            "supplementalGroupsPolicy",
            &context.supplemental_groups_policy,
            SUPPLEMENTAL_GROUPS_POLICIES,
        ),
        ("seLinuxChangePolicy", &context.se_linux_change_policy, SELINUX_CHANGE_POLICIES),
    ];
    for (field, value, allowed) in words {
        check_optional_word(value.as_ref(), allowed, &path.child(field), errors);
    }
    if let Some(profile) = &context.seccomp_profile {
        check_seccomp(profile, &path.child("seccompProfile"), errors);
    }
    if let Some(profile) = &context.app_armor_profile {
        check_app_armor(profile, &path.child("appArmorProfile"), errors);
    }
}

pub(super) fn check_container(
    container: &Container,
    path: &FieldPath,
    pod: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let Some(context) = &container.security_context else {
        return;
    };
    check_id(context.run_as_user, &path.child("runAsUser"), errors);
    check_id(context.run_as_group, &path.child("runAsGroup"), errors);
    let proc_mount = path.child("procMount");
    check_optional_word(context.proc_mount.as_ref(), PROC_MOUNTS, &proc_mount, errors);
    if pod.host_users && word(context.proc_mount.as_ref()) == "Unmasked" {
        let problem = "`hostUsers` must be false to use `Unmasked`";
        errors.invalid(&proc_mount, "Unmasked", problem);
    }
    if let Some(profile) = &context.seccomp_profile {
        check_seccomp(profile, &path.child("seccompProfile"), errors);
    }
    if let Some(profile) = &context.app_armor_profile {
        check_app_armor(profile, &path.child("appArmorProfile"), errors);
    }
    if context.allow_privilege_escalation == Some(false) {
        check_no_escalation(context, path, errors);
    }
}

/// A container without privilege escalation must not be privileged.
fn check_no_escalation(context: &SecurityContext, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("allowPrivilegeEscalation");
    if context.privileged == Some(true) {
        let problem = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(&path, false, problem);
    }
    let added = context.capabilities.iter().flat_map(|list| list.add.iter().flatten());
    if added.into_iter().any(|capability| capability == "CAP_SYS_ADMIN") {
        let problem = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                       CAP_SYS_ADMIN";
        errors.invalid(&path, false, problem);
    }
}

/// A user or group id.
fn check_id(id: Option<i64>, path: &FieldPath, errors: &mut FieldErrors) {
    let largest = i64::from(i32::MAX);
    if let Some(id) = id
        && !(0..=largest).contains(&id)
    {
        errors.invalid(path, id, between(0, largest));
    }
}

/// A pod with a user namespace must not share namespaces of the host.
fn check_own_users(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let problem = "when `hostUsers` is false";
    let shared = [
        ("hostNetwork", spec.host_network),
        ("hostPID", spec.host_pid),
        ("hostIPC", spec.host_ipc),
    ];
    for (field, is_shared) in shared {
        if is_shared == Some(true) {
            errors.forbidden(&path.child(field), problem);
        }
    }
    for (path, container) in containers_with_path(spec, path) {
        if container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
            errors.forbidden(&path.child("volumeDevices"), problem);
        }
    }
}

fn check_sysctls(
    spec: &PodSpec,
    context: &PodSecurityContext,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut names = BTreeSet::new();
    for (index, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let path = path.index(index).child("name");
        let name = sysctl.name.as_str();
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_sysctl_name(name) {
            let problem = "must have at most 253 characters and match regex \
                ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&path, name, problem);
        } else if !names.insert(name) {
            errors.duplicate(&path, name);
        }
        match Namespace::of(&dotted(name)) {
            Some(Namespace::Net) if spec.host_network == Some(true) => {
                errors.invalid(&path, name, "may not be specified when 'hostNetwork' is true");
            }
            Some(Namespace::Ipc) if spec.host_ipc == Some(true) => {
                errors.invalid(&path, name, "may not be specified when 'hostIPC' is true");
            }
            _ => {}
        }
    }
}

fn check_seccomp(profile: &SeccompProfile, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = profile.type_.as_str();
    if kind.is_empty() {
        errors.required(&path.child("type"), "type is required when seccompProfile is set");
    } else if !PROFILE_TYPES.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, PROFILE_TYPES);
    }
    let path = path.child("localhostProfile");
    match &profile.localhost_profile {
        None if kind == "Localhost" => {
            errors.required(&path, "must be set when seccomp type is Localhost");
        }
        Some(file) if kind == "Localhost" => paths::check_descending(file, &path, errors),
        Some(file) => {
            let problem = "can only be set when seccomp type is Localhost";
            errors.invalid(&path, file.as_str(), problem);
        }
        None => {}
    }
}

fn check_app_armor(profile: &AppArmorProfile, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = profile.type_.as_str();
    if kind.is_empty() {
        errors.required(&path.child("type"), "type is required when appArmorProfile is set");
    } else if !PROFILE_TYPES.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, PROFILE_TYPES);
    }
    let path = path.child("localhostProfile");
    let name = profile.localhost_profile.as_deref();
    if kind != "Localhost" {
        if let Some(name) = name.filter(|_| PROFILE_TYPES.contains(&kind)) {
            errors.invalid(&path, name, "can only be set when AppArmor type is Localhost");
        }
        return;
    }
    let name = name.unwrap_or_default();
    if name.is_empty() {
        errors.required(&path, "must be set when AppArmor type is Localhost");
    } else if name.trim() != name {
        errors.invalid(&path, name, "must not be padded with whitespace");
    }
    if name.len() > PROFILE_MAX_BYTES {
        errors.too_long(&path, PROFILE_MAX_BYTES);
    }
}

//! Checks whether the machine supports the `AppArmor` profile of a pod.

use k8s_openapi::api::core::v1::{AppArmorProfile, Pod};
use model::go_text::quoted;
use podspec::apparmor::{APPARMOR_ANNOTATION, apparmor_profile, of_whole_pod};
use podspec::view;

/// Why the machine cannot apply the `AppArmor` profile of a pod, if so.
pub fn apparmor_refusal(pod: &Pod, machine_has_it: bool) -> Option<String> {
    let confines = |profile: &AppArmorProfile| profile.type_ != "Unconfined";
    let ephemeral = view::ephemeral_containers(pod);
    let all = view::init_containers(pod).iter().chain(view::containers(pod)).chain(&ephemeral);
    let profiles: Vec<AppArmorProfile> =
        all.filter_map(|container| apparmor_profile(pod, container)).collect();
    let of_pod = of_whole_pod(pod);
    // Any annotation counts, for any container name.
    let mut annotations = pod.metadata.annotations.iter().flatten();
    let is_asked = |(name, value): (&String, &String)| {
        name.starts_with(APPARMOR_ANNOTATION) && value != "unconfined"
    };
    if !profiles.iter().any(confines) && !of_pod.is_some_and(confines) && !annotations.any(is_asked)
    {
        return None;
    }
    if !machine_has_it {
        return Some("Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned());
    }
    let nameless = |profile: &&AppArmorProfile| {
        let name = profile.localhost_profile.as_deref().unwrap_or_default();
        profile.type_ == "Localhost" && name.trim().is_empty()
    };
    let nameless = profiles.iter().find(nameless)?;
    // Like upstream, with the whole profile instead of its name.
    let name = nameless.localhost_profile.as_ref();
    let name = name.map_or_else(|| "nil".to_owned(), |name| format!("*{name}"));
    let profile = quoted(&format!("&AppArmorProfile{{Type:Localhost,LocalhostProfile:{name},}}"));
    Some(format!("Cannot enforce AppArmor: invalid empty AppArmor profile name: {profile}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod of one container, from the security contexts of a manifest.
    fn pod(context: &str, own: &str) -> Pod {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop, uid: u-1}}\n\
             spec:\n  securityContext: {{{context}}}\n  containers:\n  - name: main\n    \
             securityContext: {{{own}}}\n"
        );
        podspec::decode(manifest.as_bytes()).unwrap().pods.remove(0)
    }

    // behaviour: CON-59
    #[test]
    fn pod_with_apparmor_profile_is_refused_without_apparmor() {
        let refusal = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
        let rows = [
            ("", "", false, None),
            ("appArmorProfile: {type: Unconfined}", "", false, None),
            ("appArmorProfile: {type: RuntimeDefault}", "", true, None),
            ("appArmorProfile: {type: RuntimeDefault}", "", false, Some(refusal)),
            ("", "appArmorProfile: {type: Localhost, localhostProfile: x}", false, Some(refusal)),
            (
                "",
                "appArmorProfile: {type: Localhost, localhostProfile: ' '}",
                true,
                Some(
                    "Cannot enforce AppArmor: invalid empty AppArmor profile name: \
                     \"&AppArmorProfile{Type:Localhost,LocalhostProfile:* ,}\"",
                ),
            ),
        ];
        for (context, own, has_it, expected) in rows {
            let refusal = apparmor_refusal(&pod(context, own), has_it);
            assert_eq!(refusal.as_deref(), expected, "{context} {own}");
        }
        let nameless = "Cannot enforce AppArmor: invalid empty AppArmor profile name: \
                        \"&AppArmorProfile{Type:Localhost,LocalhostProfile:*,}\"";
        let rows = [
            ("main", "localhost/", true, Some(nameless)),
            ("main", "localhost/", false, Some(refusal)),
            ("main", "nonsense", false, Some(refusal)),
            ("main", "nonsense", true, None),
            ("unknown", "runtime/default", false, Some(refusal)),
            ("main", "unconfined", false, None),
        ];
        for (container, value, has_it, expected) in rows {
            let mut pod = pod("", "");
            let name = format!("container.apparmor.security.beta.kubernetes.io/{container}");
            pod.metadata.annotations = Some([(name, value.to_owned())].into());
            let refusal = apparmor_refusal(&pod, has_it);
            assert_eq!(refusal.as_deref(), expected, "{container} {value} {has_it}");
        }
    }
}

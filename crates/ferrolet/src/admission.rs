//! Whether a pod may run on this node at all.

use k8s_openapi::api::core::v1::Pod;
use runtime::decide::{AllowedSysctls, apparmor_refusal};

use crate::unsupported::unsupported;

/// What the node lets pods do.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Kernel parameters that pods may set.
    pub(crate) sysctls: AllowedSysctls,
    /// Whether `AppArmor` is there.
    pub(crate) apparmor: bool,
    /// Whether containers may say which signal ends them.
    pub(crate) stop_signals: bool,
}

/// Why a pod does not run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Upstream's word, where it has one.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) message: String,
}

impl Admission {
    /// Why the pod must not run here, if so.
    pub(crate) fn refusal(&self, pod: &Pod) -> Option<Refusal> {
        let ignored = unsupported(pod, self.stop_signals);
        if !ignored.is_empty() {
            let message = format!("not supported: {}", ignored.join(", "));
            return Some(Refusal { reason: "UnsupportedFields", message });
        }
        if let Err(forbidden) = self.sysctls.admit(pod) {
            return Some(Refusal { reason: "SysctlForbidden", message: forbidden.to_string() });
        }
        let message = apparmor_refusal(pod, self.apparmor)?;
        Some(Refusal { reason: "AppArmor", message })
    }
}

#[cfg(test)]
mod tests {
    use podspec::{Origin, read_manifest};

    use super::*;

    // behaviour: CON-64
    #[test]
    fn a_pod_is_refused_for_what_the_node_does_not_do_or_allow() {
        let rows = [
            ("hostIPC: true", None),
            ("securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}", None),
            (
                "volumes: [{name: v, emptyDir: {}}]",
                Some(("UnsupportedFields", "not supported: spec.volumes")),
            ),
            (
                "securityContext: {sysctls: [{name: net.core.somaxconn, value: '9'}]}",
                Some((
                    "SysctlForbidden",
                    "forbidden sysctl: \"net.core.somaxconn\" not allowlisted",
                )),
            ),
            (
                "securityContext: {appArmorProfile: {type: RuntimeDefault}}",
                Some(("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")),
            ),
        ];
        let admission = Admission {
            sysctls: AllowedSysctls::new((6, 1), &[]),
            apparmor: false,
            stop_signals: false,
        };
        for (spec, expected) in rows {
            let manifest = format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  {spec}\n  \
                 containers: [{{name: main, image: 'image:1'}}]\n"
            );
            let origin = Origin::File("/manifests/web.yaml".into());
            let pod = read_manifest(manifest.as_bytes(), &origin, "node").unwrap().pods.remove(0);
            let refusal = admission.refusal(&pod);
            let told = refusal.as_ref().map(|told| (told.reason, told.message.as_str()));
            assert_eq!(told, expected, "{spec}");
        }
    }
}

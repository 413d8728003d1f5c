//! Upstream's chain of admission handlers, in its order.

use k8s_openapi::api::core::v1::Pod;
use model::admission::Rejection;
use model::pressure::Pressure;
use podspec::{unsupported, view};

use super::admission::{
    Decision, Node, Occupancy, admission, features, only_labels_mismatch, os_mismatch,
};
use super::apparmor::apparmor_refusal;
use super::pressure::pressure_rejection;
use super::sysctls::AllowedSysctls;

/// The admission rules of the node.
#[derive(Debug)]
pub struct AdmissionChain {
    /// Sysctls that pods may set.
    pub sysctls: AllowedSysctls,
    /// Whether the machine has `AppArmor`.
    pub apparmor: bool,
    /// Whether containers may have their own restart policies and rules.
    pub invalid_restart_rules_have_upstream_errors: bool,
    /// The node itself.
    pub node: Node,
    /// The resources that the node is short of.
    pub pressure: Pressure,
}

impl AdmissionChain {
    /// The rejection for fields that the agent does not support, if any. A pod of the API waits instead.
    pub fn unsupported(&self, pod: &Pod) -> Option<Rejection> {
        if !view::is_static(pod) {
            return None;
        }
        let mut ignored = unsupported(pod);
        if !self.invalid_restart_rules_have_upstream_errors {
            ignored.extend(podspec::restart::own_rules(pod));
        }
        let message = || format!("not supported: {}", ignored.join(", "));
        (!ignored.is_empty()).then(|| Rejection::new("UnsupportedFields", message()))
    }

    /// The reason why a changed pod must not keep running, if there is one. Like upstream,
    /// resources are not checked again. Pods of the API are not checked at all: their server
    /// allowed the change.
    pub fn refusal(&self, pod: &Pod) -> Option<Rejection> {
        if !view::is_static(pod) {
            return None;
        }
        let forbidden = || self.forbidden_sysctl(pod);
        self.unsupported(pod).or_else(forbidden).or_else(|| self.lacks_apparmor(pod))
    }

    /// Decides whether a pod is admitted in addition to the pods of the node. No pod is preempted for one
    /// that is rejected for another reason.
    pub fn decide(&self, pod: &Pod, there: &Occupancy) -> Decision {
        if let Some(rejection) = self.early_rejection(pod) {
            return Decision::Reject(rejection);
        }
        let decision = admission(pod, there, &self.node);
        if let Decision::Reject(_) = decision {
            return decision;
        }
        let rejection = self.lacks_apparmor(pod).or_else(|| features(pod, &self.node));
        rejection.map_or(decision, Decision::Reject)
    }

    /// Whether a rejected pod might be admitted with the current version of the node object.
    pub fn may_be_stale(&self, pod: &Pod, there: &Occupancy) -> bool {
        self.early_rejection(pod).is_none() && only_labels_mismatch(pod, there, &self.node)
    }

    /// The rejection by the handlers before the predicates.
    fn early_rejection(&self, pod: &Pod) -> Option<Rejection> {
        let pressure = pressure_rejection(pod, self.pressure, &self.node);
        pressure.or_else(|| self.forbidden_sysctl(pod))
    }

    fn forbidden_sysctl(&self, pod: &Pod) -> Option<Rejection> {
        let forbidden = self.sysctls.admit(pod).err()?;
        Some(Rejection::new("SysctlForbidden", forbidden.to_string()))
    }

    /// Only for a pod that never ran: a pod that ran is not checked again.
    fn lacks_apparmor(&self, pod: &Pod) -> Option<Rejection> {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase.is_some_and(|phase| phase != "Pending") {
            return None;
        }
        let message = apparmor_refusal(pod, self.apparmor)?;
        Some(Rejection::new("AppArmor", message))
    }

    /// The reason why the node can never run a pod of a manifest, if there is one. Conditions that may
    /// change while the agent runs are ignored: the node's labels, the other pods, and the features of
    /// the runtime.
    pub fn unsupported_manifest(&self, pod: &Pod) -> Option<String> {
        let rejection = self.refusal(pod).or_else(|| os_mismatch(pod));
        let rejection = rejection.or_else(|| features(pod, &self.node));
        rejection.map(|rejection| rejection.message)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;
    use podspec::{Origin, read_manifest};

    use super::*;
    use crate::decide::admission::Ability;

    /// A node with enough resources for any pod, and all abilities.
    fn roomy() -> Node {
        let all = [("cpu", "1M"), ("memory", "1Ei"), ("ephemeral-storage", "1Ei"), ("pods", "1M")];
        Node {
            name: "node".to_owned(),
            allocatable: all.map(|(name, text)| (name.to_owned(), text.parse().unwrap())).into(),
            abilities: Ability::ALL.into(),
            ..Node::default()
        }
    }

    fn rules() -> AdmissionChain {
        AdmissionChain {
            sysctls: AllowedSysctls::new((6, 1), &[]),
            apparmor: false,
            invalid_restart_rules_have_upstream_errors: true,
            node: roomy(),
            pressure: Pressure::default(),
        }
    }

    fn pod(spec: &str) -> Pod {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  {spec}\n  \
             containers: [{{name: main, image: 'image:1'}}]\n"
        );
        let origin = Origin::File("/manifests/web.yaml".into());
        read_manifest(manifest.as_bytes(), &origin, "node").unwrap().pods.remove(0)
    }

    const SYSCTL: &str = "sysctls: [{name: net.core.somaxconn, value: '9'}]";
    const APPARMOR: &str = "appArmorProfile: {type: RuntimeDefault}";

    // behaviour: CON-64
    #[test]
    fn pod_is_refused_for_unsupported_or_forbidden_settings() {
        let rows = [
            ("hostIPC: true".to_owned(), None),
            (
                "securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}"
                    .to_owned(),
                None,
            ),
            (
                "readinessGates: [{conditionType: x}]".to_owned(),
                Some(("UnsupportedFields", "not supported: spec.readinessGates")),
            ),
            (
                format!("securityContext: {{{SYSCTL}}}"),
                Some((
                    "SysctlForbidden",
                    "forbidden sysctl: \"net.core.somaxconn\" not allowlisted",
                )),
            ),
            (
                format!("securityContext: {{{APPARMOR}}}"),
                Some(("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")),
            ),
        ];
        for (spec, expected) in rows {
            let refusal = rules().refusal(&pod(&spec));
            let refusal =
                refusal.as_ref().map(|refusal| (&*refusal.reason, refusal.message.as_str()));
            assert_eq!(refusal, expected, "{spec}");
        }
    }

    // behaviour: SRC-67
    #[test]
    fn manifest_is_supported_unless_the_node_can_never_run_it() {
        let mut rules = rules();
        rules.node.abilities.clear();
        rules.node.allocatable.insert("cpu".to_owned(), "1".parse().unwrap());
        let rows = [
            ("readinessGates: [{conditionType: x}]", Some("not supported: spec.readinessGates")),
            (
                "securityContext: {sysctls: [{name: net.core.somaxconn, value: '9'}]}",
                Some("forbidden sysctl: \"net.core.somaxconn\" not allowlisted"),
            ),
            (
                "securityContext: {appArmorProfile: {type: RuntimeDefault}}",
                Some("Cannot enforce AppArmor: AppArmor is not enabled on the host"),
            ),
            (
                "os: {name: windows}",
                Some("Failed to admit pod as the OS field doesn't match node OS"),
            ),
            ("resources: {limits: {cpu: 1}}", Some("PodLevelResources feature gate is disabled")),
            ("nodeSelector: {zone: south}", None),
            ("overhead: {cpu: 2}", None),
            ("hostIPC: true", None),
        ];
        for (spec, expected) in rows {
            let message = rules.unsupported_manifest(&pod(spec));
            assert_eq!(message.as_deref(), expected, "{spec}");
        }
    }

    // behaviour: ADM-25
    #[test]
    fn running_api_pod_is_not_refused_for_changes_or_apparmor() {
        let rules = rules();
        let mut api = pod(&format!("securityContext: {{{SYSCTL}, {APPARMOR}}}"));
        assert!(rules.refusal(&api).is_some(), "a pod of a manifest is refused");
        api.metadata.annotations = None;
        assert_eq!(rules.refusal(&api), None);
        let mut confined = pod(&format!("securityContext: {{{APPARMOR}}}"));
        let rows = [(None, false), (Some("Pending"), false), (Some("Running"), true)];
        for (phase, is_let_in) in rows {
            let phase = phase.map(str::to_owned);
            confined.status = Some(PodStatus { phase, ..PodStatus::default() });
            let decision = rules.decide(&confined, &Occupancy::default());
            assert_eq!(decision == Decision::Admit, is_let_in, "{decision:?}");
        }
    }

    // behaviour: ACT-49
    #[test]
    fn manifest_with_restart_rules_is_refused_when_they_are_disabled() {
        let spec = "initContainers: [{name: i, image: i, restartPolicy: OnFailure}, \
                    {name: s, image: i, restartPolicy: Always}]";
        assert_eq!(rules().unsupported(&pod(spec)), None);
        let gated = AdmissionChain { invalid_restart_rules_have_upstream_errors: false, ..rules() };
        let refusal = gated.unsupported(&pod(spec)).map(|refusal| refusal.message);
        let expected = "not supported: spec.initContainers[0].restartPolicy";
        assert_eq!(refusal.as_deref(), Some(expected));
        let sidecar = "initContainers: [{name: s, image: i, restartPolicy: Always}]";
        assert_eq!(gated.unsupported(&pod(sidecar)), None);
    }

    // behaviour: ADM-11
    #[test]
    fn first_refusing_handler_is_reported() {
        let mut rules = rules();
        rules.node.shutting_down = true;
        let selector = "nodeSelector: {zone: south}";
        let rows = [
            (format!("{selector}\n  securityContext: {{{SYSCTL}, {APPARMOR}}}"), "SysctlForbidden"),
            (format!("{selector}\n  securityContext: {{{APPARMOR}}}"), "NodeAffinity"),
            (format!("securityContext: {{{APPARMOR}}}"), "AppArmor"),
            ("resources: {limits: {cpu: 1}}".to_owned(), "PodLevelResourcesNotSupported"),
            ("hostIPC: true".to_owned(), "NodeShutdown"),
        ];
        rules.node.abilities.clear();
        let under_pressure = AdmissionChain {
            pressure: Pressure { disk: true, ..Pressure::default() },
            ..self::rules()
        };
        let mut of_api = pod(&rows[0].0);
        of_api.metadata.annotations = None;
        let decision = under_pressure.decide(&of_api, &Occupancy::default());
        assert!(
            matches!(&decision, Decision::Reject(why) if why.reason == "Evicted"),
            "{decision:?}"
        );
        for (spec, expected) in rows {
            match rules.decide(&pod(&spec), &Occupancy::default()) {
                Decision::Reject(rejection) => assert_eq!(rejection.reason, expected, "{spec}"),
                other => panic!("{spec}: {other:?}"),
            }
        }
    }

    // behaviour: ADM-14
    #[test]
    fn no_pod_is_preempted_for_a_pod_that_is_refused() {
        let mut rules = rules();
        rules.node.allocatable.insert("pods".to_owned(), "1".parse().unwrap());
        let mut lesser = pod("priority: 1");
        lesser.metadata.uid = Some("lesser".to_owned());
        let there: Occupancy = [std::sync::Arc::new(lesser)].into_iter().collect();
        let critical = "priorityClassName: system-node-critical";
        let plan = rules.decide(&pod(critical), &there);
        assert!(matches!(plan, Decision::Preempt(_)), "{plan:?}");
        let refused = format!("{critical}\n  securityContext: {{{APPARMOR}}}");
        let refused = rules.decide(&pod(&refused), &there);
        assert!(matches!(refused, Decision::Reject(_)), "{refused:?}");
    }
}

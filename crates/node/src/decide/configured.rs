//! Configured labels and taints of a node, which other clients may change on the API server.

use std::collections::BTreeMap;

use config::KubeletConfiguration;
use k8s_openapi::api::core::v1::Taint;

use super::object::{ARCH_LABEL, OS, OS_LABEL};

/// The default labels of a node with this hostname and architecture, and the configured ones. A configured label
/// takes precedence, except for the two required labels.
pub fn labels(
    hostname: &str,
    arch: &str,
    requested: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let every = [
        ("kubernetes.io/hostname", hostname),
        (OS_LABEL, OS),
        (ARCH_LABEL, arch),
        ("beta.kubernetes.io/os", OS),
        ("beta.kubernetes.io/arch", arch),
    ];
    let mut labels: BTreeMap<String, String> =
        every.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    labels.extend(requested.clone());
    labels.extend(required_labels(arch));
    labels
}

/// The two labels that scheduling relies on.
pub fn required_labels(arch: &str) -> [(String, String); 2] {
    [(OS_LABEL, OS), (ARCH_LABEL, arch)].map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// The taints of `registerWithTaints`, with empty values as `None`, like the API.
pub fn taints(config: &KubeletConfiguration) -> Vec<Taint> {
    let taints = config.register_with_taints.iter().map(|taint| Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.map(|effect| effect.as_str().to_owned()).unwrap_or_default(),
        time_added: None,
    });
    taints.collect()
}

#[cfg(test)]
mod tests {
    use config::TaintEffect;

    use super::*;

    #[test]
    fn configured_labels_take_precedence_except_required_ones() {
        let requested =
            [("kubernetes.io/arch", "x"), ("kubernetes.io/hostname", "other"), ("zone", "north")];
        let requested = requested.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let labels = labels("web-1", "amd64", &requested.into());
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "beta.kubernetes.io/arch=amd64",
            "beta.kubernetes.io/os=linux",
            "kubernetes.io/arch=amd64",
            "kubernetes.io/hostname=other",
            "kubernetes.io/os=linux",
            "zone=north",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn taint_with_empty_value_has_none() {
        let mut config = KubeletConfiguration::of_empty_file();
        let taint = |value: &str| config::Taint {
            key: "k".to_owned(),
            value: value.to_owned(),
            effect: Some(TaintEffect::NoExecute),
            time_added: None,
        };
        config.register_with_taints = vec![taint(""), taint("v")];
        let taints: Vec<_> = taints(&config)
            .into_iter()
            .map(|taint| (taint.key, taint.value, taint.effect))
            .collect();
        let expected = [None, Some("v".to_owned())]
            .map(|value| ("k".to_owned(), value, "NoExecute".to_owned()));
        assert_eq!(taints, expected);
    }
}

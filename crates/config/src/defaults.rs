//! Defaults that depend on other fields or on features, and defaults of a start without a file.
//!
//! Constant defaults are with their fields, in [`crate::fields`].

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::duration::GoDuration;
use crate::fields::{
    AuthorizationMode, ImagePullCredentialsVerificationPolicy, KubeletConfiguration,
    default_hard_eviction,
};
use crate::finding::{At, Findings};
use crate::gates::FeatureGates;
use crate::setting::Setting;

/// The maximum back-off of a failing container.
pub(crate) const MAX_CONTAINER_RESTART_PERIOD: GoDuration = GoDuration::from_secs(300);

/// The origin of a document. It decides about the eviction thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The main file: missing thresholds get their defaults.
    File,
    /// Merged out of a base and drop-ins: the base had its defaults already.
    Merged,
}

/// Applies the defaults to a document; values of the wrong type are reported.
pub(crate) fn complete(
    document: Map<String, Value>,
    origin: Origin,
    flag_gates: &BTreeMap<String, bool>,
    findings: &mut Findings,
) -> KubeletConfiguration {
    let node = Value::Object(document);
    let mut config = KubeletConfiguration::read(&node, &At::ROOT, findings).unwrap_or_default();
    let is_set = |name: &str| !node[name].is_null();

    if !GoDuration::is_set(&node["nodeStatusReportFrequency"])
        && GoDuration::is_set(&node["nodeStatusUpdateFrequency"])
    {
        config.node_status_report_frequency = config.node_status_update_frequency;
    }
    if !is_set("serializeImagePulls") {
        config.serialize_image_pulls = config.max_parallel_image_pulls.is_none_or(|max| max < 2);
    }
    config.pod_pids_limit = config.pod_pids_limit.max(-1);
    match origin {
        Origin::File if is_set("evictionHard") && config.merge_default_eviction_settings => {
            for (signal, amount) in default_hard_eviction() {
                config.eviction_hard.entry(signal).or_insert(amount);
            }
        }
        Origin::Merged if !is_set("evictionHard") => config.eviction_hard.clear(),
        Origin::File | Origin::Merged => {}
    }
    complete_for_features(&mut config, flag_gates);
    config
}

impl GoDuration {
    fn is_set(node: &Value) -> bool {
        !Self::is_zero_node(node)
    }
}

fn complete_for_features(config: &mut KubeletConfiguration, flag_gates: &BTreeMap<String, bool>) {
    let gates = FeatureGates::new(flag_gates, &config.feature_gates);
    let back_off = gates.enabled("KubeletCrashLoopBackOffMax");
    let secrets = gates.enabled("KubeletEnsureSecretPulledImages");
    if back_off {
        config
            .crash_loop_back_off
            .max_container_restart_period
            .get_or_insert(MAX_CONTAINER_RESTART_PERIOD);
    }
    if secrets {
        config
            .image_pull_credentials_verification_policy
            .get_or_insert(ImagePullCredentialsVerificationPolicy::NeverVerifyPreloadedImages);
    }
}

impl KubeletConfiguration {
    /// The configuration of a file without fields.
    pub fn of_empty_file() -> Self {
        complete(Map::new(), Origin::File, &BTreeMap::new(), &mut Findings::default())
    }

    /// The defaults of a start without a configuration file, which predate configuration files.
    ///
    /// Feature gates of the command line decide about some of them.
    pub fn without_file(flag_gates: &BTreeMap<String, bool>) -> Self {
        let mut config =
            Self { read_only_port: 10_255, eviction_hard: BTreeMap::new(), ..Self::default() };
        config.authentication.anonymous.enabled = true;
        config.authentication.webhook.enabled = false;
        config.authorization.mode = AuthorizationMode::AlwaysAllow;
        complete_for_features(&mut config, flag_gates);
        config
    }
}

//! Container runtime, image pulls and garbage collection, container logs.

use crate::duration::GoDuration;
use crate::fields::{ImagePullCredentialsVerificationPolicy, KubeletConfiguration};
use crate::finding::Findings;
use crate::gates::FeatureGates;

pub(super) fn check(
    config: &KubeletConfiguration,
    gates: &FeatureGates<'_>,
    findings: &mut Findings,
) {
    findings.require(
        !config.container_runtime_endpoint.is_empty(),
        "containerRuntimeEndpoint",
        "must not be empty",
    );
    pulls(config, findings);
    garbage_collection(config, findings);
    credentials(config, gates, findings);
    logs(config, findings);
}

fn pulls(config: &KubeletConfiguration, findings: &mut Findings) {
    if let Some(max) = config.max_parallel_image_pulls {
        let field = "maxParallelImagePulls";
        findings.require(max >= 1, field, "must be at least 1");
        findings.require(
            max <= 1 || !config.serialize_image_pulls,
            field,
            "must not exceed 1 unless serializeImagePulls is false",
        );
    }
}

fn garbage_collection(config: &KubeletConfiguration, findings: &mut Findings) {
    let (low, high) =
        (config.image_gc_low_threshold_percent, config.image_gc_high_threshold_percent);
    findings.require(high <= 100, "imageGCHighThresholdPercent", "must be from 0 to 100");
    findings.require(low <= 100, "imageGCLowThresholdPercent", "must be from 0 to 100");
    findings.require(
        low < high,
        "imageGCLowThresholdPercent",
        format_args!(
            "must be less than imageGCHighThresholdPercent, but {low} is not less than {high}"
        ),
    );
    let (minimum, maximum) = (config.image_minimum_gc_age, config.image_maximum_gc_age);
    findings.require(!minimum.is_negative(), "imageMinimumGCAge", "must not be negative");
    findings.require(!maximum.is_negative(), "imageMaximumGCAge", "must not be negative");
    findings.require(
        maximum <= GoDuration::ZERO || maximum > minimum,
        "imageMaximumGCAge",
        format_args!("must be 0s or greater than imageMinimumGCAge, which is {minimum}"),
    );
}

fn credentials(config: &KubeletConfiguration, gates: &FeatureGates<'_>, findings: &mut Findings) {
    let gate = "KubeletEnsureSecretPulledImages";
    let policy = config.image_pull_credentials_verification_policy;
    let allowlist = &config.preloaded_images_verification_allowlist;
    if !gates.enabled(gate) {
        let problem = format_args!("needs feature gate {gate}");
        findings.require(policy.is_none(), "imagePullCredentialsVerificationPolicy", problem);
        findings.require(allowlist.is_empty(), "preloadedImagesVerificationAllowlist", problem);
        return;
    }
    findings.require(policy.is_some(), "imagePullCredentialsVerificationPolicy", "must be set");
    if policy != Some(ImagePullCredentialsVerificationPolicy::NeverVerifyAllowlistedImages) {
        findings.require(
            allowlist.is_empty(),
            "preloadedImagesVerificationAllowlist",
            "needs imagePullCredentialsVerificationPolicy NeverVerifyAllowlistedImages",
        );
        return;
    }
    for (index, pattern) in allowlist.iter().enumerate() {
        if let Some(problem) = image_pattern_problem(pattern) {
            findings.error(
                format_args!("preloadedImagesVerificationAllowlist[{index}]"),
                format_args!("{pattern:?} {problem}"),
            );
        }
    }
}

/// The error of an image name, or of a prefix that ends in `/*`, if any.
fn image_pattern_problem(pattern: &str) -> Option<&'static str> {
    if pattern.trim() != pattern {
        return Some("has spaces at its ends");
    }
    let name = pattern.strip_suffix("/*").unwrap_or(pattern);
    if name.is_empty() {
        return Some("names no registry");
    }
    if name.contains('*') {
        return Some("may have a wildcard as its last part only");
    }
    let is_prefix = name.len() != pattern.len();
    if is_prefix {
        return None;
    }
    let last_part = name.rsplit('/').next().unwrap_or(name);
    if name.contains('@') || last_part.contains(':') {
        return Some("must have no tag and no digest");
    }
    (!is_image_name(name)).then_some("is not the name of an image")
}

/// A registry may come first; all other parts are in lower case.
fn is_image_name(name: &str) -> bool {
    let is_outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_path_part = |part: &str| {
        part.starts_with(is_outer)
            && part.ends_with(is_outer)
            && part.chars().all(|c| is_outer(c) || matches!(c, '-' | '_' | '.'))
    };
    let is_registry = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-.:[]".contains(c))
    };
    match name.split_once('/') {
        None => is_path_part(name),
        Some((first, rest)) => {
            (is_registry(first) || is_path_part(first)) && rest.split('/').all(is_path_part)
        }
    }
}

/// Whether the kubelet reads a quantity as a whole number: digits that fit 64 bits
/// together with their suffix. A fraction does not qualify even if its value is whole.
fn is_plain_count(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let digits = whole.len() + fraction.len();
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix);
    if let Some(power) = binary {
        // Three decimal digits for each factor of 1024, and one more.
        return fraction.is_empty() && digits + 3 * (power + 1) < 15;
    }
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let power = match decimal.iter().position(|known| *known == suffix) {
        Some(index) => i32::try_from(index).unwrap_or(0) * 3 - 9,
        None => suffix.get(1..).and_then(|exponent| exponent.parse().ok()).unwrap_or(0),
    };
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let Some(scale) = power.checked_sub(places).and_then(|scale| u32::try_from(scale).ok()) else {
        return false;
    };
    let value: Option<i64> = format!("0{whole}{fraction}").parse().ok();
    let factor = 10_i64.checked_pow(scale);
    digits <= 18 && value.zip(factor).is_some_and(|(value, by)| value.checked_mul(by).is_some())
}

fn logs(config: &KubeletConfiguration, findings: &mut Findings) {
    findings.require(
        is_plain_count(config.container_log_max_size.as_str()),
        "containerLogMaxSize",
        "must be a whole number of bytes, written without a decimal point or a fine unit",
    );
    findings.require(
        config.container_log_max_files > 1,
        "containerLogMaxFiles",
        "must be greater than 1",
    );
    findings.require(
        config.container_log_max_workers >= 1,
        "containerLogMaxWorkers",
        "must be at least 1",
    );
    findings.require(
        config.container_log_monitor_interval >= GoDuration::from_secs(3),
        "containerLogMonitorInterval",
        "must be at least 3s",
    );
}

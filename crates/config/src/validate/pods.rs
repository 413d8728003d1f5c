//! Pod sources, logs directory, user namespaces, restarts, sysctls and taints.

use std::path::Path;

use model::names::{label_value, qualified_name};
use model::sysctl::{Namespace, dotted};

use crate::duration::GoDuration;
use crate::fields::KubeletConfiguration;
use crate::finding::Findings;
use crate::gates::FeatureGates;
use crate::paths::clean;

/// A user namespace is measured in blocks of this many ids.
const IDS_BLOCK: i64 = 65_536;

pub(super) fn check(
    config: &KubeletConfiguration,
    gates: &FeatureGates<'_>,
    findings: &mut Findings,
) {
    findings.require(!config.run_once, "runOnce", "run-once mode no longer exists");
    findings.require(
        config.sync_frequency > GoDuration::ZERO,
        "syncFrequency",
        "must be more than zero",
    );
    pod_logs_dir(&config.pod_logs_dir, findings);
    if let Some(ids) = config.user_namespaces.as_ref().and_then(|wanted| wanted.ids_per_pod) {
        ids_per_pod(ids, findings);
    }
    restart_period(config.crash_loop_back_off.max_container_restart_period, gates, findings);
    sysctls(&config.allowed_unsafe_sysctls, findings);
    taints(config, findings);
    for (field, bit) in [
        ("iptablesMasqueradeBit", config.iptables_masquerade_bit),
        ("iptablesDropBit", config.iptables_drop_bit),
    ] {
        findings.require((0..=31).contains(&bit), field, "must be from 0 to 31");
    }
}

fn pod_logs_dir(path: &str, findings: &mut Findings) {
    let field = "podLogsDir";
    if path.is_empty() {
        findings.error(field, "must not be empty");
        return;
    }
    findings.require(path.starts_with('/'), field, "must be an absolute path");
    // Doubled separators are lost in a comparison of paths, hence the comparison of texts.
    findings.require(
        clean(Path::new(path)).to_str() == Some(path),
        field,
        "must have no '.', '..', doubled or trailing slash",
    );
    findings.require(path.is_ascii(), field, "must have ASCII characters only");
}

fn ids_per_pod(ids: i64, findings: &mut Findings) {
    let field = "userNamespaces.idsPerPod";
    findings.require(ids >= IDS_BLOCK, field, "must be at least 65536");
    findings.require(ids % IDS_BLOCK == 0, field, "must be a multiple of 65536");
    findings.require(ids <= i64::from(u32::MAX), field, "must be at most 4294967295");
}

fn restart_period(period: Option<GoDuration>, gates: &FeatureGates<'_>, findings: &mut Findings) {
    let field = "crashLoopBackOff.maxContainerRestartPeriod";
    let enabled = gates.enabled("KubeletCrashLoopBackOffMax");
    match period {
        Some(_) if !enabled => {
            findings.error(field, "needs feature gate KubeletCrashLoopBackOffMax");
        }
        Some(period) => findings.require(
            (GoDuration::from_secs(1)..=GoDuration::from_secs(300)).contains(&period),
            field,
            format_args!("must be from 1s to 300s, got {period}"),
        ),
        None => findings.require(
            !enabled,
            field,
            "must be set while feature gate KubeletCrashLoopBackOffMax is on",
        ),
    }
}

fn sysctls(patterns: &[String], findings: &mut Findings) {
    for (index, pattern) in patterns.iter().enumerate() {
        let field = format_args!("allowedUnsafeSysctls[{index}]");
        if !is_sysctl_pattern(pattern) {
            findings.error(
                field,
                format_args!(
                    "{pattern:?} is not the name of a sysctl, or a prefix that ends in '*'"
                ),
            );
        } else if !is_namespaced(pattern) {
            findings
                .error(field, format_args!("{pattern:?} is not known to belong to a namespace"));
        }
    }
}

fn is_sysctl_pattern(pattern: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let is_outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut segments = pattern.split(['.', '/']);
    let last = segments.next_back().unwrap_or_default();
    let last_is_good = match last.strip_suffix('*') {
        Some(prefix) => prefix.is_empty() || prefix.starts_with(is_outer),
        None => last.starts_with(is_outer) && last.ends_with(is_outer),
    };
    pattern.len() <= 253
        && last_is_good
        && last.trim_end_matches('*').chars().all(is_inner)
        && last.matches('*').count() <= 1
        && segments.all(|segment| {
            segment.starts_with(is_outer)
                && segment.ends_with(is_outer)
                && segment.chars().all(is_inner)
        })
}

fn is_namespaced(pattern: &str) -> bool {
    Namespace::of(dotted(pattern).trim_end_matches('*')).is_some()
}

fn taints(config: &KubeletConfiguration, findings: &mut Findings) {
    for (index, taint) in config.register_with_taints.iter().enumerate() {
        let field = |name: &str| format!("registerWithTaints[{index}].{name}");
        for problem in qualified_name(&taint.key) {
            findings.error(field("key"), problem);
        }
        for problem in label_value(&taint.value) {
            findings.error(field("value"), problem);
        }
        findings.require(taint.time_added.is_none(), field("timeAdded"), "must not be set");
    }
}

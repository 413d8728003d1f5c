//! Eviction thresholds and shutdown periods.

use std::collections::BTreeMap;

use crate::duration::GoDuration;
use crate::fields::{Amount, EvictionSignal, KubeletConfiguration};
use crate::finding::Findings;
use crate::gates::FeatureGates;

pub(super) fn check(
    config: &KubeletConfiguration,
    gates: &FeatureGates<'_>,
    findings: &mut Findings,
) {
    thresholds("evictionHard", &config.eviction_hard, findings);
    thresholds("evictionSoft", &config.eviction_soft, findings);
    for (signal, threshold) in &config.eviction_soft {
        findings.require(
            threshold.is_off() || config.eviction_soft_grace_period.contains_key(signal),
            format_args!("evictionSoftGracePeriod[{signal}]"),
            "must be set, since evictionSoft has a threshold for it",
        );
    }
    for (signal, period) in &config.eviction_soft_grace_period {
        findings.require(
            !period.is_negative(),
            format_args!("evictionSoftGracePeriod[{signal}]"),
            "must not be negative",
        );
    }
    for (signal, reclaim) in &config.eviction_minimum_reclaim {
        let field = format_args!("evictionMinimumReclaim[{signal}]");
        match reclaim {
            Amount::Quantity(quantity) => {
                findings.require(!quantity.is_negative(), field, "must not be negative");
            }
            Amount::Percentage(share) => {
                findings.require(share.percent() > 0.0, field, "must be more than 0%");
            }
        }
    }
    shutdown(config, gates, findings);
}

impl Amount {
    /// Whether this turns a threshold off.
    pub fn is_off(&self) -> bool {
        matches!(self.as_str(), "0%" | "100%")
    }
}

fn thresholds(field: &str, thresholds: &BTreeMap<EvictionSignal, Amount>, findings: &mut Findings) {
    for (signal, threshold) in thresholds {
        let field = format_args!("{field}[{signal}]");
        match threshold {
            Amount::Quantity(quantity) => findings.require(
                !quantity.is_zero() && !quantity.is_negative(),
                field,
                "must be more than zero",
            ),
            Amount::Percentage(share) => findings.require(
                (0.0..=100.0).contains(&share.percent()),
                field,
                "must be from 0% to 100%",
            ),
        }
    }
}

fn shutdown(config: &KubeletConfiguration, gates: &FeatureGates<'_>, findings: &mut Findings) {
    let fields = [
        ("shutdownGracePeriod", config.shutdown_grace_period),
        ("shutdownGracePeriodCriticalPods", config.shutdown_grace_period_critical_pods),
    ];
    let by_priority = &config.shutdown_grace_period_by_pod_priority;
    let by_priority_field = "shutdownGracePeriodByPodPriority";
    for (field, period) in fields {
        if gates.enabled("GracefulNodeShutdown") {
            findings.require(
                period.is_zero() || period >= GoDuration::from_secs(1),
                field,
                format_args!("must be 0s or at least 1s, got {period}"),
            );
        } else {
            findings.require(
                period <= GoDuration::ZERO,
                field,
                "needs feature gate GracefulNodeShutdown",
            );
        }
    }
    let [(_, whole), (critical_field, critical)] = fields;
    findings.require(
        critical <= whole || !gates.enabled("GracefulNodeShutdown"),
        critical_field,
        format_args!("must not exceed shutdownGracePeriod, which is {whole}"),
    );
    if by_priority.is_empty() {
        return;
    }
    findings.require(
        gates.enabled("GracefulNodeShutdownBasedOnPodPriority"),
        by_priority_field,
        "needs feature gate GracefulNodeShutdownBasedOnPodPriority",
    );
    findings.require(
        whole <= GoDuration::ZERO && critical <= GoDuration::ZERO,
        by_priority_field,
        "cannot be used with shutdownGracePeriod or shutdownGracePeriodCriticalPods",
    );
}

//! Cgroups, reservations, CPU, memory and NUMA.

mod enforcement;
mod managers;

use std::collections::{BTreeMap, BTreeSet};

use model::quantity::Quantity;

use crate::as_written::AsWritten;
use crate::cpu_list::cpu_count;
use crate::duration::GoDuration;
use crate::fields::{KubeletConfiguration, MemoryReservationPolicy, ReservedResource};
use crate::finding::Findings;
use crate::gates::FeatureGates;

pub(super) fn check(
    config: &KubeletConfiguration,
    gates: &FeatureGates<'_>,
    findings: &mut Findings,
) {
    cgroups(config, findings);
    enforcement::check(config, findings);
    reserved("systemReserved", &config.system_reserved, findings);
    reserved("kubeReserved", &config.kube_reserved, findings);
    reserved_cpus(config, findings);
    reserved_memory(config, findings);
    qos_reserved(config, findings);
    managers::check(config, gates, findings);
    quota_period(config.cpu_cfs_quota_period, gates, findings);
    memory(config, gates, findings);
    findings.require(
        (-1000..=1000).contains(&config.oom_score_adj),
        "oomScoreAdj",
        "must be from -1000 to 1000",
    );
    findings.require(config.max_open_files >= 0, "maxOpenFiles", "must not be negative");
}

fn cgroups(config: &KubeletConfiguration, findings: &mut Findings) {
    findings.require(
        config.system_cgroups.is_empty() || !config.cgroup_root.is_empty(),
        "systemCgroups",
        "needs cgroupRoot",
    );
    findings.require(config.system_cgroups != "/", "systemCgroups", "must not be the root cgroup");
    for (field, cgroup) in [
        ("systemReservedCgroup", &config.system_reserved_cgroup),
        ("kubeReservedCgroup", &config.kube_reserved_cgroup),
    ] {
        if !cgroup.is_empty() && !cgroup.starts_with('/') {
            findings.doubt(field, "is not absolute and counts from the root cgroup");
        }
    }
    if !config.kubelet_cgroups.is_empty()
        && !config.kubelet_cgroups.starts_with(&config.kube_reserved_cgroup)
    {
        findings.doubt("kubeletCgroups", "lies outside of kubeReservedCgroup");
    }
}

fn reserved(
    field: &str,
    amounts: &BTreeMap<ReservedResource, AsWritten<Quantity>>,
    findings: &mut Findings,
) {
    for (resource, amount) in amounts {
        findings.require(
            !amount.is_negative(),
            format_args!("{field}.{resource}"),
            "must not be negative",
        );
    }
}

fn reserved_cpus(config: &KubeletConfiguration, findings: &mut Findings) {
    let cpus = &config.reserved_system_cpus;
    if cpus.is_empty() {
        return;
    }
    let field = "reservedSystemCPUs";
    findings.require(
        config.system_reserved_cgroup.is_empty() && config.kube_reserved_cgroup.is_empty(),
        field,
        "cannot be used with systemReservedCgroup or kubeReservedCgroup",
    );
    findings.require(
        cpu_count(cpus).is_some(),
        field,
        format_args!("{cpus:?} is not a list of CPUs such as 0-3,8"),
    );
}

fn reserved_memory(config: &KubeletConfiguration, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, reservation) in config.reserved_memory.iter().enumerate() {
        for (name, amount) in &reservation.limits {
            let field = format_args!("reservedMemory[{index}].limits.{name}");
            findings.require(
                name == "memory" || name.starts_with("hugepages-"),
                field,
                "must be memory or hugepages-<size>",
            );
            findings.require(!amount.0.is_zero(), field, "must not be zero");
            findings.require(
                seen.insert((reservation.numa_node, name)),
                field,
                format_args!("is given twice for NUMA node {}", reservation.numa_node),
            );
        }
    }
}

fn qos_reserved(config: &KubeletConfiguration, findings: &mut Findings) {
    for (resource, share) in &config.qos_reserved {
        let percent = share.percent();
        findings.require(
            percent.fract() == 0.0 && (0.0..=100.0).contains(&percent),
            format_args!("qosReserved.{resource}"),
            "must be a whole percentage from 0% to 100%",
        );
    }
}

fn quota_period(period: GoDuration, gates: &FeatureGates<'_>, findings: &mut Findings) {
    let field = "cpuCFSQuotaPeriod";
    let gate = "CustomCPUCFSQuotaPeriod";
    if gates.enabled(gate) {
        findings.require(
            (GoDuration::from_millis(1)..=GoDuration::from_secs(1)).contains(&period),
            field,
            format_args!("must be from 1ms to 1s, got {period}"),
        );
    } else {
        findings.require(
            period == GoDuration::from_millis(100),
            field,
            format_args!("must be 100ms unless feature gate {gate} is on, got {period}"),
        );
    }
}

fn memory(config: &KubeletConfiguration, gates: &FeatureGates<'_>, findings: &mut Findings) {
    let factor = config.memory_throttling_factor;
    findings.require(
        factor > 0.0 && factor <= 1.0,
        "memoryThrottlingFactor",
        format_args!("must be greater than 0 and at most 1, got {factor}"),
    );
    findings.require(
        config.memory_reservation_policy == MemoryReservationPolicy::None
            || gates.enabled("MemoryQoS"),
        "memoryReservationPolicy",
        "needs feature gate MemoryQoS",
    );
}

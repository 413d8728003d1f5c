//! Which reservations are cgroup limits.

use crate::fields::NodeAllocatableEnforcement as Enforcement;
use crate::fields::{KubeletConfiguration, NodeAllocatableEnforcement};
use crate::finding::Findings;

const FIELD: &str = "enforceNodeAllocatable";

pub(super) fn check(config: &KubeletConfiguration, findings: &mut Findings) {
    let enforced = &config.enforce_node_allocatable;
    for (plain, compressible) in [
        (Enforcement::SystemReserved, Enforcement::SystemReservedCompressible),
        (Enforcement::KubeReserved, Enforcement::KubeReservedCompressible),
    ] {
        findings.require(
            !(enforced.contains(&plain) && enforced.contains(&compressible)),
            FIELD,
            format_args!("{plain} and {compressible} exclude each other"),
        );
    }
    for (index, enforcement) in enforced.iter().enumerate() {
        if enforced[..index].contains(enforcement) {
            findings.error(FIELD, format_args!("{enforcement} is listed twice"));
            continue;
        }
        check_one(*enforcement, config, findings);
    }
}

fn check_one(
    enforcement: NodeAllocatableEnforcement,
    config: &KubeletConfiguration,
    findings: &mut Findings,
) {
    let needed_cgroup = match enforcement {
        Enforcement::None => {
            findings.require(
                config.enforce_node_allocatable.len() == 1,
                FIELD,
                "none must stand alone",
            );
            return;
        }
        Enforcement::Pods => None,
        Enforcement::SystemReserved | Enforcement::SystemReservedCompressible => {
            Some(("systemReservedCgroup", &config.system_reserved_cgroup))
        }
        Enforcement::KubeReserved | Enforcement::KubeReservedCompressible => {
            Some(("kubeReservedCgroup", &config.kube_reserved_cgroup))
        }
    };
    if let Some((field, cgroup)) = needed_cgroup {
        findings.require(
            !cgroup.is_empty(),
            field,
            format_args!("must be set when {enforcement} is in {FIELD}"),
        );
    }
    findings.require(
        config.cgroups_per_qos,
        "cgroupsPerQOS",
        format_args!("must be true when {enforcement} is in {FIELD}"),
    );
}

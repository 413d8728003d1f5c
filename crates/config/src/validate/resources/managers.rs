//! Options of the CPU and topology policies.

use crate::fields::{
    CpuManagerPolicy, KubeletConfiguration, ReservedResource, TopologyManagerPolicy,
};
use crate::finding::Findings;
use crate::flags::parse_bool;
use crate::gates::FeatureGates;

/// Options of the CPU policy, and the gate that some of them need.
const CPU_OPTIONS: [(&str, Option<&str>); 6] = [
    ("full-pcpus-only", None),
    ("strict-cpu-reservation", None),
    ("prefer-align-cpus-by-uncorecache", None),
    ("distribute-cpus-across-numa", Some("CPUManagerPolicyBetaOptions")),
    ("align-by-socket", Some("CPUManagerPolicyAlphaOptions")),
    ("distribute-cpus-across-cores", Some("CPUManagerPolicyAlphaOptions")),
];

/// Options of the CPU policy that cannot be combined.
const CPU_OPTIONS_APART: [(&str, &str); 4] = [
    ("full-pcpus-only", "distribute-cpus-across-cores"),
    ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
];

/// The minimum of max-allowable-numa-nodes.
const MIN_ALLOWABLE_NUMA_NODES: u32 = 8;

pub(super) fn check(
    config: &KubeletConfiguration,
    gates: &FeatureGates<'_>,
    findings: &mut Findings,
) {
    check_static(config, findings);
    findings.require(
        config.cpu_manager_policy_options.is_empty()
            || config.cpu_manager_policy != CpuManagerPolicy::None,
        "cpuManagerPolicyOptions",
        "needs cpuManagerPolicy static",
    );
    for (name, value) in &config.cpu_manager_policy_options {
        let field = format_args!("cpuManagerPolicyOptions.{name}");
        match CPU_OPTIONS.iter().find(|(option, _)| option == name) {
            None => findings.error(field, "no such option of the CPU policy"),
            Some((_, gate)) => {
                if let Some(gate) = gate {
                    findings.require(
                        gates.enabled(gate),
                        field,
                        format_args!("needs feature gate {gate}"),
                    );
                }
                findings.require(
                    parse_bool(value).is_some(),
                    field,
                    "must be \"true\" or \"false\"",
                );
            }
        }
    }
    check_together(config, findings);
    // Without the policy the options have no effect.
    if config.topology_manager_policy == TopologyManagerPolicy::None {
        return;
    }
    for (name, value) in &config.topology_manager_policy_options {
        let field = format_args!("topologyManagerPolicyOptions.{name}");
        match name.as_str() {
            "prefer-closest-numa-nodes" => {
                findings.require(
                    parse_bool(value).is_some(),
                    field,
                    "must be \"true\" or \"false\"",
                );
            }
            "max-allowable-numa-nodes" => findings.require(
                value.parse().is_ok_and(|nodes: u32| nodes >= MIN_ALLOWABLE_NUMA_NODES),
                field,
                format_args!("must be at least {MIN_ALLOWABLE_NUMA_NODES}"),
            ),
            _ => findings.error(field, "no such option of the topology policy"),
        }
    }
}

/// Upstream's CPU manager does not start if pods could have every CPU exclusively.
fn check_static(config: &KubeletConfiguration, findings: &mut Findings) {
    let lists = [&config.kube_reserved, &config.system_reserved];
    let mut amounts = lists.iter().filter_map(|list| list.get(&ReservedResource::Cpu));
    findings.require(
        config.cpu_manager_policy != CpuManagerPolicy::Static
            || !config.reserved_system_cpus.is_empty()
            || amounts.any(|amount| !amount.is_zero()),
        "cpuManagerPolicy",
        "unable to determine reserved CPU resources for static policy: set cpu in kubeReserved or \
         systemReserved, or reservedSystemCPUs",
    );
}

/// Upstream's CPU manager does not start with both options, and neither does the kubelet.
fn check_together(config: &KubeletConfiguration, findings: &mut Findings) {
    let is_on = |name: &str| {
        let value = config.cpu_manager_policy_options.get(name);
        value.and_then(|value| parse_bool(value)) == Some(true)
    };
    for (one, other) in CPU_OPTIONS_APART {
        findings.require(
            !(is_on(one) && is_on(other)),
            "cpuManagerPolicyOptions",
            format_args!("{one} and {other} can not be used at the same time"),
        );
    }
    let single = TopologyManagerPolicy::SingleNumaNode;
    findings.require(
        !(is_on("align-by-socket") && config.topology_manager_policy == single),
        "cpuManagerPolicyOptions",
        format_args!("align-by-socket is incompatible with topologyManagerPolicy {single}"),
    );
}

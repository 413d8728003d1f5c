//! Options of the CPU policy that exclude each other.

use crate::{configured, errors};

/// A static policy with these options.
fn fields(options: &str, more: &str) -> String {
    format!(
        "cpuManagerPolicy: static\nsystemReserved: {{cpu: 100m}}\nfeatureGates: {{CPUManagerPolicyAlphaOptions: true}}\n\
         cpuManagerPolicyOptions: {{{options}}}\n{more}"
    )
}

/// The errors.
fn wrong(options: &str, more: &str) -> Vec<String> {
    errors(&fields(options, more)).iter().map(ToString::to_string).collect()
}

#[test]
fn cpu_distribution_options_exclude_each_other() {
    let cores = "distribute-cpus-across-cores";
    let (numa, cache) = ("distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache");
    for (one, other) in [("full-pcpus-only", cores), (numa, cores), (cache, cores), (cache, numa)] {
        let found = wrong(&format!("{one}: \"true\", {other}: \"1\""), "");
        let expected =
            format!("cpuManagerPolicyOptions: {one} and {other} can not be used at the same time");
        assert_eq!(found, [expected]);
        configured(&fields(&format!("{one}: \"true\", {other}: \"false\""), ""));
    }
    configured(&fields(&format!("full-pcpus-only: \"true\", {numa}: \"true\""), ""));
}

#[test]
fn static_policy_needs_a_reserved_cpu() {
    let expected = "cpuManagerPolicy: unable to determine reserved CPU resources for static \
                    policy: set cpu in kubeReserved or systemReserved, or reservedSystemCPUs";
    for none in ["", "kubeReserved: {memory: 1Gi}\nsystemReserved: {cpu: \"0\"}"] {
        let found = errors(&format!("cpuManagerPolicy: static\n{none}"));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, [expected], "{none}");
        configured(none);
    }
    for some in
        ["kubeReserved: {cpu: 1m}", "systemReserved: {cpu: \"1\"}", "reservedSystemCPUs: 0-1"]
    {
        configured(&format!("cpuManagerPolicy: static\n{some}"));
    }
}

#[test]
fn align_by_socket_excludes_single_numa_node() {
    let socket = "align-by-socket: \"true\"";
    let expected = "cpuManagerPolicyOptions: align-by-socket is incompatible with \
                    topologyManagerPolicy single-numa-node";
    assert_eq!(wrong(socket, "topologyManagerPolicy: single-numa-node"), [expected]);
    configured(&fields(socket, "topologyManagerPolicy: restricted"));
}

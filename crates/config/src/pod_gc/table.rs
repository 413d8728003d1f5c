//! The flags, by name.

use super::FlagHelp;
use crate::flags::{Flag, Syntax, Target};
use Syntax::{Bool, Duration, Gates, Integer, List, Number, Text, Version};

const fn flag(name: &'static str, syntax: Syntax, default: &'static str) -> Flag {
    Flag { name, syntax, target: Target::Own { default, deprecated: None } }
}

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("authentication-kubeconfig", Text, ""),
    flag("authentication-skip-lookup", Bool, "false"),
    flag("authentication-token-webhook-cache-ttl", Duration, "10s"),
    flag("authentication-tolerate-lookup-failure", Bool, "false"),
    flag("authorization-always-allow-paths", List, "/healthz,/readyz,/livez"),
    flag("authorization-kubeconfig", Text, ""),
    flag("authorization-webhook-cache-authorized-ttl", Duration, "10s"),
    flag("authorization-webhook-cache-unauthorized-ttl", Duration, "10s"),
    flag("bind-address", Text, "0.0.0.0"),
    flag("client-ca-file", Text, ""),
    flag("concurrent-deletions", Integer, "16"),
    flag("controller-shutdown-timeout", Duration, "10s"),
    flag("controller-start-interval", Duration, "0s"),
    flag("controllers", List, "*"),
    flag("deletion-events", Bool, "true"),
    flag("dry-run", Bool, "false"),
    flag("exclude-annotations", Text, ""),
    flag("exclude-labels", Text, ""),
    flag("feature-gates", Gates, ""),
    flag("gc-check-period", Duration, "20s"),
    flag("help", Bool, "false"),
    flag("journal-max-bytes", Integer, "16777216"),
    flag("kube-api-burst", Integer, "30"),
    flag("kube-api-content-type", Text, "application/vnd.kubernetes.protobuf"),
    flag("kube-api-qps", Number, "20"),
    flag("kubeconfig", Text, ""),
    flag("leader-elect", Bool, "true"),
    flag("leader-elect-lease-duration", Duration, "15s"),
    flag("leader-elect-renew-deadline", Duration, "10s"),
    flag("leader-elect-resource-lock", Text, "leases"),
    flag("leader-elect-resource-name", Text, "ferrolet-pod-gc"),
    flag("leader-elect-resource-namespace", Text, "kube-system"),
    flag("leader-elect-retry-period", Duration, "2s"),
    flag("logging-format", Text, "text"),
    flag("master", Text, ""),
    flag("max-deletion-percent", Number, "0"),
    flag("min-resync-period", Duration, "12h"),
    flag("quarantine-time", Duration, "40s"),
    // Not the 10257 of kube-controller-manager: both may run on one host.
    flag("secure-port", Integer, "10297"),
    flag("state-dir", Text, "/var/lib/ferrolet/pod-gc"),
    flag("terminated-pod-gc-threshold", Integer, "12500"),
    flag("terminated-pod-order", Text, "creation"),
    flag("terminated-pod-ttl", Duration, "0s"),
    flag("terminated-pods-per-namespace", Integer, "0"),
    flag("terminated-pods-per-node", Integer, "0"),
    flag("tls-cert-file", Text, ""),
    flag("tls-min-version", Text, ""),
    flag("tls-private-key-file", Text, ""),
    flag("use-service-account-credentials", Bool, "false"),
    flag("v", Integer, "0"),
    flag("version", Version, "false"),
];

const fn upstreams(name: &'static str, value: &'static str, meaning: &'static str) -> FlagHelp {
    FlagHelp { name, value, meaning, is_upstreams: true }
}

const fn ours(name: &'static str, value: &'static str, meaning: &'static str) -> FlagHelp {
    FlagHelp { name, value, meaning, is_upstreams: false }
}

#[rustfmt::skip]
pub(super) const HELP: &[FlagHelp] = &[
    upstreams("authentication-kubeconfig", "FILE", ""),
    upstreams("authentication-skip-lookup", "", ""),
    upstreams("authentication-token-webhook-cache-ttl", "TIME", "how long the user of a token is cached"),
    upstreams("authentication-tolerate-lookup-failure", "", ""),
    upstreams("authorization-always-allow-paths", "PATHS", "public paths; * at the end for any suffix"),
    upstreams("authorization-kubeconfig", "FILE", ""),
    upstreams("authorization-webhook-cache-authorized-ttl", "TIME", "how long an allowed request is cached"),
    upstreams("authorization-webhook-cache-unauthorized-ttl", "TIME", "how long a denied request is cached"),
    upstreams("bind-address", "ADDRESS", "address of the HTTPS port"),
    upstreams("client-ca-file", "FILE", "CA certificates for clients of the port"),
    ours("concurrent-deletions", "N", "concurrent deletions; fewer when the API server is overloaded"),
    upstreams("controller-shutdown-timeout", "TIME", "how long the parts may take to stop"),
    upstreams("controller-start-interval", "TIME", "how long to wait before the start"),
    upstreams("controllers", "NAMES", "must not switch off this controller"),
    ours("deletion-events", "", "an event for each deletion"),
    ours("dry-run", "", "only print what would be deleted"),
    ours("exclude-annotations", "SELECTOR", "leave pods with these annotations alone"),
    ours("exclude-labels", "SELECTOR", "leave pods with these labels alone"),
    upstreams("feature-gates", "GATES", ""),
    ours("gc-check-period", "TIME", "from the end of one cycle to the start of the next"),
    upstreams("help", "", "print this help"),
    ours("journal-max-bytes", "BYTES", "maximum size of the journal of deletions"),
    upstreams("kube-api-burst", "N", "requests to the API server in one burst"),
    upstreams("kube-api-content-type", "TYPE", ""),
    upstreams("kube-api-qps", "N", "requests per second to the API server; 0 for no limit"),
    upstreams("kubeconfig", "FILE", "how to reach the API server; without it, the pod's service account"),
    upstreams("leader-elect", "", "act only while this process holds the lease"),
    upstreams("leader-elect-lease-duration", "TIME", "how long candidates wait for a leader that does not renew"),
    upstreams("leader-elect-renew-deadline", "TIME", "how long a leader tries to renew before it exits"),
    upstreams("leader-elect-resource-lock", "KIND", "the kind of lock: leases"),
    upstreams("leader-elect-resource-name", "NAME", "name of the lease"),
    upstreams("leader-elect-resource-namespace", "NAME", "namespace of the lease"),
    upstreams("leader-elect-retry-period", "TIME", "time between attempts"),
    upstreams("logging-format", "FORMAT", "text or json"),
    upstreams("master", "URL", "address of the API server instead of that in the kubeconfig"),
    ours("max-deletion-percent", "PERCENT", "share of all pods that one cycle may delete; 0 for all"),
    upstreams("min-resync-period", "TIME", ""),
    ours("quarantine-time", "TIME", "how long a node must be missing before its pods are deleted"),
    upstreams("secure-port", "PORT", "port of health and metrics, by HTTPS; 0 for none"),
    ours("state-dir", "DIR", "directory of the journal of deletions"),
    upstreams("terminated-pod-gc-threshold", "N", "terminated pods that may exist; 0 or less for any number"),
    ours("terminated-pod-order", "ORDER", "which are deleted first: by creation or by finish"),
    ours("terminated-pod-ttl", "TIME", "how long terminated pods are kept; 0 for no limit"),
    ours("terminated-pods-per-namespace", "N", "terminated pods that may exist in a namespace; 0 for any number"),
    ours("terminated-pods-per-node", "N", "terminated pods that may exist on a node; 0 for any number"),
    upstreams("tls-cert-file", "FILE", "certificate of the port; generated if there is none"),
    upstreams("tls-min-version", "VERSION", "the minimum TLS version of the port: VersionTLS12 or VersionTLS13"),
    upstreams("tls-private-key-file", "FILE", "its key"),
    upstreams("use-service-account-credentials", "", ""),
    upstreams("v", "LEVEL", "4 logs decisions, 6 calls too"),
    upstreams("version", "", "print the version"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_help_in_the_order_of_names() {
        let names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
        assert_eq!(names, HELP.iter().map(|help| help.name).collect::<Vec<_>>());
        assert!(names.is_sorted());
        for (flag, help) in FLAGS.iter().zip(HELP) {
            assert_eq!(flag.syntax.is_switch(), help.value.is_empty(), "{}", flag.name);
        }
    }
}

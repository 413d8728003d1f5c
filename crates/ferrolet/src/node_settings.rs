//! The settings of the node that pods depend on, from the configuration and the machine.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::KubeletConfiguration;
use model::machine::{Cgroups, Machine};
use runtime::decide::{
    IdSpan, LimitSettings, NodeSettings, PullRate, PullSettings, PullSlots, SpanError,
};
use tracing::warn;

use crate::decide::node_resources::{NodeFlags, node_resources};

/// The CFS period if the configuration may not set it.
const CPU_PERIOD: Duration = Duration::from_millis(100);

/// How many user ids a pod with a user namespace gets.
const IDS_PER_POD: u32 = 65_536;

/// The node settings of a configuration, on a machine with a disk of this many bytes.
pub(crate) fn node_settings(
    config: &KubeletConfiguration,
    flags: NodeFlags,
    root_dir: &Path,
    machine: Machine,
    disk: u64,
) -> NodeSettings {
    let own_period = config.features().enabled("CustomCPUCFSQuotaPeriod");
    let period = if own_period { config.cpu_cfs_quota_period.to_std() } else { CPU_PERIOD };
    let cluster_dns = config.cluster_dns.iter().filter_map(|address| {
        let parsed = address.parse();
        if parsed.is_err() {
            warn!(address, "Invalid clusterDNS IP");
        }
        parsed.ok()
    });
    let ids = config.user_namespaces.as_ref().and_then(|users| users.ids_per_pod);
    let resolv_conf = Some(&config.resolv_conf).filter(|path| !path.is_empty());
    NodeSettings {
        root_dir: root_dir.to_owned(),
        allocatable: node_resources(config, flags, &machine, disk).allocatable,
        limits: LimitSettings {
            cpu_period: config.cpu_cfs_quota.then_some(period),
            oom_kills_all: machine.cgroups == Cgroups::V2
                && config.single_process_oom_kill != Some(true),
        },
        machine,
        pulls: pull_settings(config),
        requested_ips: Vec::new(),
        cluster_dns: cluster_dns.collect(),
        cluster_domain: config.cluster_domain.clone(),
        resolv_conf: resolv_conf.map(Into::into),
        seccomp_default: flags.seccomp_default || config.seccomp_default,
        hostname_overrides: config.features().enabled("HostnameOverride"),
        stop_signals: config.features().enabled("ContainerStopSignals"),
        ids_per_pod: ids.and_then(|ids| u32::try_from(ids).ok()).unwrap_or(IDS_PER_POD),
        ids_of_pods: None,
    }
}

/// How images are pulled.
fn pull_settings(config: &KubeletConfiguration) -> PullSettings {
    let (is_serial, most) = (config.serialize_image_pulls, config.max_parallel_image_pulls);
    let rate = PullRate { per_second: config.registry_pull_qps, burst: config.registry_burst };
    PullSettings { slots: PullSlots::of_settings(is_serial, most), rate }
}

/// The user whose subordinate ids are reserved for pods with user namespaces.
const AGENTS_USER: &str = "kubelet";

/// Adds the machine's subordinate ids to the settings of a node.
pub(crate) fn with_ids_of_pods(node: NodeSettings, most_pods: u32) -> Result<NodeSettings> {
    let reported = hostfs::subordinate_ids(AGENTS_USER);
    let reported = reported.with_context(|| format!("look up the ids of user {AGENTS_USER}"))?;
    let span = reported.map(|[users, groups]| span(&users, &groups, &node, most_pods)).transpose();
    let span = span.with_context(|| format!("the ids of user {AGENTS_USER}"))?;
    Ok(NodeSettings { ids_of_pods: span, ..node })
}

fn span(
    users: &str,
    groups: &str,
    node: &NodeSettings,
    most_pods: u32,
) -> Result<IdSpan, SpanError> {
    let span = IdSpan::read(users, groups)?;
    span.is_for(node.ids_per_pod, most_pods)?;
    Ok(span)
}

/// Parses `--node-ip`: empty, one address, or one of each IP family. An unspecified address (`::`, `0.0.0.0`) only
/// sets the preferred family, so it stands alone.
pub(crate) fn parse_node_ips(requested: &str) -> Result<Vec<IpAddr>> {
    let requested = requested.trim();
    if requested.is_empty() {
        return Ok(Vec::new());
    }
    let ips: Result<Vec<IpAddr>, _> = requested.split(',').map(|ip| ip.trim().parse()).collect();
    let ips = ips.with_context(|| format!("--node-ip {requested:?} is no IP address"))?;
    match ips.as_slice() {
        [_] => Ok(ips),
        [one, other] if one.is_unspecified() || other.is_unspecified() => {
            bail!("dual-stack --node-ip {requested:?} cannot include '0.0.0.0' or '::'")
        }
        [one, other] if one.is_ipv4() != other.is_ipv4() => Ok(ips),
        _ => bail!("--node-ip {requested:?} must be one address, or one of each version of IP"),
    }
}

/// The node's addresses in pod statuses until the Node object is known: from `--node-ip`, else the node's name if it is
/// an address, else the address of the default route. No address is not an error: only pods that use it are affected.
pub(crate) fn node_ips(requested: &[IpAddr], node_name: &str, routes: &[IpAddr]) -> Vec<IpAddr> {
    match requested {
        [] | [_] if requested.iter().all(IpAddr::is_unspecified) => {
            let prefers_v4 = requested.first().is_none_or(IpAddr::is_ipv4);
            let preferred = routes.iter().find(|ip| ip.is_ipv4() == prefers_v4);
            let found = node_name.parse().ok().or(preferred.or(routes.first()).copied());
            found.into_iter().collect()
        }
        requested => requested.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use model::machine::HugePages;

    use super::*;

    fn settings(yaml: &str) -> NodeSettings {
        settings_with(yaml, NodeFlags::default())
    }

    fn settings_with(yaml: &str, flags: NodeFlags) -> NodeSettings {
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{yaml}\n"
        );
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        hostfs::replace(&file, text.as_bytes()).unwrap();
        let none = config::flags::FlagSet::parse([""; 0]).unwrap();
        let config = config::load_sources(Some(&file), None, &none).unwrap().config;
        let machine = Machine {
            memory: 4 << 30,
            cpus: 2,
            huge_pages: vec![HugePages { size: 2 << 20, count: 8 }],
            cgroups: Cgroups::V2,
            ..Machine::default()
        };
        node_settings(&config, flags, Path::new("/var/lib/kubelet"), machine, 100_000)
    }

    fn amounts(settings: &NodeSettings) -> Vec<String> {
        settings.allocatable.values().map(ToString::to_string).collect()
    }

    #[test]
    fn settings_default_to_upstream() {
        let node = settings("");
        assert_eq!(node.limits.cpu_period, Some(CPU_PERIOD));
        assert!(node.limits.oom_kills_all && !node.seccomp_default);
        assert_eq!(node.resolv_conf.as_deref(), Some(Path::new("/etc/resolv.conf")));
        assert_eq!((node.ids_per_pod, node.cluster_dns.len()), (65_536, 0));
        // 4 GiB less 16 MiB of huge pages and 100 MiB eviction threshold; a tenth of the disk is an eviction threshold.
        let memory = ((4_u64 << 30) - (116 << 20)).to_string();
        let huge = (16_u64 << 20).to_string();
        assert_eq!(amounts(&node), ["2", "90k", &huge, &memory, "110"]);
    }

    #[test]
    fn configured_values_reach_the_settings() {
        let node = settings(
            "clusterDNS: [10.96.0.10, 'fd00::10']\nclusterDomain: cluster.local\n\
             resolvConf: ''\nseccompDefault: true\ncpuCFSQuota: false\n\
             singleProcessOOMKill: true\nuserNamespaces: {idsPerPod: 131072}\n\
             kubeReserved: {cpu: 500m, memory: 1Gi}\nsystemReserved: {cpu: 250m}\n\
             evictionHard: {memory.available: 1Gi, nodefs.available: 1k}",
        );
        assert_eq!(node.cluster_dns.len(), 2);
        assert_eq!(node.cluster_domain, "cluster.local");
        assert_eq!((node.resolv_conf, node.limits.cpu_period), (None, None));
        assert!(node.seccomp_default && !node.limits.oom_kills_all);
        assert_eq!(node.ids_per_pod, 131_072);
        let amounts: Vec<String> = node.allocatable.values().map(ToString::to_string).collect();
        let memory = ((2_u64 << 30) - (16 << 20)).to_string();
        let huge = (16_u64 << 20).to_string();
        assert_eq!(amounts, ["1250m", "99k", &huge, &memory, "110"]);
    }

    // behaviour: CON-56
    #[test]
    fn seccomp_default_is_set_by_field_or_flag() {
        for (field, flag) in [(false, true), (true, false), (true, true), (false, false)] {
            let flags = NodeFlags { seccomp_default: flag, ..NodeFlags::default() };
            let node = settings_with(&format!("seccompDefault: {field}"), flags);
            assert_eq!(node.seccomp_default, field || flag, "{field} {flag}");
        }
    }

    #[test]
    fn eviction_threshold_is_allocatable_by_flag() {
        let flags = NodeFlags { ignores_eviction: true, ..NodeFlags::default() };
        assert_eq!(amounts(&settings_with("", flags))[1], "100k");
    }

    #[test]
    fn explicit_cfs_quota_period_is_used() {
        let node = settings("cpuCFSQuotaPeriod: 5ms");
        assert_eq!(node.limits.cpu_period, Some(Duration::from_millis(5)));
    }

    // behaviour: NODE-13
    #[test]
    fn gates_are_set_by_name_and_by_stage() {
        let rows = [
            ("", false),
            ("ContainerStopSignals: true", true),
            ("AllAlpha: true", true),
            ("AllAlpha: true, ContainerStopSignals: false", false),
            ("AllBeta: true", false),
        ];
        for (gates, expected) in rows {
            let node = settings(&format!("featureGates: {{{gates}}}"));
            assert_eq!(node.stop_signals, expected, "{gates}");
        }
    }

    #[test]
    fn node_ip_flags_are_parsed() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(parse_node_ips(" ").unwrap().is_empty());
        assert_eq!(parse_node_ips("192.0.2.7").unwrap(), [ip("192.0.2.7")]);
        let two = parse_node_ips("192.0.2.7, 2001:db8::7").unwrap();
        assert_eq!(two, [ip("192.0.2.7"), ip("2001:db8::7")]);
        assert_eq!(
            parse_node_ips("::").unwrap(),
            [ip("::")],
            "the preference reaches the decision"
        );
        for wrong in ["here", "192.0.2.7,192.0.2.8", "1.1.1.1,::1,2.2.2.2", "1.1.1.1,::"] {
            assert!(parse_node_ips(wrong).is_err(), "{wrong}");
        }
    }

    // behaviour: NODE-13
    #[test]
    fn host_ip_has_the_preferred_ip_family() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let routes = [ip("192.0.2.1"), ip("2001:db8::1")];
        let rows = [
            ("", "n", &routes[..], Some("192.0.2.1")),
            ("0.0.0.0", "n", &routes[..], Some("192.0.2.1")),
            ("::", "n", &routes[..], Some("2001:db8::1")),
            ("::", "n", &routes[..1], Some("192.0.2.1")),
            ("", "192.0.2.9", &routes[..], Some("192.0.2.9")),
            ("2001:db8::7", "n", &routes[..], Some("2001:db8::7")),
            ("", "n", &routes[..0], None),
        ];
        for (requested, name, routes, expected) in rows {
            let found = node_ips(&parse_node_ips(requested).unwrap(), name, routes);
            assert_eq!(
                found,
                expected.map(ip).into_iter().collect::<Vec<_>>(),
                "{requested} {name}"
            );
        }
    }
}

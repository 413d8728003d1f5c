//! The DNS configuration of a pod.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfigOption};
use model::wanted::DnsConfig;
use podspec::view;

/// The limits of resolvers.
const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_SEARCHES: usize = 2048;
const LONGEST_SEARCH: usize = 253;

/// The DNS settings of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeDns {
    /// The cluster's DNS servers.
    pub cluster_servers: Vec<IpAddr>,
    /// The cluster domain; empty without one.
    pub cluster_domain: String,
    /// The content of the node's `resolv.conf`; `None` if disabled.
    pub host: Option<DnsConfig>,
    /// The requested addresses of the node, which determine the IP families.
    pub node_ips: Vec<IpAddr>,
}

/// The DNS configuration of a pod, and its problems.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDns {
    /// The configuration.
    pub config: DnsConfig,
    /// Whether the pod needs the cluster's DNS servers and there are none.
    pub lacks_cluster_servers: bool,
    /// Messages about omitted parts.
    pub cut: Vec<String>,
}

/// An invalid `resolv.conf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nameserver list is empty ")]
pub struct ResolvConfError;

/// Parses a `resolv.conf`. All servers count, the last list of domains, and the last
/// of options with the same name.
pub fn parse_resolv_conf(text: &str) -> Result<DnsConfig, ResolvConfError> {
    let mut config = DnsConfig::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => {
                config.servers.push(words.next().ok_or(ResolvConfError)?.to_owned());
            }
            Some("search") => {
                let domains = words.filter(|domain| *domain != ".");
                // A trailing dot does not change the domain.
                let plain = domains.map(|domain| domain.strip_suffix('.').unwrap_or(domain));
                config.searches = plain.map(ToOwned::to_owned).collect();
            }
            Some("options") => {
                for option in words {
                    set_option(&mut config.options, option.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(config)
}

/// The configuration of a pod by its policy and its `dnsConfig`.
pub fn pod_dns(pod: &Pod, node: &NodeDns) -> PodDns {
    let mut dns = PodDns::default();
    match policy(pod) {
        Policy::None => {}
        Policy::Cluster if !node.cluster_servers.is_empty() => {
            dns.config = of_cluster(&view::pod_name(pod).namespace, node);
        }
        policy => {
            dns.lacks_cluster_servers = policy == Policy::Cluster;
            dns.config = of_host(node);
        }
    }
    if let Some(wishes) = view::spec(pod).and_then(|spec| spec.dns_config.as_ref()) {
        let config = &mut dns.config;
        config.servers.extend(wishes.nameservers.iter().flatten().cloned());
        config.searches.extend(wishes.searches.iter().flatten().cloned());
        keep_first(&mut config.servers);
        keep_first(&mut config.searches);
        for option in wishes.options.iter().flatten() {
            set_option(&mut config.options, text_of(option));
        }
    }
    cut_servers(&mut dns);
    cut_searches(&mut dns);
    dns
}

/// The number of search domains of the cluster.
const OF_CLUSTER: usize = 3;

/// The parts of the node's `resolv.conf` that exceed the limits of resolvers in pods, in upstream's words.
pub fn over_limits(path: &str, searches: &[String], in_cluster: bool) -> Option<String> {
    let most = if in_cluster { MOST_SEARCHES - OF_CLUSTER } else { MOST_SEARCHES };
    if searches.len() > most {
        return Some(format!(
            "Resolv.conf file '{path}' contains search line consisting of more than {most} domains!"
        ));
    }
    if searches.iter().any(|domain| domain.len() > LONGEST_SEARCH) {
        return Some(format!(
            "Resolv.conf file {path:?} contains a search path which length is more than allowed \
             {LONGEST_SEARCH} chars!"
        ));
    }
    (searches.join(" ").len() > LONGEST_SEARCHES).then(|| {
        format!(
            "Resolv.conf file '{path}' contains search line which length is more than allowed \
             {LONGEST_SEARCHES} chars!"
        )
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Cluster,
    Host,
    None,
}

fn policy(pod: &Pod) -> Policy {
    let named = view::spec(pod).and_then(|spec| spec.dns_policy.as_deref());
    match named {
        Some("None") => Policy::None,
        Some("Default") => Policy::Host,
        Some("ClusterFirstWithHostNet") => Policy::Cluster,
        // On the host network the pod behaves as a process of the host.
        _ if view::host_network(pod) => Policy::Host,
        _ => Policy::Cluster,
    }
}

fn of_cluster(namespace: &str, node: &NodeDns) -> DnsConfig {
    let domain = &node.cluster_domain;
    let of_host = node.host.as_ref().map(|host| host.searches.clone()).unwrap_or_default();
    let mut searches = of_host;
    if !domain.is_empty() {
        let of_cluster =
            [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
        searches = of_cluster.into_iter().chain(searches).collect();
        keep_first(&mut searches);
    }
    let servers = node.cluster_servers.iter().map(IpAddr::to_string).collect();
    DnsConfig { servers, searches, options: vec!["ndots:5".to_owned()] }
}

/// Without a `resolv.conf`, resolvers use the local machine.
fn of_host(node: &NodeDns) -> DnsConfig {
    if let Some(host) = &node.host {
        return host.clone();
    }
    let of_version = |ip: &IpAddr| if ip.is_ipv6() { "::1" } else { "127.0.0.1" };
    let mut servers: Vec<String> =
        node.node_ips.iter().map(|ip| of_version(ip).to_owned()).collect();
    if servers.is_empty() {
        servers.push("127.0.0.1".to_owned());
    }
    DnsConfig { servers, searches: vec![".".to_owned()], options: Vec::new() }
}

fn text_of(option: &PodDNSConfigOption) -> String {
    let name = option.name.clone().unwrap_or_default();
    match option.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{name}:{value}"),
        _ => name,
    }
}

/// Replaces the option with the same name.
fn set_option(options: &mut Vec<String>, option: String) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|known| name(known) == name(&option)) {
        Some(known) => *known = option,
        None => options.push(option),
    }
}

fn keep_first(list: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    list.retain(|text| seen.insert(text.clone()));
}

fn cut_servers(dns: &mut PodDns) {
    let servers = &mut dns.config.servers;
    if servers.len() > MOST_SERVERS {
        servers.truncate(MOST_SERVERS);
        dns.cut.push(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, \
             the applied nameserver line is: {}",
            servers.join(" ")
        ));
    }
}

fn cut_searches(dns: &mut PodDns) {
    let searches = &mut dns.config.searches;
    let before = searches.len();
    searches.truncate(MOST_SEARCHES);
    // Some resolvers abort the whole program when a domain is longer.
    searches.retain(|domain| domain.len() <= LONGEST_SEARCH);
    while searches.join(" ").len() > LONGEST_SEARCHES {
        searches.pop();
    }
    if searches.len() < before {
        dns.cut.push(format!(
            "Search Line limits were exceeded, some search paths have been omitted, \
             the applied search line is: {}",
            searches.join(" ")
        ));
    }
}

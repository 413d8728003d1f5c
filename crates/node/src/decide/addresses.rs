//! Decides the addresses of the node.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::NodeAddress;
use model::ports::addresses::FoundAddresses;

/// The annotation that passes `--node-ip` to an external cloud provider.
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Whether the name of the node must be looked up: neither `--node-ip` nor the host's name contains an
/// address.
pub fn needs_lookup(requested: &[IpAddr], hostname: &str) -> bool {
    first_specified(requested).is_none() && hostname.parse::<IpAddr>().is_err()
}

/// The addresses of a node without a cloud provider; or why there are none.
/// `requested` are the values of `--node-ip`.
pub fn addresses(
    requested: &[IpAddr],
    hostname: &str,
    found: &FoundAddresses,
) -> Result<Vec<NodeAddress>, String> {
    let specified: Vec<IpAddr> =
        requested.iter().filter(|ip| !ip.is_unspecified()).copied().collect();
    for ip in &specified {
        let which = if requested.first() == Some(ip) { "nodeIP" } else { "secondaryNodeIP" };
        usable(*ip, found).map_err(|why| format!("failed to validate {which}: {why}"))?;
    }
    let ips = match (first_specified(requested), specified.as_slice()) {
        (Some(_), all) => all.to_vec(),
        (None, _) => vec![detect(requested, hostname, found)?],
    };
    let own = ips.iter().map(|ip| address("InternalIP", &ip.to_string()));
    Ok(own.chain([address("Hostname", hostname)]).collect())
}

/// The addresses of a node until its cloud provider sets more.
pub fn hostname_only(hostname: &str) -> Vec<NodeAddress> {
    vec![address("Hostname", hostname)]
}

fn address(kind: &str, address: &str) -> NodeAddress {
    NodeAddress { type_: kind.to_owned(), address: address.to_owned() }
}

/// The first address of `--node-ip`; `None` if the flag only selects the preferred IP family.
fn first_specified(requested: &[IpAddr]) -> Option<IpAddr> {
    requested.first().filter(|ip| !ip.is_unspecified()).copied()
}

/// The value of the annotation for a cloud provider, if any.
pub fn provided_node_ip(requested: &[IpAddr]) -> Option<String> {
    first_specified(requested)?;
    let each = requested.iter().filter(|ip| !ip.is_unspecified()).map(ToString::to_string);
    Some(each.collect::<Vec<_>>().join(","))
}

/// The address without `--node-ip`: the host's name if it is one, one that the name resolves to, or the
/// one of the default route. IPv4 is preferred, unless `::` was specified.
fn detect(requested: &[IpAddr], hostname: &str, found: &FoundAddresses) -> Result<IpAddr, String> {
    if let Ok(ip) = hostname.parse() {
        return Ok(ip);
    }
    let prefers_v4 = requested.first().is_none_or(IpAddr::is_ipv4);
    let usable = found.of_name.iter().filter(|ip| usable(**ip, found).is_ok());
    let of_name: Vec<&IpAddr> = usable.collect();
    let routes: Vec<&IpAddr> = found.by_default_route.iter().collect();
    let pick = |from: &[&IpAddr]| {
        let preferred = from.iter().find(|ip| ip.is_ipv4() == prefers_v4);
        preferred.or(from.first()).map(|ip| **ip)
    };
    pick(&of_name)
        .or_else(|| pick(&routes))
        .ok_or_else(|| "neither its name nor a default route yields one".to_owned())
}

/// The addresses for the downward API: from the node object, or if it has none, the detected
/// addresses; `None` before either is known.
pub fn first_known(
    published: Option<&[NodeAddress]>,
    found: Option<&[NodeAddress]>,
) -> Option<Vec<IpAddr>> {
    [published, found].into_iter().flatten().map(host_ips).find(|ips| !ips.is_empty())
}

/// The host IPs of pods: the first internal address of the node, else the first external one,
/// and the first one of the other IP family.
pub fn host_ips(addresses: &[NodeAddress]) -> Vec<IpAddr> {
    let of_kind = |kind: &'static str| {
        let all = addresses.iter().filter(move |one| one.type_ == kind);
        all.filter_map(|one| one.address.parse::<IpAddr>().ok())
    };
    let mut all = of_kind("InternalIP").chain(of_kind("ExternalIP"));
    let Some(first) = all.next() else { return Vec::new() };
    let other = all.find(|ip| ip.is_ipv6() != first.is_ipv6());
    [Some(first), other].into_iter().flatten().collect()
}

/// Checks that an address is reachable from outside, and belongs to the node.
fn usable(ip: IpAddr, found: &FoundAddresses) -> Result<(), String> {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let refused = [
        (ip.is_loopback(), "nodeIP can't be loopback address"),
        (ip.is_multicast(), "nodeIP can't be a multicast address"),
        (link_local, "nodeIP can't be a link-local unicast address"),
        (ip.is_unspecified(), "nodeIP can't be an all zeros address"),
    ];
    if let Some((_, why)) = refused.iter().find(|(is_so, _)| *is_so) {
        return Err((*why).to_owned());
    }
    if !found.on_interfaces.contains(&ip) {
        return Err(format!("node IP: \"{ip}\" not found in the host's network interfaces"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;

//! Which addresses the node has.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::NodeAddress;
use model::ports::addresses::FoundAddresses;

/// The annotation by which an external cloud provider learns of `--node-ip`.
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Whether the name of the node has to be looked up: neither `--node-ip` nor the host's name says an
/// address.
pub fn needs_lookup(asked: &[IpAddr], hostname: &str) -> bool {
    first_specified(asked).is_none() && hostname.parse::<IpAddr>().is_err()
}

/// The addresses of a node whose addresses are no cloud provider's business; or why there are none.
/// `asked` is what `--node-ip` says.
pub fn addresses(
    asked: &[IpAddr],
    hostname: &str,
    found: &FoundAddresses,
) -> Result<Vec<NodeAddress>, String> {
    let specified: Vec<IpAddr> = asked.iter().filter(|ip| !ip.is_unspecified()).copied().collect();
    for ip in &specified {
        let which = if asked.first() == Some(ip) { "nodeIP" } else { "secondaryNodeIP" };
        usable(*ip, found).map_err(|why| format!("failed to validate {which}: {why}"))?;
    }
    let ips = match (first_specified(asked), specified.as_slice()) {
        (Some(_), all) => all.to_vec(),
        (None, _) => vec![found_out(asked, hostname, found)?],
    };
    let own = ips.iter().map(|ip| address("InternalIP", &ip.to_string()));
    Ok(own.chain([address("Hostname", hostname)]).collect())
}

/// The addresses of a node that waits for its cloud provider to say more.
pub fn hostname_only(hostname: &str) -> Vec<NodeAddress> {
    vec![address("Hostname", hostname)]
}

fn address(kind: &str, address: &str) -> NodeAddress {
    NodeAddress { type_: kind.to_owned(), address: address.to_owned() }
}

/// The first address that `--node-ip` names; nothing where it only says which version of IP to prefer.
fn first_specified(asked: &[IpAddr]) -> Option<IpAddr> {
    asked.first().filter(|ip| !ip.is_unspecified()).copied()
}

/// What the annotation for a cloud provider says, if there is anything to say.
pub fn provided_node_ip(asked: &[IpAddr]) -> Option<String> {
    first_specified(asked)?;
    let each = asked.iter().filter(|ip| !ip.is_unspecified()).map(ToString::to_string);
    Some(each.collect::<Vec<_>>().join(","))
}

/// The address when nobody says one: the host's name if it is one, one that its name stands for, or the
/// one of the default route. The fourth version of IP is preferred, unless `::` was asked for.
fn found_out(asked: &[IpAddr], hostname: &str, found: &FoundAddresses) -> Result<IpAddr, String> {
    if let Ok(ip) = hostname.parse() {
        return Ok(ip);
    }
    let prefers_v4 = asked.first().is_none_or(IpAddr::is_ipv4);
    let usable = found.of_name.iter().filter(|ip| usable(**ip, found).is_ok());
    let of_name: Vec<&IpAddr> = usable.collect();
    let routes: Vec<&IpAddr> = found.by_default_route.iter().collect();
    let pick = |from: &[&IpAddr]| {
        let preferred = from.iter().find(|ip| ip.is_ipv4() == prefers_v4);
        preferred.or(from.first()).map(|ip| **ip)
    };
    pick(&of_name)
        .or_else(|| pick(&routes))
        .ok_or_else(|| "neither its name nor a default route tells one".to_owned())
}

/// The addresses that pods hear of: those that the node's object tells, or where it tells none those that were
/// found; nothing before either is known.
pub fn first_known(
    told: Option<&[NodeAddress]>,
    found: Option<&[NodeAddress]>,
) -> Option<Vec<IpAddr>> {
    [told, found].into_iter().flatten().map(host_ips).find(|ips| !ips.is_empty())
}

/// By which of a node's addresses its pods know it: the first internal one, else the first external one,
/// and the first of the other version of IP.
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

/// Whether others can reach the node by an address, and it is its own.
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

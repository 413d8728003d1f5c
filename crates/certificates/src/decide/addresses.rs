//! The addresses of a node, for its serving certificate.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// The type of an address of the Node object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// `Hostname`.
    Hostname,
    /// `InternalIP` or `ExternalIP`.
    Ip,
    /// `InternalDNS` or `ExternalDNS`.
    Dns,
}

impl AddressKind {
    /// The kind of an address type; `None` for types that certificates do not contain.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "Hostname" => Some(Self::Hostname),
            "InternalIP" | "ExternalIP" => Some(Self::Ip),
            "InternalDNS" | "ExternalDNS" => Some(Self::Dns),
            _ => None,
        }
    }
}

/// An address of the Node object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// Its type.
    pub kind: AddressKind,
    /// Its text.
    pub address: String,
}

/// DNS names and IP addresses, as upstream's `addressesToHostnamesAndIPs`.
pub(super) fn names_and_ips(addresses: &[NodeAddress]) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    let (mut names, mut ips) = (BTreeSet::new(), BTreeSet::new());
    for NodeAddress { kind, address } in addresses.iter().filter(|one| !one.address.is_empty()) {
        let ip: Option<IpAddr> = address.parse().ok();
        match (kind, ip) {
            (AddressKind::Hostname | AddressKind::Ip, Some(ip)) => _ = ips.insert(ip),
            (AddressKind::Ip, None) => {}
            (AddressKind::Hostname, None) | (AddressKind::Dns, _) => {
                names.insert(address.clone());
            }
        }
    }
    (names, ips)
}

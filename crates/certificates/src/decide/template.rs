//! What a certificate must have.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::addresses::{NodeAddress, names_and_ips};
use super::pair::CertificateFacts;

/// The group of nodes.
const NODES: &str = "system:nodes";

/// The subject and names of a certificate to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The common name.
    pub common_name: String,
    /// The organization.
    pub organization: String,
    /// The DNS names.
    pub dns_names: BTreeSet<String>,
    /// The IP addresses.
    pub ips: BTreeSet<IpAddr>,
}

impl Template {
    /// The template of a node's client certificate.
    pub fn client(node: &str) -> Self {
        Self {
            common_name: format!("system:node:{node}"),
            organization: NODES.to_owned(),
            dns_names: BTreeSet::new(),
            ips: BTreeSet::new(),
        }
    }

    /// The template of a node's serving certificate; `None` until the node has the addresses that it needs: an IP
    /// address, or with `allows_dns_only` a DNS name.
    pub fn serving(node: &str, addresses: &[NodeAddress], allows_dns_only: bool) -> Option<Self> {
        let (dns_names, ips) = names_and_ips(addresses);
        let is_enough = !ips.is_empty() || (allows_dns_only && !dns_names.is_empty());
        is_enough.then(|| Self { dns_names, ips, ..Self::client(node) })
    }

    /// Whether a certificate has all of this; it may have more names.
    pub fn is_satisfied_by(&self, facts: &CertificateFacts) -> bool {
        facts.common_name == self.common_name
            && facts.organizations.contains(&self.organization)
            && self.dns_names.is_subset(&facts.dns_names)
            && self.ips.is_subset(&facts.ips)
    }
}

#[cfg(test)]
mod tests {
    use super::super::addresses::AddressKind;
    use super::*;

    fn address(kind: &str, address: &str) -> NodeAddress {
        NodeAddress { kind: AddressKind::of(kind).unwrap(), address: address.to_owned() }
    }

    // behaviour: CERT-14
    #[test]
    fn serving_certificate_names_the_addresses_of_the_node() {
        type Row = (
            &'static [(&'static str, &'static str)],
            &'static [&'static str],
            &'static [&'static str],
        );
        let rows: &[Row] = &[
            (
                &[("Hostname", "n1"), ("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1")],
                &["n1"],
                &["10.0.0.1", "192.0.2.1"],
            ),
            (&[("Hostname", "10.0.0.1"), ("InternalIP", "10.0.0.1")], &[], &["10.0.0.1"]),
            (&[("InternalDNS", "a.b"), ("InternalIP", "fd00::1")], &["a.b"], &["fd00::1"]),
            (&[("InternalIP", "no address"), ("ExternalIP", "::1")], &[], &["::1"]),
        ];
        for (addresses, names, ips) in rows {
            let addresses: Vec<_> =
                addresses.iter().map(|(kind, one)| address(kind, one)).collect();
            let template = Template::serving("n1", &addresses, false).unwrap();
            assert_eq!(template.common_name, "system:node:n1");
            assert!(template.dns_names.iter().eq(names.iter()), "{template:?}");
            assert!(template.ips.iter().map(ToString::to_string).eq(ips.iter().copied()));
        }
        let only_name = [address("Hostname", "n1")];
        assert_eq!(Template::serving("n1", &only_name, false), None);
        assert!(Template::serving("n1", &only_name, true).is_some());
        assert_eq!(Template::serving("n1", &[], true), None);
        assert_eq!(AddressKind::of("Other"), None);
    }
}

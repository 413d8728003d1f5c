//! Node status, lease and name servers.

use std::net::IpAddr;

use crate::fields::KubeletConfiguration;
use crate::finding::Findings;

pub(super) fn check(config: &KubeletConfiguration, findings: &mut Findings) {
    findings.require(
        config.node_lease_duration_seconds > 0,
        "nodeLeaseDurationSeconds",
        "must be greater than 0",
    );
    findings.require(
        config.node_status_max_images >= -1,
        "nodeStatusMaxImages",
        "must be -1 or greater",
    );
    for (index, address) in config.cluster_dns.iter().enumerate() {
        if address.parse::<IpAddr>().is_err() {
            findings.doubt(
                format_args!("clusterDNS[{index}]"),
                format_args!("{address:?} is not an IP address, ignored"),
            );
        }
    }
}

//! The addresses of the machine.

use std::fmt::Debug;
use std::net::IpAddr;

use async_trait::async_trait;

/// The detected addresses of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundAddresses {
    /// The addresses on its network interfaces, in any order.
    pub on_interfaces: Vec<IpAddr>,
    /// The addresses of a DNS name, in the order of the response.
    pub of_name: Vec<IpAddr>,
    /// Source addresses of the default route, for each IP family.
    pub by_default_route: Vec<IpAddr>,
}

/// The node's addresses, for its pods.
pub trait HostIps: Debug + Send + Sync {
    /// The current ones: the primary one first, at most one of each IP family; none while unknown.
    fn host_ips(&self) -> Vec<IpAddr>;
}

/// The addresses of a node that never change.
impl HostIps for Vec<IpAddr> {
    fn host_ips(&self) -> Self {
        self.clone()
    }
}

/// Detects the machine's addresses.
#[async_trait]
pub trait Addresses: Debug + Send + Sync {
    /// Reads the interfaces and routes, and looks up the name if there is one. Unknown parts are
    /// empty.
    async fn find(&self, name: Option<&str>) -> FoundAddresses;
}

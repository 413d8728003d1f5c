//! The addresses of the machine.

use std::fmt::Debug;
use std::net::IpAddr;

use async_trait::async_trait;

/// What can be found out about the machine's addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundAddresses {
    /// Those on its network interfaces, in any order.
    pub on_interfaces: Vec<IpAddr>,
    /// Those that a name stands for, in the order of the answer.
    pub of_name: Vec<IpAddr>,
    /// Those that packets to elsewhere bear: of the default route, for each version of IP.
    pub by_default_route: Vec<IpAddr>,
}

/// The node's addresses, as its pods hear of them.
pub trait HostIps: Debug + Send + Sync {
    /// Those of now: the primary one first, at most one of each version of IP; none while none is known.
    fn host_ips(&self) -> Vec<IpAddr>;
}

/// Of a node whose addresses never change.
impl HostIps for Vec<IpAddr> {
    fn host_ips(&self) -> Self {
        self.clone()
    }
}

/// Finds out the machine's addresses.
#[async_trait]
pub trait Addresses: Debug + Send + Sync {
    /// Looks at the interfaces and routes, and up the name if there is one. What cannot be found out is
    /// empty.
    async fn find(&self, name: Option<&str>) -> FoundAddresses;
}

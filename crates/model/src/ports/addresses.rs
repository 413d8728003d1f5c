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

/// Finds out the machine's addresses.
#[async_trait]
pub trait Addresses: Debug + Send + Sync {
    /// Looks at the interfaces and routes, and up the name if there is one. What cannot be found out is
    /// empty.
    async fn find(&self, name: Option<&str>) -> FoundAddresses;
}

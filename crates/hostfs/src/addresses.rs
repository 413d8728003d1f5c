//! The addresses of the machine: from kernel files, and from names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use async_trait::async_trait;
use blocking::{Flights, Resolver};
use model::ports::addresses::{Addresses, FoundAddresses};

use crate::text::read_text;

/// The addresses of this machine.
#[derive(Debug, Clone)]
pub struct HostAddresses {
    names: Resolver,
    /// A large routing table takes long to read.
    reads: Flights<(Vec<IpAddr>, Vec<IpAddr>)>,
}

impl Default for HostAddresses {
    fn default() -> Self {
        Self { names: Resolver::default(), reads: Flights::new(1) }
    }
}

/// The timeout of a name lookup and of reading the addresses.
const LOOKUP: Duration = Duration::from_secs(10);

#[async_trait]
impl Addresses for HostAddresses {
    async fn find(&self, name: Option<&str>) -> FoundAddresses {
        let mut of_name = Vec::new();
        if let Some(name) = name {
            for ip in self.names.resolve(name, LOOKUP).await.unwrap_or_default() {
                if !of_name.contains(&ip) {
                    of_name.push(ip);
                }
            }
        }
        let read = match self.reads.join("", || (on_interfaces(), by_default_route())) {
            Some(flight) => flight.wait(LOOKUP).await,
            None => None,
        };
        let (on_interfaces, by_default_route) = read.unwrap_or_default();
        FoundAddresses { on_interfaces, of_name, by_default_route }
    }
}

fn on_interfaces() -> Vec<IpAddr> {
    let read = |file: &str| read_text(file).unwrap_or_default();
    let mut all = local_v4(&read("/proc/net/fib_trie"));
    all.extend(local_v6(&read("/proc/net/if_inet6")));
    all
}

/// Local addresses in the routing table.
fn local_v4(fib_trie: &str) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in fib_trie.lines() {
        let line = line.trim();
        if let Some(leaf) = line.strip_prefix("|-- ") {
            last = leaf.parse().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(ip) = last
            && !all.contains(&ip.into())
        {
            all.push(ip.into());
        }
    }
    all
}

fn local_v6(if_inet6: &str) -> Vec<IpAddr> {
    let words = if_inet6.lines().filter_map(|line| line.split_whitespace().next());
    let numbers = words.filter(|word| word.len() == 32);
    let numbers = numbers.filter_map(|word| u128::from_str_radix(word, 16).ok());
    numbers.map(|number| Ipv6Addr::from(number).into()).collect()
}

/// The source addresses of packets to other hosts, at most one of each IP version. No packet is sent.
pub fn by_default_route() -> Vec<IpAddr> {
    // Addresses for documentation: no host has them, so they are reached by the default route.
    let elsewhere = [
        (IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::new(192, 0, 2, 1))),
        (
            IpAddr::from(Ipv6Addr::UNSPECIFIED),
            IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        ),
    ];
    let own = |(any, there): (IpAddr, IpAddr)| {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(SocketAddr::from((there, 9))).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    elsewhere.into_iter().filter_map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_read_from_the_routing_table() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
                     +-- 10.0.0.0/24 2 0 2\n        |-- 10.0.0.0\n           /24 link UNICAST\n        \
                     |-- 10.0.0.7\n           /32 host LOCAL\n        |-- 10.0.0.255\n           \
                     /32 link BROADCAST\nLocal:\n     |-- 10.0.0.7\n        /32 host LOCAL\n     \
                     |-- 127.0.0.1\n        /32 host LOCAL\n";
        let expected: [IpAddr; 2] = ["10.0.0.7", "127.0.0.1"].map(|ip| ip.parse().unwrap());
        assert_eq!(local_v4(table), expected);
        assert_eq!(local_v4(""), [] as [IpAddr; 0]);
    }

    #[test]
    fn own_addresses_are_read_from_the_list_of_interfaces() {
        let list = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    20010db8000000000000000000000007 02 40 00 80     eth0\nnonsense\n";
        let expected: [IpAddr; 2] = ["::1", "2001:db8::7"].map(|ip| ip.parse().unwrap());
        assert_eq!(local_v6(list), expected);
    }

    #[tokio::test]
    async fn local_machine_has_addresses() {
        let found = HostAddresses::default().find(Some("127.0.0.1")).await;
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert_eq!(found.of_name, [loopback]);
        assert!(found.on_interfaces.contains(&loopback), "{found:?}");
        for ip in &found.by_default_route {
            assert!(found.on_interfaces.contains(ip), "{found:?}");
        }
        assert_eq!(HostAddresses::default().find(None).await.of_name, [] as [IpAddr; 0]);
    }
}

//! The link between host and instance, and the addresses of a slot.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::deadline::Deadline;
use crate::host::{self, CommandError};

/// The name of the link inside every instance. The node's address is found by it.
const NODE_LINK: &str = "eth0";
const HOST_LINK_PREFIX: &str = "flt-";

/// Why the link between host and instance could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("cannot read the host's routes")]
    Routes(#[source] CommandError),
    #[error("cannot understand the host's routes")]
    RouteList(#[source] serde_json::Error),
    #[error(
        "the host already routes {theirs} through {link}, which overlaps the instance's {ours}"
    )]
    Overlap { ours: Subnet, theirs: Subnet, link: String },
    #[error(
        "the host routes every range that pods could have, the last one as {theirs} through {link}"
    )]
    NoPodRange { theirs: Subnet, link: String },
    #[error("cannot make the link to the instance")]
    Make(#[source] CommandError),
    #[error("cannot configure the link inside the instance")]
    Configure(#[source] CommandError),
    #[error("the link {link} cannot be removed")]
    Remove {
        link: String,
        #[source]
        source: CommandError,
    },
}

/// An IPv4 subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    address: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    fn new(address: Ipv4Addr, prefix: u8) -> Self {
        Self { address, prefix }
    }

    fn overlaps(self, other: Self) -> bool {
        let prefix = u32::from(self.prefix.min(other.prefix));
        let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        (self.address.to_bits() ^ other.address.to_bits()) & mask == 0
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Subnet {
    type Err = std::net::AddrParseError;

    /// Reads `10.0.0.0/8`, and a single address as a subnet of one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, "32"));
        Ok(Self::new(address.parse()?, prefix.parse().unwrap_or(32)))
    }
}

/// The first two bytes of the pod ranges, in order of preference. The first that the host does not route is used:
/// podman, for one, routes 10.88.0.0/16. The ranges of 198.18.0.0/15 are reserved for benchmarks.
const POD_RANGES: [[u8; 2]; 6] = [[10, 88], [10, 89], [172, 29], [198, 18], [198, 19], [100, 88]];

/// The addresses of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    slot: u8,
    pod_range: [u8; 2],
}

impl Addresses {
    /// The addresses of a slot that do not overlap a route of the host.
    fn choose(slot: u8, routes: &[Route]) -> Result<Self, NetworkError> {
        let all = POD_RANGES.map(|pod_range| Self { slot, pod_range });
        let [first, ..] = all;
        if let Some((theirs, link)) = overlapping(first.link(), routes) {
            return Err(NetworkError::Overlap { ours: first.link(), theirs, link });
        }
        let mut taken = None;
        for addresses in all {
            match overlapping(addresses.pods(), routes) {
                None => return Ok(addresses),
                overlap => taken = overlap,
            }
        }
        let (theirs, link) = taken.expect("there is at least one range");
        Err(NetworkError::NoPodRange { theirs, link })
    }

    /// The four addresses of a slot, out of 198.51.100.0/24: a range reserved for documentation, which overlaps no real
    /// network.
    fn link_address(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 51, 100, 4 * self.slot + host)
    }

    /// The host's end of the link.
    pub fn host(self) -> Ipv4Addr {
        self.link_address(1)
    }

    /// The instance's end: the address of the node.
    pub fn node(self) -> Ipv4Addr {
        self.link_address(2)
    }

    fn link(self) -> Subnet {
        Subnet::new(self.link_address(0), 30)
    }

    /// The subnet of the instance's pods.
    pub fn pods(self) -> Subnet {
        let [first, second] = self.pod_range;
        Subnet::new(Ipv4Addr::new(first, second, self.slot, 0), 24)
    }
}

/// The name of a slot's link on the host.
fn host_link(slot: u8) -> String {
    format!("{HOST_LINK_PREFIX}{slot}")
}

/// The slot whose host link has this name.
pub(crate) fn slot_of(link: &str) -> Option<u8> {
    link.strip_prefix(HOST_LINK_PREFIX)?.parse().ok()
}

/// Links the host to the network namespace of process `pid`; returns the addresses that were free.
pub(crate) fn connect(slot: u8, pid: u32) -> Result<Addresses, NetworkError> {
    let addresses = Addresses::choose(slot, &host_routes()?)?;
    let link = host_link(slot);
    let (host, node) = (addresses.host(), addresses.node());
    let mut batch = String::new();
    let written = writeln!(
        batch,
        "link add {link} type veth peer name {NODE_LINK} netns {pid}\n\
         address add {host}/30 dev {link}\n\
         link set {link} up\n\
         route add {} via {node} dev {link}",
        addresses.pods(),
    );
    written.expect("writing to a string does not fail");
    host::run("ip", &["-batch", "-"], &batch).map_err(NetworkError::Make)?;
    let batch = format!(
        "link set lo up\n\
         address add {node}/30 dev {NODE_LINK}\n\
         link set {NODE_LINK} up\n\
         route add default via {host}\n"
    );
    let namespace = format!("--net=/proc/{pid}/ns/net");
    host::run("nsenter", &[&namespace, "ip", "-batch", "-"], &batch)
        .map_err(NetworkError::Configure)?;
    Ok(addresses)
}

#[derive(Deserialize)]
struct Route {
    dst: String,
    #[serde(default)]
    dev: String,
}

fn host_routes() -> Result<Vec<Route>, NetworkError> {
    let text =
        host::run("ip", &["-json", "-4", "route", "show"], "").map_err(NetworkError::Routes)?;
    // Without any route `ip` prints nothing at all.
    let text = if text.trim().is_empty() { "[]" } else { &text };
    serde_json::from_str(text).map_err(NetworkError::RouteList)
}

/// The first route of the host that overlaps a subnet, and its link: our more specific route would divert the host's
/// own traffic.
fn overlapping(ours: Subnet, routes: &[Route]) -> Option<(Subnet, String)> {
    routes.iter().find_map(|route| {
        // The default route overlaps every subnet, and is more general than ours on purpose.
        let theirs = route.dst.parse::<Subnet>().ok()?;
        ours.overlaps(theirs).then(|| (theirs, route.dev.clone()))
    })
}

/// Removes the host's end of the link, unless the kernel has removed it with the namespace.
pub(crate) fn disconnect(slot: u8, deadline: Deadline) -> Result<(), NetworkError> {
    let link = host_link(slot);
    let present = || sysfs(&link).exists();
    let mut failure = None;
    deadline.poll(|| {
        failure = None;
        if present() {
            failure = host::run("ip", &["link", "delete", &link], "").err();
        }
        (!present()).then_some(())
    });
    match failure.filter(|_| present()) {
        Some(source) => Err(NetworkError::Remove { link, source }),
        None => Ok(()),
    }
}

fn sysfs(link: &str) -> PathBuf {
    Path::new("/sys/class/net").join(link)
}

/// The slots that have a link on the host.
pub(crate) fn slots() -> Vec<u8> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    entries.filter_map(|entry| slot_of(entry.file_name().to_str()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_distinct_addresses() {
        let of = |slot| Addresses::choose(slot, &[]).unwrap();
        let (first, last) = (of(0), of(63));
        assert_eq!(first.node(), Ipv4Addr::new(198, 51, 100, 2));
        assert_eq!(last.host(), Ipv4Addr::new(198, 51, 100, 253));
        assert_eq!(last.pods().to_string(), "10.88.63.0/24");
        assert!(!first.link().overlaps(last.link()));
    }

    #[test]
    fn pods_get_the_first_range_that_the_host_does_not_route() {
        let route = |dst: &&str| Route { dst: (*dst).to_owned(), dev: "eth7".to_owned() };
        let choose = |dsts: &[&str]| {
            let routes: Vec<Route> = [&"default"].into_iter().chain(dsts).map(route).collect();
            Addresses::choose(2, &routes).map(|chosen| chosen.pods().to_string())
        };
        let cases: [(&[&str], &str); 6] = [
            (&["192.0.2.0/24"], "10.88.2.0/24"),
            (&["10.88.3.0/24", "198.51.100.12/30"], "10.88.2.0/24"),
            (&["10.88.0.0/16"], "10.89.2.0/24"),
            (&["10.88.2.7"], "10.89.2.0/24"),
            (&["10.0.0.0/8"], "172.29.2.0/24"),
            (&["10.0.0.0/8", "172.16.0.0/12"], "198.18.2.0/24"),
        ];
        for (dsts, expected) in cases {
            assert_eq!(choose(dsts).unwrap(), expected, "{dsts:?}");
        }
        let all = ["10.0.0.0/8", "172.16.0.0/12", "198.18.0.0/15", "100.64.0.0/10"];
        assert_eq!(
            choose(&all).unwrap_err().to_string(),
            "the host routes every range that pods could have, the last one as 100.64.0.0/10 through eth7"
        );
        assert_eq!(
            choose(&["198.51.100.0/24"]).unwrap_err().to_string(),
            "the host already routes 198.51.100.0/24 through eth7, \
             which overlaps the instance's 198.51.100.8/30"
        );
    }
}

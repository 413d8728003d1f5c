//! The link between host and instance, and the addresses of a slot.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use crate::deadline::Deadline;
use crate::host::{self, CommandError};

/// The name of the link inside every instance, by which a node's address is found.
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

    /// Reads `10.0.0.0/8`, and a lone address as a subnet of one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, "32"));
        Ok(Self::new(address.parse()?, prefix.parse().unwrap_or(32)))
    }
}

/// The addresses of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    slot: u8,
}

impl Addresses {
    pub fn of(slot: u8) -> Self {
        Self { slot }
    }

    /// The four addresses of a slot, out of 198.51.100.0/24: a range set aside for documentation,
    /// so that no real network is shadowed by it.
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

    /// Where the pods of the instance get their addresses from.
    pub fn pods(self) -> Subnet {
        Subnet::new(Ipv4Addr::new(10, 88, self.slot, 0), 24)
    }

    fn host_link(self) -> String {
        format!("{HOST_LINK_PREFIX}{}", self.slot)
    }
}

/// The slot whose host link has this name.
pub(crate) fn slot_of(link: &str) -> Option<u8> {
    link.strip_prefix(HOST_LINK_PREFIX)?.parse().ok()
}

/// Links the host to the network namespace of process `pid`.
pub(crate) fn connect(slot: u8, pid: u32) -> Result<(), NetworkError> {
    let addresses = Addresses::of(slot);
    refuse_overlap(addresses)?;
    let link = addresses.host_link();
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
    written.expect("a string takes any text");
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
    Ok(())
}

#[derive(Deserialize)]
struct Route {
    dst: String,
    #[serde(default)]
    dev: String,
}

/// A more specific route of ours would take the host's own traffic away.
fn refuse_overlap(addresses: Addresses) -> Result<(), NetworkError> {
    let text =
        host::run("ip", &["-json", "-4", "route", "show"], "").map_err(NetworkError::Routes)?;
    // Without any route `ip` prints nothing at all.
    let text = if text.trim().is_empty() { "[]" } else { &text };
    let routes: Vec<Route> = serde_json::from_str(text).map_err(NetworkError::RouteList)?;
    overlap(addresses, &routes)
}

fn overlap(addresses: Addresses, routes: &[Route]) -> Result<(), NetworkError> {
    for route in routes {
        // The default route covers everything and is meant to be more general than ours.
        let Ok(theirs) = route.dst.parse::<Subnet>() else { continue };
        for ours in [addresses.link(), addresses.pods()] {
            if ours.overlaps(theirs) {
                return Err(NetworkError::Overlap { ours, theirs, link: route.dev.clone() });
            }
        }
    }
    Ok(())
}

/// Removes the host's end of the link, unless the kernel already did with the namespace.
pub(crate) fn disconnect(slot: u8, deadline: Deadline) -> Result<(), NetworkError> {
    let link = Addresses::of(slot).host_link();
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
    fn slots_have_addresses_apart() {
        let (first, last) = (Addresses::of(0), Addresses::of(63));
        assert_eq!(first.node(), Ipv4Addr::new(198, 51, 100, 2));
        assert_eq!(last.host(), Ipv4Addr::new(198, 51, 100, 253));
        assert_eq!(last.pods().to_string(), "10.88.63.0/24");
        assert!(!first.link().overlaps(last.link()));
    }

    #[test]
    fn a_route_of_the_host_into_our_range_is_refused() {
        let route = |dst: &str| Route { dst: dst.to_owned(), dev: "eth7".to_owned() };
        let check = |dst| overlap(Addresses::of(2), &[route("default"), route(dst)]);
        assert!(check("192.0.2.0/24").is_ok());
        assert!(check("10.88.3.0/24").is_ok());
        assert!(check("198.51.100.12/30").is_ok());
        assert!(check("10.0.0.0/8").is_err());
        assert!(check("10.88.2.7").is_err());
        let error = check("198.51.100.0/24").unwrap_err().to_string();
        assert_eq!(
            error,
            "the host already routes 198.51.100.0/24 through eth7, \
             which overlaps the instance's 198.51.100.8/30"
        );
    }
}

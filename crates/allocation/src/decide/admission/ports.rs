//! Checks whether the host ports of a pod are free.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use podspec::view;

/// The address that matches all.
const ALL: &str = "0.0.0.0";

/// The used host ports: addresses by protocol and number.
#[derive(Debug, Clone, Default)]
pub(super) struct UsedPorts(BTreeMap<(String, i32), BTreeSet<String>>);

impl UsedPorts {
    pub(super) fn add(&mut self, pod: &Pod) {
        for (key, address) in host_ports(pod) {
            self.0.entry(key).or_default().insert(address);
        }
    }

    /// Whether a pod uses any of these ports.
    pub(super) fn are_of(&self, pod: &Pod) -> bool {
        !self.0.is_empty() && host_ports(pod).next().is_some()
    }

    pub(super) fn are_free_for(&self, pod: &Pod) -> bool {
        host_ports(pod).all(|(key, address)| {
            let Some(taken) = self.0.get(&key) else { return true };
            address != ALL && !taken.contains(ALL) && !taken.contains(&address)
        })
    }
}

/// The host ports that a pod uses as long as it runs: protocol and number, and the address.
fn host_ports(pod: &Pod) -> impl Iterator<Item = ((String, i32), String)> {
    let sidecars = view::init_containers(pod).iter().filter(|init| view::is_sidecar(init));
    let all = sidecars.chain(view::containers(pod)).flat_map(|one| one.ports.iter().flatten());
    all.filter_map(|port: &ContainerPort| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let text = |field: &Option<String>, default: &str| {
            let given = field.as_deref().filter(|given| !given.is_empty());
            given.unwrap_or(default).to_owned()
        };
        Some(((text(&port.protocol, "TCP"), number), text(&port.host_ip, ALL)))
    })
}

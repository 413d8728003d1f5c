//! Device plugin resources of an earlier agent.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The resources that device plugins had registered with an upstream kubelet, from its device checkpoint. The checksum
/// is not verified: the entries of pods are not used.
pub(crate) fn former_devices(checkpoint: &[u8]) -> Result<BTreeSet<String>, serde_json::Error> {
    let checkpoint: Value = serde_json::from_slice(checkpoint)?;
    let devices = checkpoint["Data"]["RegisteredDevices"].as_object();
    Ok(devices.into_iter().flat_map(Map::keys).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: NODE-56
    #[test]
    fn device_resource_names_are_read_from_the_checkpoint() {
        let full = br#"{"Data":{"PodDeviceEntries":[{"PodUID":"u"}],"RegisteredDevices":
            {"nvidia.com/gpu":["a","b"],"example.com/nic":[]}},"Checksum":12}"#;
        let names = former_devices(full).unwrap();
        assert_eq!(names.iter().collect::<Vec<_>>(), ["example.com/nic", "nvidia.com/gpu"]);
        let empty = br#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":null},"Checksum":1}"#;
        assert!(former_devices(empty).unwrap().is_empty());
        assert!(former_devices(br#"{"Data":"#).is_err());
    }
}

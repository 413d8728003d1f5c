//! The network between the host and the instance's node and pods.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use testbed::{Cache, Command, Instance};

use crate::{alone, eventually, printed, start};

/// Whether the address is reachable: no program listens there, so a refusal is an answer.
fn answers(address: Ipv4Addr) -> bool {
    let address = SocketAddr::from((address, 1));
    let error = TcpStream::connect_timeout(&address, Duration::from_secs(1)).unwrap_err();
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Gives a network namespace inside the instance an address, by containerd's CNI configuration and its plugin.
fn add_pod_address(instance: &Instance) -> Ipv4Addr {
    let bridge = Cache::from_env().unwrap().parts().cni().join("bridge");
    let config = std::fs::read_to_string(instance.dir().join("cni/10-testbed.conflist")).unwrap();
    let list: serde_json::Value = serde_json::from_str(&config).unwrap();
    let mut plugin = list["plugins"][0].clone();
    plugin["cniVersion"] = list["cniVersion"].clone();
    plugin["name"] = list["name"].clone();
    let script = format!("ip netns add pod && echo '{plugin}' | {}", bridge.display());
    let command = Command::new("sh")
        .args(["-c", &script])
        .env("CNI_COMMAND", "ADD")
        .env("CNI_CONTAINERID", "pod")
        .env("CNI_NETNS", "/run/netns/pod")
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", bridge.parent().unwrap().to_str().unwrap());
    let result: serde_json::Value =
        serde_json::from_str(&printed(&instance.run(&command).unwrap())).unwrap();
    let address = result["ips"][0]["address"].as_str().unwrap();
    address.split_once('/').unwrap().0.parse().unwrap()
}

#[test]
fn host_reaches_the_node_and_its_pods() {
    let _alone = alone();
    let instance = start();
    eventually("an answer of the node", || answers(instance.node_ip()).then_some(()));
    let pod = add_pod_address(&instance);
    let network = pod.octets()[..3].iter().map(u8::to_string).collect::<Vec<_>>().join(".");
    assert_eq!(format!("{network}.0/24"), instance.pod_cidr());
    assert_eq!(pod.octets()[2], instance.slot());
    eventually("an answer of the pod", || answers(pod).then_some(()));
    assert!(instance.dir().join("ipam").exists());
    instance.stop().unwrap();
}

#[test]
fn connected_instances_reach_each_other() {
    let _alone = alone();
    let (one, other) = (start(), start());
    one.connect_to(&other).unwrap();
    for (here, there) in [(&one, &other), (&other, &one)] {
        let connect = format!("exec 3<>/dev/tcp/{}/1", there.node_ip());
        let output = here.run(&Command::new("timeout").args(["5", "bash", "-c", &connect]));
        let stderr = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
        assert!(stderr.contains("Connection refused"), "{stderr}");
    }
    one.stop().unwrap();
    other.stop().unwrap();
}

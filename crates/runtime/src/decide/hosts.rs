//! The hosts file of a pod.

use std::fmt::Write as _;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostAlias, Pod};
use podspec::view;

use super::hostname::PodHostname;

/// Its path in containers.
pub const HOSTS_PATH: &str = "/etc/hosts";

const HEADER: &str = "# Kubernetes-managed hosts file.\n";
const HEADER_ON_HOST_NETWORK: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOCAL: &str = "127.0.0.1\tlocalhost\n\
                     ::1\tlocalhost ip6-localhost ip6-loopback\n\
                     fe00::0\tip6-localnet\n\
                     fe00::0\tip6-mcastprefix\n\
                     fe00::1\tip6-allnodes\n\
                     fe00::2\tip6-allrouters\n";

/// Whether a container gets a hosts file: not if it mounts its own, nor before the pod has an
/// address.
pub fn wants_hosts_file(
    pod: &Pod,
    container: &k8s_openapi::api::core::v1::Container,
    ips: &[IpAddr],
) -> bool {
    let brings_its_own =
        container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == HOSTS_PATH);
    !brings_its_own && (view::host_network(pod) || !ips.is_empty())
}

/// The file of a pod with its own network.
pub fn managed_hosts(ips: &[IpAddr], name: &PodHostname, aliases: &[HostAlias]) -> String {
    let PodHostname { hostname, domain } = name;
    let mut content = format!("{HEADER}{LOCAL}");
    for ip in ips {
        let entry = if domain.is_empty() {
            format!("{ip}\t{hostname}\n")
        } else {
            format!("{ip}\t{hostname}.{domain}\t{hostname}\n")
        };
        content.push_str(&entry);
    }
    content.push_str(&entries(aliases));
    content
}

/// The file of a pod on the host network: the host's file with the aliases of the pod.
pub fn host_network_hosts(of_host: &[u8], aliases: &[HostAlias]) -> Vec<u8> {
    [HEADER_ON_HOST_NETWORK.as_bytes(), of_host, entries(aliases).as_bytes()].concat()
}

fn entries(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let mut content = "\n# Entries added by HostAliases.\n".to_owned();
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        writeln!(content, "{}\t{names}", alias.ip).expect("writing to a string does not fail");
    }
    content
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, VolumeMount};
    use testkit::pods;

    use super::*;

    fn aliases() -> Vec<HostAlias> {
        let alias = |ip: &str, names: &[&str]| HostAlias {
            ip: ip.to_owned(),
            hostnames: Some(names.iter().map(ToString::to_string).collect()),
        };
        vec![alias("10.0.0.1", &["one", "uno"]), alias("10.0.0.2", &["two"])]
    }

    // behaviour: CON-30, CON-31
    #[test]
    fn hosts_file_has_the_pod_and_its_aliases() {
        let ips: Vec<IpAddr> = vec!["10.1.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        let name = PodHostname { hostname: "web".into(), domain: "sub.shop.svc.local".into() };
        let expected = "# Kubernetes-managed hosts file.\n\
                        127.0.0.1\tlocalhost\n\
                        ::1\tlocalhost ip6-localhost ip6-loopback\n\
                        fe00::0\tip6-localnet\n\
                        fe00::0\tip6-mcastprefix\n\
                        fe00::1\tip6-allnodes\n\
                        fe00::2\tip6-allrouters\n\
                        10.1.0.5\tweb.sub.shop.svc.local\tweb\n\
                        fd00::5\tweb.sub.shop.svc.local\tweb\n\
                        \n\
                        # Entries added by HostAliases.\n\
                        10.0.0.1\tone\tuno\n\
                        10.0.0.2\ttwo\n";
        assert_eq!(managed_hosts(&ips, &name, &aliases()), expected);
        let name = PodHostname { domain: String::new(), ..name };
        let short = managed_hosts(&ips[..1], &name, &[]);
        assert!(short.ends_with("ip6-allrouters\n10.1.0.5\tweb\n"), "{short}");
    }

    // behaviour: CON-32
    #[test]
    fn hosts_file_extends_the_hosts_on_the_host_network() {
        let content = host_network_hosts(b"127.0.0.1 localhost\n", &aliases()[1..]);
        let expected = "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\n\
                        # Entries added by HostAliases.\n10.0.0.2\ttwo\n";
        assert_eq!(String::from_utf8(content).unwrap(), expected);
    }

    // behaviour: CON-33
    #[test]
    fn hosts_file_is_not_mounted_without_pod_ip_or_over_a_mount() {
        let pod = pods::pod("web").build();
        let host = pods::pod("web").host_network().build();
        let plain = Container::default();
        let own = Container {
            volume_mounts: Some(vec![VolumeMount {
                mount_path: HOSTS_PATH.to_owned(),
                ..VolumeMount::default()
            }]),
            ..Container::default()
        };
        let ips = ["10.1.0.5".parse().unwrap()];
        let rows = [
            (&pod, &plain, &ips[..], true),
            (&pod, &plain, &[][..], false),
            (&host, &plain, &[][..], true),
            (&pod, &own, &ips[..], false),
        ];
        for (pod, container, ips, expected) in rows {
            assert_eq!(wants_hosts_file(pod, container, ips), expected, "{ips:?}");
        }
    }
}

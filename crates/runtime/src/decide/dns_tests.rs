//! Tables for the DNS configuration of pods.

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig, PodDNSConfigOption};
use model::wanted::DnsConfig;
use proptest::prelude::*;
use testkit::pods;

use super::dns::{NodeDns, PodDns, ResolvConfError, parse_resolv_conf, pod_dns};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

fn config(servers: &str, searches: &str, options: &str) -> DnsConfig {
    DnsConfig { servers: words(servers), searches: words(searches), options: words(options) }
}

fn pod(policy: &str, host_network: bool, wishes: Option<PodDNSConfig>) -> Pod {
    let mut pod = pods::pod("web").namespace("shop").build();
    let spec = pod.spec.as_mut().unwrap();
    spec.dns_policy = Some(policy.to_owned());
    spec.host_network = Some(host_network);
    spec.dns_config = wishes;
    pod
}

fn wishes(servers: &str, searches: &str, options: &[(&str, Option<&str>)]) -> PodDNSConfig {
    let options = options.iter().map(|(name, value)| PodDNSConfigOption {
        name: Some((*name).to_owned()),
        value: value.map(ToOwned::to_owned),
    });
    PodDNSConfig {
        nameservers: Some(words(servers)),
        searches: Some(words(searches)),
        options: Some(options.collect()),
    }
}

fn node() -> NodeDns {
    NodeDns {
        cluster_servers: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: "cluster.local".to_owned(),
        host: Some(config("8.8.8.8", "corp.example cluster.local", "timeout:1 rotate")),
        node_ips: vec![],
    }
}

// behaviour: CON-40
#[test]
fn node_resolv_conf_is_parsed_as_by_a_resolver() {
    let text = "# nameserver 9.9.9.9\n nameserver 1.1.1.1 \nnameserver\t2.2.2.2 extra\n\
                domain ignored\nsearch old.example\nsearch a.example. . b.example\n\
                options ndots:1 rotate\noptions ndots:3\n\n; no\n";
    let parsed = parse_resolv_conf(text).unwrap();
    assert_eq!(parsed, config("1.1.1.1 2.2.2.2", "a.example b.example", "ndots:3 rotate"));
    assert_eq!(parse_resolv_conf(""), Ok(DnsConfig::default()));
    assert_eq!(parse_resolv_conf("nameserver"), Err(ResolvConfError));
}

// behaviour: CON-41, CON-42, CON-43, CON-44
#[test]
fn dns_policy_selects_the_base_config() {
    let of_cluster = config(
        "10.96.0.10",
        "shop.svc.cluster.local svc.cluster.local cluster.local corp.example",
        "ndots:5",
    );
    let of_host = node().host.unwrap();
    let no_domain = NodeDns { cluster_domain: String::new(), ..node() };
    let no_servers = NodeDns { cluster_servers: vec![], ..node() };
    let nothing = NodeDns { host: None, cluster_servers: vec![], ..node() };
    let both = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    let dual = NodeDns { node_ips: both, ..nothing.clone() };
    let rows = [
        ("ClusterFirst", false, node(), of_cluster.clone(), false),
        ("ClusterFirst", true, node(), of_host.clone(), false),
        ("ClusterFirstWithHostNet", true, node(), of_cluster, false),
        ("Default", false, node(), of_host.clone(), false),
        ("None", false, node(), DnsConfig::default(), false),
        (
            "ClusterFirst",
            false,
            no_domain,
            config("10.96.0.10", "corp.example cluster.local", "ndots:5"),
            false,
        ),
        ("ClusterFirst", false, no_servers, of_host, true),
        ("ClusterFirst", false, nothing, config("127.0.0.1", ".", ""), true),
        ("Default", false, dual, config("127.0.0.1 ::1", ".", ""), false),
    ];
    for (policy, host_network, node, expected, lacks) in rows {
        let dns = pod_dns(&pod(policy, host_network, None), &node);
        let expected = PodDns { config: expected, lacks_cluster_servers: lacks, cut: vec![] };
        assert_eq!(dns, expected, "{policy}");
    }
}

// behaviour: CON-45
#[test]
fn pod_dns_config_is_merged_and_its_options_win() {
    let options = [("ndots", Some("2")), ("edns0", None), ("rotate", Some(""))];
    let wishes = wishes("1.1.1.1 8.8.8.8", "my.example corp.example", &options);
    let dns = pod_dns(&pod("Default", false, Some(wishes.clone())), &node());
    let expected = config(
        "8.8.8.8 1.1.1.1",
        "corp.example cluster.local my.example",
        "timeout:1 rotate ndots:2 edns0",
    );
    assert_eq!(dns.config, expected);
    let dns = pod_dns(&pod("None", false, Some(wishes)), &node());
    assert_eq!(
        dns.config,
        config("1.1.1.1 8.8.8.8", "my.example corp.example", "ndots:2 edns0 rotate")
    );
}

// behaviour: CON-46
#[test]
fn dns_settings_beyond_resolver_limits_are_dropped_and_reported() {
    let wanted = wishes("1.1.1.1 2.2.2.2 3.3.3.3 4.4.4.4", "", &[]);
    let dns = pod_dns(&pod("None", false, Some(wanted)), &node());
    assert_eq!(dns.config.servers, words("1.1.1.1 2.2.2.2 3.3.3.3"));
    assert_eq!(
        dns.cut,
        ["Nameserver limits were exceeded, some nameservers have been omitted, \
          the applied nameserver line is: 1.1.1.1 2.2.2.2 3.3.3.3"]
    );
    let many: Vec<String> = (0..40).map(|n| format!("d{n}")).collect();
    let dns = pod_dns(&pod("None", false, Some(wishes("1.1.1.1", &many.join(" "), &[]))), &node());
    assert_eq!(dns.config.searches, many[..32]);
    let said = format!(
        "Search Line limits were exceeded, some search paths have been omitted, \
         the applied search line is: {}",
        many[..32].join(" ")
    );
    assert_eq!(dns.cut, [said]);
    let too_long = format!("{} ok", "x".repeat(254));
    let dns = pod_dns(&pod("None", false, Some(wishes("1.1.1.1", &too_long, &[]))), &node());
    assert_eq!((dns.config.searches, dns.cut.len()), (words("ok"), 1));
    let long: Vec<String> = (0..12).map(|n| format!("{n:02}{}", "y".repeat(198))).collect();
    let dns = pod_dns(&pod("None", false, Some(wishes("1.1.1.1", &long.join(" "), &[]))), &node());
    assert_eq!(dns.config.searches.len(), 10, "10 times 200 and 9 spaces fit into 2048");
}

proptest! {
    #[test]
    fn dns_config_never_exceeds_resolver_limits(
        servers in prop::collection::vec("[0-9.]{1,15}", 0..8),
        searches in prop::collection::vec(1_usize..260, 0..50),
    ) {
        let searches = searches.into_iter().map(|length| "x".repeat(length)).collect();
        let wanted = PodDNSConfig {
            nameservers: Some(servers),
            searches: Some(searches),
            options: None,
        };
        let config = pod_dns(&pod("ClusterFirst", false, Some(wanted)), &node()).config;
        prop_assert!(config.servers.len() <= 3);
        prop_assert!(config.searches.len() <= 32);
        prop_assert!(config.searches.join(" ").len() <= 2048);
        prop_assert!(config.searches.iter().all(|domain| domain.len() <= 253));
    }

    #[test]
    fn any_resolv_conf_is_parsed_without_panic(text in ".*") {
        let _parsed = parse_resolv_conf(&text);
    }
}

#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{check_rows, with_spec};

#[test]
fn invalid_dns_settings_have_upstream_errors() {
    let many = format!("dnsConfig: {{searches: [{}]}}", ["a"; 33].join(", "));
    let long = format!("dnsConfig: {{searches: [{}]}}", ["a".repeat(200).as_str(); 11].join(", "));
    check_rows(
        &[
            (
                "a configuration",
                "dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.1, 'fd00::1'], searches: [a.b., \
                 _x.y, .], options: [{name: ndots, value: '2'}]}",
                &[],
            ),
            (
                "an unknown policy",
                "dnsPolicy: x",
                &["spec.dnsPolicy: Unsupported value: \"x\": supported values: \
                   \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\""],
            ),
            (
                "no policy and no configuration",
                "dnsPolicy: None",
                &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is \
                   None"],
            ),
            (
                "no policy and no server",
                "dnsPolicy: None, dnsConfig: {searches: [a]}",
                &["spec.dnsConfig.nameservers: Required value: must provide at least one DNS \
                   nameserver when `dnsPolicy` is None"],
            ),
            (
                "too many servers",
                "dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4]}",
                &["spec.dnsConfig.nameservers: Invalid value: \
                   [\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\",\"1.1.1.4\"]: must not have more than 3 \
                   nameservers"],
            ),
            (
                "a server that is no address",
                "dnsConfig: {nameservers: [x, 010.0.0.1, '::ffff:1.2.3.4']}",
                &[
                    "spec.dnsConfig.nameservers[0]: Invalid value: \"x\": must be a valid IP \
                     address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    "spec.dnsConfig.nameservers[1]: Invalid value: \"010.0.0.1\": must not have \
                     leading 0s",
                    "spec.dnsConfig.nameservers[2]: Invalid value: \"::ffff:1.2.3.4\": must not be \
                     an IPv4-mapped IPv6 address",
                ],
            ),
            ("too many searches", &many, &["spec.dnsConfig.searches: Invalid value: [\"a\",..."]),
            ("too long searches", &long, &["spec.dnsConfig.searches: Invalid value: [\"aaa..."]),
            (
                "a search that is no domain",
                "dnsConfig: {searches: ['a b']}",
                &["spec.dnsConfig.searches[0]: Invalid value: \"a b\": a lowercase RFC 1123..."],
            ),
            (
                "an option without name",
                "dnsConfig: {options: [{value: x}]}",
                &["spec.dnsConfig.options[0]: Required value: must not be empty"],
            ),
        ],
        with_spec,
    );
}

#[test]
fn invalid_host_names_have_upstream_errors() {
    let long = format!("hostnameOverride: {}", "a".repeat(65));
    check_rows(
        &[
            ("names", "hostname: a, subdomain: b", &[]),
            (
                "names with dots",
                "hostname: a.b, subdomain: c.d",
                &[
                    "spec.hostname: Invalid value: \"a.b\": must not contain dots",
                    "spec.subdomain: Invalid value: \"c.d\": must not contain dots",
                ],
            ),
            ("another name", "hostnameOverride: a.b", &[]),
            (
                "another name where there can be none",
                "hostnameOverride: a, hostNetwork: true, setHostnameAsFQDN: true",
                &[
                    "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN \
                     is true",
                    "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is \
                     true",
                ],
            ),
            (
                "another name, too long",
                &long,
                &["spec.hostnameOverride: Too long: may not be more than 64 bytes"],
            ),
            (
                "another name that is none",
                "hostnameOverride: ''",
                &["spec.hostnameOverride: Invalid value: \"\": a lowercase RFC 1123 subdomain..."],
            ),
            ("aliases", "hostAliases: [{ip: 10.0.0.1, hostnames: [a.b, c]}]", &[]),
            (
                "bad aliases",
                "hostAliases: [{hostnames: [A]}]",
                &[
                    "spec.hostAliases[0].ip: Invalid value: \"\": must be a valid IP address, \
                     (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    "spec.hostAliases[0].hostnames[0]: Invalid value: \"A\": a lowercase RFC...",
                ],
            ),
        ],
        with_spec,
    );
}

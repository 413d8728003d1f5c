use super::names::{
    config_key, dns_label, dns_subdomain, dns_subdomain_with_underscore, env_name, header_name,
    is_sysctl_name, label_value, port_name, port_number, qualified_name,
};

type Check = fn(&str) -> Vec<String>;

#[test]
fn valid_names_have_no_errors() {
    let long_label = "a".repeat(63);
    let cases: &[(Check, &[&str])] = &[
        (dns_label, &["a", "1", "a-b", "a--b", &long_label]),
        (dns_subdomain, &["a", "a.b", "1.2.3", "node-1.example.com"]),
        (dns_subdomain_with_underscore, &["_tcp.example", "a_b.c", "a"]),
        (qualified_name, &["a", "A.b_c-1", "example.com/Name", "1"]),
        (label_value, &["", "a", "A.b_c-1"]),
        (port_name, &["http", "a1", "1a", "a-b"]),
        (env_name, &["A", "a.b-c", "1A", "with space", "@!"]),
        (config_key, &["a", "a.b_c-D", ".hidden"]),
        (header_name, &["X-Header", "a1"]),
    ];
    for (check, texts) in cases {
        for text in *texts {
            assert_eq!(check(text), Vec::<String>::new(), "{text:?}");
        }
    }
}

#[test]
fn invalid_names_have_errors() {
    let long_label = "a".repeat(64);
    let long_subdomain = "a".repeat(254);
    let cases: &[(&str, Check, &str, &str)] = &[
        ("label: upper case", dns_label, "A", "a lowercase RFC 1123 label must consist of"),
        ("label: empty", dns_label, "", "regex used for validation is '[a-z0-9]"),
        ("label: dash first", dns_label, "-a", "(e.g. 'my-name',  or '123-abc', regex"),
        ("label: dash last", dns_label, "a-", "lowercase RFC 1123 label"),
        ("label: dots", dns_label, "a.b", "must not contain dots"),
        ("label: long", dns_label, &long_label, "must be no more than 63 characters"),
        ("label: not ascii", dns_label, "ä", "lowercase RFC 1123 label"),
        ("subdomain: two dots", dns_subdomain, "a..b", "lowercase RFC 1123 subdomain"),
        ("subdomain: slash", dns_subdomain, "a/b", "(e.g. 'example.com', regex used"),
        ("subdomain: long", dns_subdomain, &long_subdomain, "no more than 253 characters"),
        ("search: star", dns_subdomain_with_underscore, "*.a", "'_', '-' or '.'"),
        ("search: only underscore", dns_subdomain_with_underscore, "_", "'_', '-' or '.'"),
        ("key: empty", qualified_name, "", "name part must be non-empty"),
        ("key: empty prefix", qualified_name, "/a", "prefix part must be non-empty"),
        ("key: bad prefix", qualified_name, "A/a", "prefix part a lowercase RFC 1123 subdomain"),
        ("key: two slashes", qualified_name, "a/b/c", "a valid label key must consist of"),
        ("key: long name", qualified_name, &long_label, "name part must be no more than 63 bytes"),
        ("key: space", qualified_name, "a b", "name part must consist of alphanumeric"),
        ("label value: long", label_value, &long_label, "must be no more than 63 bytes"),
        ("label value: dash first", label_value, "-a", "a valid label must be an empty string"),
        ("port name: empty", port_name, "", "must contain only alpha-numeric"),
        ("port name: upper case", port_name, "A", "must contain only alpha-numeric"),
        ("port name: digits", port_name, "80", "must contain at least one letter"),
        ("port name: two dashes", port_name, "a--b", "must not contain consecutive hyphens"),
        ("port name: dash last", port_name, "a-", "must not begin or end with a hyphen"),
        ("port name: long", port_name, "abcdefghijklmnop", "no more than 15 characters"),
        ("env: empty", env_name, "", "environment variable name must be non-empty"),
        ("env: equals", env_name, "A=B", "printable ASCII characters other than '='"),
        ("env: tab", env_name, "A\tB", "printable ASCII"),
        ("env: not ascii", env_name, "Ä", "printable ASCII"),
        ("config key: slash", config_key, "a/b", "a valid config key must consist of"),
        ("config key: dot", config_key, ".", "must not be '.'"),
        ("config key: two dots", config_key, "..", "must not be '..'"),
        ("config key: two dots first", config_key, "..a", "must not start with '..'"),
        ("header: colon", header_name, "a:", "a valid HTTP header must consist of"),
        ("header: empty", header_name, "", "a valid HTTP header"),
    ];
    for (rule, check, text, expected) in cases {
        let wrong = check(text);
        assert!(wrong.iter().any(|w| w.contains(expected)), "{rule}: {wrong:?}");
    }
}

#[test]
fn port_numbers_are_one_to_65535() {
    for good in [1, 80, 65535] {
        assert!(port_number(good).is_empty(), "{good}");
    }
    for bad in [0, -1, 65536, i32::MAX] {
        assert_eq!(port_number(bad), ["must be between 1 and 65535, inclusive"], "{bad}");
    }
}

#[test]
fn sysctl_names_have_dots_or_slashes() {
    for good in ["kernel.shm_rmid_forced", "net/ipv4/tcp_syncookies", "a", "net.ipv4.conf.eth0-1.x"]
    {
        assert!(is_sysctl_name(good), "{good}");
    }
    for bad in ["", ".a", "a.", "a..b", "A", "a_", "kernel.*", "a b"] {
        assert!(!is_sysctl_name(bad), "{bad}");
    }
}

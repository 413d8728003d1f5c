use super::*;

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn found(on_interfaces: &[&str], of_name: &[&str], by_default_route: &[&str]) -> FoundAddresses {
    FoundAddresses {
        on_interfaces: ips(on_interfaces),
        of_name: ips(of_name),
        by_default_route: ips(by_default_route),
    }
}

type Texts = &'static [&'static str];
/// `--node-ip`, the hostname, the addresses that the node's name resolves to; the addresses, or the error.
type Row = (Texts, &'static str, Texts, Result<Texts, &'static str>);

// behaviour: NODE-13
#[test]
fn addresses_are_configured_or_detected_in_order() {
    const MINE: &[&str] = &["127.0.0.1", "10.0.0.1", "10.0.0.2", "fd00::1", "fe80::1"];
    let routes: &[&str] = &["10.0.0.1", "fd00::1"];
    let rows: [Row; 13] = [
        (&["10.0.0.2"], "n", &[], Ok(&["10.0.0.2"])),
        (&["10.0.0.2", "fd00::1"], "n", &[], Ok(&["10.0.0.2", "fd00::1"])),
        (&["10.0.0.9"], "n", &[], Err("not found in the host's network interfaces")),
        (&["127.0.0.1"], "n", &[], Err("can't be loopback")),
        (&["fe80::1"], "n", &[], Err("can't be a link-local")),
        (&["224.0.0.1"], "n", &[], Err("can't be a multicast")),
        (&["10.0.0.1", "fd00::9"], "n", &[], Err("failed to validate secondaryNodeIP")),
        (&[], "192.0.2.1", &["10.0.0.2"], Ok(&["192.0.2.1"])),
        (&[], "n", &["127.0.0.1", "fd00::1", "10.0.0.2"], Ok(&["10.0.0.2"])),
        (&[], "n", &["fd00::1"], Ok(&["fd00::1"])),
        (&[], "n", &["127.0.0.1", "10.9.9.9"], Ok(&["10.0.0.1"])),
        (&["::"], "n", &["10.0.0.2", "fd00::1"], Ok(&["fd00::1"])),
        (&["::"], "n", &[], Ok(&["fd00::1"])),
    ];
    for (requested, hostname, of_name, expected) in rows {
        let outcome = addresses(&ips(requested), hostname, &found(MINE, of_name, routes));
        match (outcome, expected) {
            (Ok(all), Ok(expected)) => {
                let (last, own) = all.split_last().unwrap();
                assert_eq!((last.type_.as_str(), last.address.as_str()), ("Hostname", hostname));
                assert!(own.iter().all(|one| one.type_ == "InternalIP"));
                let own: Vec<&str> = own.iter().map(|one| one.address.as_str()).collect();
                assert_eq!(own, expected, "{requested:?} {of_name:?}");
            }
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (outcome, expected) => panic!("{requested:?}: {outcome:?}, not {expected:?}"),
        }
    }
    assert!(addresses(&[], "n", &found(MINE, &[], &[])).is_err());
}

// behaviour: NODE-39
#[test]
fn host_ips_are_internal_addresses_or_else_external_ones() {
    let rows: [(&[(&str, &str)], Texts); 7] = [
        (&[], &[]),
        (&[("Hostname", "n"), ("InternalDNS", "10.0.0.1"), ("InternalIP", "n")], &[]),
        (&[("Hostname", "n"), ("InternalIP", "10.0.0.1")], &["10.0.0.1"]),
        (&[("ExternalIP", "192.0.2.1"), ("InternalIP", "10.0.0.1")], &["10.0.0.1"]),
        (&[("ExternalIP", "192.0.2.1")], &["192.0.2.1"]),
        (&[("ExternalIP", "fd00::1"), ("InternalIP", "10.0.0.1")], &["10.0.0.1", "fd00::1"]),
        (
            &[("InternalIP", "fd00::1"), ("InternalIP", "fd00::2"), ("InternalIP", "10.0.0.1")],
            &["fd00::1", "10.0.0.1"],
        ),
    ];
    for (listed, expected) in rows {
        let listed: Vec<NodeAddress> =
            listed.iter().map(|(kind, text)| address(kind, text)).collect();
        assert_eq!(host_ips(&listed), ips(expected), "{listed:?}");
    }
}

// behaviour: NODE-39
#[test]
fn detected_addresses_are_used_while_the_node_object_has_none() {
    let (one, other) = ([address("InternalIP", "10.0.0.1")], [address("InternalIP", "10.0.0.2")]);
    let name = [address("Hostname", "n")];
    assert_eq!(first_known(Some(&one), Some(&other)), Some(ips(&["10.0.0.1"])));
    for published in [None, Some(&[] as &[NodeAddress]), Some(&name)] {
        assert_eq!(first_known(published, Some(&other)), Some(ips(&["10.0.0.2"])));
        assert_eq!(first_known(published, Some(&[])), None);
        assert_eq!(first_known(published, None), None);
    }
}

#[test]
fn name_is_looked_up_only_without_another_address() {
    for (requested, hostname, looked_up) in [
        (vec![], "n", true),
        (ips(&["0.0.0.0"]), "n", true),
        (ips(&["10.0.0.1"]), "n", false),
        (vec![], "10.0.0.1", false),
    ] {
        assert_eq!(needs_lookup(&requested, hostname), looked_up, "{requested:?} {hostname}");
    }
    assert_eq!(provided_node_ip(&ips(&["10.0.0.1", "fd00::1"])).unwrap(), "10.0.0.1,fd00::1");
    assert_eq!(provided_node_ip(&ips(&["::"])), None);
    assert_eq!(provided_node_ip(&[]), None);
}

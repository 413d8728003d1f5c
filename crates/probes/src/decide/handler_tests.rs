use k8s_openapi::api::core::v1::{
    ContainerPort, EnvVar, EnvVarSource, ExecAction, GRPCAction, HTTPHeader, TCPSocketAction,
};

use super::*;

fn container() -> Container {
    let port = |name: &str, number| ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        ..ContainerPort::default()
    };
    let literal = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let referred = EnvVar {
        name: "SECRET".to_owned(),
        value: None,
        value_from: Some(EnvVarSource::default()),
    };
    Container {
        name: "main".to_owned(),
        ports: Some(vec![port("web", 8080), port("wrong", 70_000)]),
        env: Some(vec![literal("FILE", "/tmp/ok"), referred]),
        ..Container::default()
    }
}

fn requested_by(probe: &Probe) -> Result<ProbeRequest, String> {
    request(probe, &container(), "web_default", "10.0.0.7")
}

fn tcp(host: Option<&str>, port: IntOrString) -> Probe {
    let tcp_socket = Some(TCPSocketAction { host: host.map(str::to_owned), port });
    Probe { tcp_socket, ..Probe::default() }
}

fn http(http: HTTPGetAction) -> HttpProbe {
    match requested_by(&Probe { http_get: Some(http), ..Probe::default() }) {
        Ok(ProbeRequest::Network(NetworkProbe::Http(http))) => http,
        other => panic!("{other:?}"),
    }
}

fn name(text: &str) -> IntOrString {
    IntOrString::String(text.to_owned())
}

// behaviour: PRB-18
#[test]
fn ports_are_numbers_or_names_of_ports() {
    let rows = [
        (IntOrString::Int(80), Ok(80)),
        (name("web"), Ok(8080)),
        (name("81"), Ok(81)),
        (IntOrString::Int(0), Err("invalid port number: 0")),
        (IntOrString::Int(65_536), Err("invalid port number: 65536")),
        (name("wrong"), Err("invalid port number: 70000")),
        (name("no"), Err("strconv.Atoi: parsing \"no\": invalid syntax")),
    ];
    for (port, expected) in rows {
        let request = requested_by(&tcp(None, port.clone()));
        let expected = expected
            .map(|port| {
                let host = "10.0.0.7".to_owned();
                ProbeRequest::Network(NetworkProbe::Tcp(TcpProbe { host, port }))
            })
            .map_err(str::to_owned);
        assert_eq!(request, expected, "{port:?}");
    }
}

// behaviour: PRB-19
#[test]
fn url_has_scheme_host_port_and_path() {
    let rows = [
        (None, None, None, "http://10.0.0.7:8080/"),
        (Some("HTTPS"), None, Some("/ok?a=b"), "https://10.0.0.7:8080/ok?a=b"),
        (Some("HTTP"), Some("::1"), Some("ok"), "http://[::1]:8080/ok"),
        (None, Some("local"), Some("/a b"), "http://local:8080/a%20b"),
        (None, Some(""), None, "http://10.0.0.7:8080/"),
    ];
    for (scheme, host, path, url) in rows {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let action = HTTPGetAction {
            scheme: text(scheme),
            host: text(host),
            path: text(path),
            port: name("web"),
            http_headers: None,
        };
        assert_eq!(http(action).url, url);
    }
}

#[test]
fn headers_keep_their_order_and_defaults_are_added() {
    type Headers = &'static [(&'static str, &'static str)];
    let rows: [(Headers, Headers); 4] = [
        (&[], &[("User-Agent", "kube-probe/1.36"), ("Accept", "*/*")]),
        (
            &[("X", "1"), ("x", "2"), ("Host", "h")],
            &[
                ("X", "1"),
                ("x", "2"),
                ("Host", "h"),
                ("User-Agent", "kube-probe/1.36"),
                ("Accept", "*/*"),
            ],
        ),
        (&[("user-agent", "me"), ("accept", "a/b")], &[("user-agent", "me"), ("accept", "a/b")]),
        (&[("User-Agent", ""), ("Accept", ""), ("X", "")], &[("X", "")]),
    ];
    for (given, expected) in rows {
        let header = |(name, value): &(&str, &str)| HTTPHeader {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        };
        let action = HTTPGetAction {
            port: IntOrString::Int(80),
            http_headers: Some(given.iter().map(header).collect()),
            ..HTTPGetAction::default()
        };
        let headers = http(action).headers;
        let shown: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(shown, expected);
    }
}

// behaviour: PRB-20
#[test]
fn command_expands_literal_variables_only() {
    let command = ["cat", "$(FILE)", "$(SECRET)", "$(NO)", "$$(FILE)"].map(str::to_owned);
    let exec = Some(ExecAction { command: Some(command.to_vec()) });
    let request = requested_by(&Probe { exec, ..Probe::default() });
    let words = ["cat", "/tmp/ok", "$(SECRET)", "$(NO)", "$(FILE)"].map(str::to_owned);
    assert_eq!(request, Ok(ProbeRequest::Exec(words.to_vec())));
}

#[test]
fn first_handler_in_upstreams_order_counts() {
    let grpc = Some(GRPCAction { port: 90, service: Some("s".to_owned()) });
    let only_grpc = Probe { grpc: grpc.clone(), ..Probe::default() };
    let expected = GrpcProbe { host: "10.0.0.7".to_owned(), port: 90, service: "s".to_owned() };
    let expected = ProbeRequest::Network(NetworkProbe::Grpc(expected));
    assert_eq!(requested_by(&only_grpc), Ok(expected));
    let both = Probe { grpc, ..tcp(None, IntOrString::Int(80)) };
    assert!(matches!(requested_by(&both), Ok(ProbeRequest::Network(NetworkProbe::Tcp(_)))));
    let none = requested_by(&Probe::default());
    assert_eq!(none, Err("missing probe handler for web_default:main".to_owned()));
}

#[test]
fn pod_ip_is_needed_unless_a_host_is_given() {
    let exec = Probe { exec: Some(ExecAction::default()), ..Probe::default() };
    let grpc = Probe { grpc: Some(GRPCAction::default()), ..Probe::default() };
    let rows = [
        (exec, false),
        (tcp(None, IntOrString::Int(80)), true),
        (tcp(Some(""), IntOrString::Int(80)), true),
        (tcp(Some("local"), IntOrString::Int(80)), false),
        (grpc, true),
    ];
    for (probe, needs) in rows {
        assert_eq!(needs_pod_ip(&probe), needs, "{probe:?}");
    }
}

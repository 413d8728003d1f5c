//! Sandboxes: requests and decoded responses.

use jiff::Timestamp;
use model::ids::PodName;
use model::observed::{Sandbox, SandboxState, SandboxStatus};
use model::ports::runtime::{Code, SandboxFilter, SandboxService};
use model::verdict::Subject;
use model::wanted::NamespaceMode;
use proto::runtime_v1 as cri;

use crate::server::Server;
use crate::wanted::{map, sandbox_config, sent_namespaces, sent_resources, sent_selinux, verdict};

fn metadata() -> cri::PodSandboxMetadata {
    cri::PodSandboxMetadata {
        name: "web".into(),
        uid: "uid-1".into(),
        namespace: "shop".into(),
        attempt: 3,
    }
}

fn listed(id: &str, state: cri::PodSandboxState) -> cri::PodSandbox {
    cri::PodSandbox {
        id: id.into(),
        metadata: Some(metadata()),
        state: state.into(),
        created_at: 1_000_000_007,
        ..cri::PodSandbox::default()
    }
}

fn status() -> cri::PodSandboxStatus {
    cri::PodSandboxStatus {
        id: "s1".into(),
        metadata: Some(metadata()),
        state: cri::PodSandboxState::SandboxReady.into(),
        created_at: 1_000_000_007,
        ..cri::PodSandboxStatus::default()
    }
}

fn network(ip: &str, additional: &[&str]) -> cri::PodSandboxNetworkStatus {
    let additional = additional.iter().map(|ip| cri::PodIp { ip: (*ip).into() });
    cri::PodSandboxNetworkStatus { ip: ip.into(), additional_ips: additional.collect() }
}

fn namespaces(network: cri::NamespaceMode) -> cri::LinuxPodSandboxStatus {
    let options = cri::NamespaceOption { network: network.into(), ..Default::default() };
    cri::LinuxPodSandboxStatus { namespaces: Some(cri::Namespace { options: Some(options) }) }
}

/// The decoded status of the sandbox.
async fn seen(status: cri::PodSandboxStatus) -> SandboxStatus {
    let server = Server::running();
    let answer = cri::PodSandboxStatusResponse { status: Some(status), ..Default::default() };
    server.answer("PodSandboxStatus", &answer);
    server.client().pod_sandbox_status(&"s1".into()).await.unwrap()
}

#[tokio::test]
async fn run_pod_sandbox_sends_the_configuration() {
    let server = Server::running();
    let answer = cri::RunPodSandboxResponse { pod_sandbox_id: "s1".into() };
    server.answer("RunPodSandbox", &answer);
    let id = server.client().run_pod_sandbox(&sandbox_config()).await.unwrap();
    assert_eq!(id, "s1".into());

    let security_context = cri::LinuxSandboxSecurityContext {
        namespace_options: Some(sent_namespaces()),
        privileged: true,
        run_as_user: Some(cri::Int64Value { value: 1 }),
        run_as_group: Some(cri::Int64Value { value: 2 }),
        supplemental_groups: vec![3, 4],
        supplemental_groups_policy: cri::SupplementalGroupsPolicy::Strict.into(),
        selinux_options: Some(sent_selinux("sandbox")),
        seccomp: Some(cri::SecurityProfile {
            profile_type: cri::security_profile::ProfileType::RuntimeDefault.into(),
            localhost_ref: String::new(),
        }),
        ..Default::default()
    };
    let config = cri::PodSandboxConfig {
        metadata: Some(metadata()),
        hostname: "web-host".into(),
        log_directory: "/var/log/pods/shop_web_uid-1".into(),
        labels: map(&[("tier", "front")]),
        annotations: map(&[("note", "a")]),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: "/kubepods/poduid-1".into(),
            security_context: Some(security_context),
            sysctls: map(&[("kernel.sem", "5")]),
            resources: Some(sent_resources(100)),
            overhead: Some(sent_resources(200)),
        }),
        dns_config: Some(cri::DnsConfig {
            servers: vec!["10.0.0.10".into()],
            searches: vec!["cluster.local".into()],
            options: vec!["ndots:5".into()],
        }),
        port_mappings: vec![cri::PortMapping {
            protocol: cri::Protocol::Udp.into(),
            container_port: 53,
            host_port: 5353,
            host_ip: "127.0.0.1".into(),
        }],
    };
    let request: cri::RunPodSandboxRequest = server.only_request("RunPodSandbox");
    assert_eq!(request.config, Some(config));
    assert_eq!(request.runtime_handler, "kata");
}

#[tokio::test]
async fn sandbox_namespaces_are_sent_by_kind() {
    use NamespaceMode::{Container, Node, Pod};
    for (network, pid, ipc) in [(Node, Pod, Container), (Container, Node, Pod)] {
        let server = Server::running();
        let answer = cri::RunPodSandboxResponse { pod_sandbox_id: "s1".into() };
        server.answer("RunPodSandbox", &answer);
        let mut config = sandbox_config();
        (config.network, config.pid, config.ipc) = (network, pid, ipc);
        server.client().run_pod_sandbox(&config).await.unwrap();
        let request: cri::RunPodSandboxRequest = server.only_request("RunPodSandbox");
        let context = request.config.unwrap().linux.unwrap().security_context.unwrap();
        let sent = context.namespace_options.unwrap();
        let wire = |mode| match mode {
            Pod => cri::NamespaceMode::Pod,
            Container => cri::NamespaceMode::Container,
            Node => cri::NamespaceMode::Node,
        };
        assert_eq!(sent.network(), wire(network));
        assert_eq!(sent.pid(), wire(pid));
        assert_eq!(sent.ipc(), wire(ipc));
    }
}

#[tokio::test]
async fn run_pod_sandbox_without_an_id_is_an_error() {
    let server = Server::running();
    server.answer("RunPodSandbox", &cri::RunPodSandboxResponse::default());
    let error = server.client().run_pod_sandbox(&sandbox_config()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "RunPodSandbox shop/web: DataLoss: the runtime's answer has no sandbox id"
    );
}

#[tokio::test]
async fn stop_pod_sandbox_sends_the_id() {
    let server = Server::running();
    server.answer("StopPodSandbox", &cri::StopPodSandboxResponse {});
    server.client().stop_pod_sandbox(&"s1".into()).await.unwrap();
    let request: cri::StopPodSandboxRequest = server.only_request("StopPodSandbox");
    assert_eq!(request.pod_sandbox_id, "s1");
}

#[tokio::test]
async fn remove_pod_sandbox_sends_the_id_of_the_verdict() {
    let server = Server::running();
    server.answer("RemovePodSandbox", &cri::RemovePodSandboxResponse {});
    let verdict = verdict(Subject::Sandbox("s1".into()));
    server.client().remove_pod_sandbox(&verdict).await.unwrap();
    let request: cri::RemovePodSandboxRequest = server.only_request("RemovePodSandbox");
    assert_eq!(request.pod_sandbox_id, "s1");
}

#[tokio::test]
async fn listed_sandboxes_without_id_or_name_are_skipped() {
    let server = Server::running();
    let ready = cri::PodSandboxState::SandboxReady;
    let items = vec![
        listed("s1", ready),
        cri::PodSandbox { metadata: None, ..listed("s2", ready) },
        listed("", ready),
        listed("s5", cri::PodSandboxState::SandboxNotready),
    ];
    server.answer("ListPodSandbox", &cri::ListPodSandboxResponse { items });
    let list = server.client().list_pod_sandboxes(&SandboxFilter::default()).await.unwrap();
    let expected = |id: &str, state| Sandbox {
        id: id.into(),
        pod_uid: "uid-1".into(),
        pod: PodName::new("shop", "web"),
        attempt: 3,
        state,
        created_at: Timestamp::new(1, 7).unwrap(),
    };
    assert_eq!(list, [expected("s1", SandboxState::Ready), expected("s5", SandboxState::NotReady)]);
}

#[tokio::test]
async fn sandbox_without_a_uid_has_an_empty_pod_uid() {
    let server = Server::running();
    let ready = cri::PodSandboxState::SandboxReady;
    let no_uid = || cri::PodSandboxMetadata { uid: String::new(), ..metadata() };
    let bare = cri::PodSandbox { metadata: Some(no_uid()), ..listed("s2", ready) };
    let items = vec![listed("s1", ready), bare];
    server.answer("ListPodSandbox", &cri::ListPodSandboxResponse { items });
    let client = server.client();
    let list = client.list_pod_sandboxes(&SandboxFilter::default()).await.unwrap();
    let whose: Vec<&str> = list.iter().map(|sandbox| sandbox.pod_uid.as_str()).collect();
    assert_eq!(whose, ["uid-1", ""]);
    let filter = SandboxFilter { pod_uid: Some("".into()), ..SandboxFilter::default() };
    let list = client.list_pod_sandboxes(&filter).await.unwrap();
    let ids: Vec<&str> = list.iter().map(|sandbox| sandbox.id.as_str()).collect();
    assert_eq!(ids, ["s2"]);
    let reported = seen(cri::PodSandboxStatus { metadata: Some(no_uid()), ..status() }).await;
    assert!(reported.pod_uid.is_empty());
}

#[tokio::test]
async fn sandbox_filter_selects_by_id_state_and_pod() {
    let state =
        |state: cri::PodSandboxState| Some(cri::PodSandboxStateValue { state: state.into() });
    let of_pod = map(&[("io.kubernetes.pod.uid", "uid-1")]);
    let (all, any) = (SandboxFilter::default(), cri::PodSandboxFilter::default());
    let rows = [
        (all.clone(), any.clone(), "of all pods"),
        (
            SandboxFilter { id: Some("s1".into()), ..all.clone() },
            cri::PodSandboxFilter { id: "s1".into(), ..any.clone() },
            "s1",
        ),
        (
            SandboxFilter { state: Some(SandboxState::Ready), ..all.clone() },
            cri::PodSandboxFilter {
                state: state(cri::PodSandboxState::SandboxReady),
                ..any.clone()
            },
            "of all pods",
        ),
        (
            SandboxFilter {
                state: Some(SandboxState::NotReady),
                pod_uid: Some("uid-1".into()),
                ..all
            },
            cri::PodSandboxFilter {
                state: state(cri::PodSandboxState::SandboxNotready),
                label_selector: of_pod,
                ..any
            },
            "of pod uid-1",
        ),
    ];
    for (filter, expected, object) in rows {
        let server = Server::running();
        let error = server.client().list_pod_sandboxes(&filter).await.unwrap_err();
        let request: cri::ListPodSandboxRequest = server.only_request("ListPodSandbox");
        assert_eq!(request.filter, Some(expected), "{filter:?}");
        assert_eq!(error.object, object, "{filter:?}");
    }
}

#[tokio::test]
async fn sandbox_status_is_decoded() {
    let status = cri::PodSandboxStatus {
        network: Some(network("10.0.0.7", &["fd00::7", "10.1.0.7"])),
        linux: Some(namespaces(cri::NamespaceMode::Pod)),
        annotations: [("io.ferrolet.pod.sizes".into(), "a note".into())].into(),
        ..status()
    };
    let expected = SandboxStatus {
        id: "s1".into(),
        pod_uid: "uid-1".into(),
        pod: PodName::new("shop", "web"),
        attempt: 3,
        state: SandboxState::Ready,
        created_at: Timestamp::new(1, 7).unwrap(),
        ips: ["10.0.0.7", "fd00::7", "10.1.0.7"].map(|ip| ip.parse().unwrap()).to_vec(),
        host_network: false,
        given: Some("a note".into()),
    };
    assert_eq!(seen(status).await, expected);
}

#[tokio::test]
async fn sandbox_status_request_has_the_id() {
    let server = Server::running();
    server.client().pod_sandbox_status(&"s1".into()).await.unwrap_err();
    let request: cri::PodSandboxStatusRequest = server.only_request("PodSandboxStatus");
    assert_eq!(request.pod_sandbox_id, "s1");
    assert!(!request.verbose);
}

#[tokio::test]
async fn invalid_addresses_are_skipped() {
    let rows: [(_, &[&str]); 5] = [
        (None, &[]),
        (Some(network("", &[])), &[]),
        (Some(network("", &["10.1.0.7"])), &["10.1.0.7"]),
        (Some(network("10.0.0.7", &["10.1.0", "", "fd00::7"])), &["10.0.0.7", "fd00::7"]),
        (Some(network("10.0.0.7/24", &["::1%eth0"])), &[]),
    ];
    for (network, expected) in rows {
        let status = cri::PodSandboxStatus { network: network.clone(), ..status() };
        let ips: Vec<String> = seen(status).await.ips.iter().map(ToString::to_string).collect();
        assert_eq!(ips, expected, "{network:?}");
    }
}

#[tokio::test]
async fn only_network_mode_node_is_host_network() {
    let rows = [
        (Some(namespaces(cri::NamespaceMode::Node)), true),
        (Some(namespaces(cri::NamespaceMode::Pod)), false),
        (Some(namespaces(cri::NamespaceMode::Container)), false),
        (Some(cri::LinuxPodSandboxStatus { namespaces: None }), false),
        (None, false),
    ];
    for (linux, expected) in rows {
        let status = cri::PodSandboxStatus { linux: linux.clone(), ..status() };
        assert_eq!(seen(status).await.host_network, expected, "{linux:?}");
    }
}

#[tokio::test]
async fn sandbox_status_without_id_or_name_is_malformed() {
    let rows = [
        None,
        Some(cri::PodSandboxStatus { metadata: None, ..status() }),
        Some(cri::PodSandboxStatus { id: String::new(), ..status() }),
    ];
    for status in rows {
        let server = Server::running();
        let answer = cri::PodSandboxStatusResponse { status, ..Default::default() };
        server.answer("PodSandboxStatus", &answer);
        let error = server.client().pod_sandbox_status(&"s1".into()).await.unwrap_err();
        assert_eq!(error.code, Code::DataLoss, "{answer:?}");
        assert_eq!(error.object, "s1", "{answer:?}");
    }
}

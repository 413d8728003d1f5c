//! Containers: requests and decoded responses.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use model::ids::PodName;
use model::observed::{
    Container, ContainerState, ContainerStatus, ContainerUser, LinuxUser, ReportedResources,
};
use model::ports::runtime::{
    Code, ContainerFilter, ContainerService, ImageService, SandboxService,
};
use model::verdict::Subject;
use model::wanted::{LinuxResources, NamespaceMode};
use proto::runtime_v1 as cri;

use crate::server::Server;
use crate::wanted::{
    container_config, map, pod_labels, sandbox_config, sent_device, sent_mount, sent_namespaces,
    sent_resources, sent_selinux, verdict,
};

fn metadata() -> cri::ContainerMetadata {
    cri::ContainerMetadata { name: "app".into(), attempt: 4 }
}

fn listed(id: &str, state: cri::ContainerState) -> cri::Container {
    cri::Container {
        id: id.into(),
        pod_sandbox_id: "s1".into(),
        metadata: Some(metadata()),
        image_ref: "sha256:beef".into(),
        state: state.into(),
        created_at: 1_000_000_007,
        labels: pod_labels(),
        ..Default::default()
    }
}

fn status() -> cri::ContainerStatus {
    cri::ContainerStatus {
        id: "c1".into(),
        metadata: Some(metadata()),
        state: cri::ContainerState::ContainerExited.into(),
        created_at: 1_000_000_007,
        started_at: 2_000_000_000,
        finished_at: 3_000_000_000,
        exit_code: -7,
        image: Some(cri::ImageSpec {
            image: "sha256:beef".into(),
            user_specified_image: "shop/app:1".into(),
            ..Default::default()
        }),
        image_ref: "shop/app@sha256:cafe".into(),
        reason: "Error".into(),
        message: "it fell".into(),
        labels: pod_labels(),
        annotations: map(&[("note", "b")]),
        log_path: "/var/log/pods/shop_web_uid-1/app/4.log".into(),
        mounts: vec![mount()],
        ..Default::default()
    }
}

fn mount() -> cri::Mount {
    cri::Mount { uid_mappings: Vec::new(), gid_mappings: Vec::new(), ..sent_mount() }
}

/// The decoded status of the container.
async fn seen(status: cri::ContainerStatus) -> ContainerStatus {
    let server = Server::running();
    let answer = cri::ContainerStatusResponse { status: Some(status), ..Default::default() };
    server.answer("ContainerStatus", &answer);
    server.client().container_status(&"c1".into()).await.unwrap()
}

fn without(label: &str) -> BTreeMap<String, String> {
    let mut labels = pod_labels();
    labels.remove(label).unwrap();
    labels
}

#[expect(deprecated, reason = "upstream sends it too")]
fn sent_security() -> cri::LinuxContainerSecurityContext {
    let number = |value| Some(cri::Int64Value { value });
    let profile = |kind: cri::security_profile::ProfileType, path: &str| {
        Some(cri::SecurityProfile { profile_type: kind.into(), localhost_ref: path.into() })
    };
    cri::LinuxContainerSecurityContext {
        capabilities: Some(cri::Capability {
            add_capabilities: vec!["KILL".into()],
            drop_capabilities: vec!["ALL".into()],
            add_ambient_capabilities: vec![],
        }),
        privileged: true,
        namespace_options: Some(sent_namespaces()),
        selinux_options: Some(sent_selinux("container")),
        run_as_user: number(11),
        run_as_username: "www".into(),
        run_as_group: number(12),
        readonly_rootfs: true,
        supplemental_groups: vec![13],
        supplemental_groups_policy: cri::SupplementalGroupsPolicy::Strict.into(),
        no_new_privs: true,
        masked_paths: vec!["/proc/kcore".into()],
        readonly_paths: vec!["/proc/sys".into()],
        seccomp: profile(cri::security_profile::ProfileType::Localhost, "/seccomp/a.json"),
        apparmor: profile(cri::security_profile::ProfileType::Unconfined, ""),
        apparmor_profile: "unconfined".into(),
    }
}

#[tokio::test]
async fn create_container_sends_the_configuration() {
    let server = Server::running();
    let answer = cri::CreateContainerResponse { container_id: "c1".into() };
    server.answer("CreateContainer", &answer);
    let (config, sandbox) = (container_config(), sandbox_config());
    let id = server.client().create_container(&"s1".into(), &config, &sandbox).await.unwrap();
    assert_eq!(id, "c1".into());

    let env = |key: &str, value: &[u8]| cri::KeyValue { key: key.into(), value: value.into() };
    let expected = cri::ContainerConfig {
        metadata: Some(metadata()),
        image: Some(cri::ImageSpec {
            image: "sha256:beef".into(),
            user_specified_image: "shop/app:1".into(),
            ..Default::default()
        }),
        command: vec!["/bin/app".into(), "serve".into()],
        args: vec!["--port".into(), "80".into()],
        working_dir: "/srv".into(),
        envs: vec![env("B", b"2"), env("A", b"\xc3\xb6")],
        labels: map(&[("tier", "inner")]),
        annotations: map(&[("note", "b")]),
        log_path: "app/4.log".into(),
        stdin: true,
        stdin_once: false,
        tty: true,
        stop_signal: cri::Signal::Sigusr1.into(),
        linux: Some(cri::LinuxContainerConfig {
            security_context: Some(sent_security()),
            resources: Some(sent_resources(300)),
        }),
        mounts: vec![sent_mount()],
        devices: vec![sent_device()],
        ..Default::default()
    };
    let request: cri::CreateContainerRequest = server.only_request("CreateContainer");
    assert_eq!(request.pod_sandbox_id, "s1");
    assert_eq!(request.config, Some(expected));
}

#[tokio::test]
async fn create_container_sends_the_sandbox_configuration() {
    let server = Server::running();
    let client = server.client();
    let (config, sandbox) = (container_config(), sandbox_config());
    client.create_container(&"s1".into(), &config, &sandbox).await.unwrap_err();
    let reported: cri::CreateContainerRequest = server.only_request("CreateContainer");

    let server = Server::running();
    server.client().run_pod_sandbox(&sandbox).await.unwrap_err();
    let made: cri::RunPodSandboxRequest = server.only_request("RunPodSandbox");
    assert!(made.config.is_some());
    assert_eq!(reported.sandbox_config, made.config);
}

#[tokio::test]
async fn container_shares_network_and_ipc_and_chooses_its_pid_namespace() {
    let server = Server::running();
    let (mut config, mut sandbox) = (container_config(), sandbox_config());
    config.pid = NamespaceMode::Node;
    sandbox.pid = NamespaceMode::Pod;
    sandbox.network = NamespaceMode::Node;
    sandbox.ipc = NamespaceMode::Pod;
    let client = server.client();
    client.create_container(&"s1".into(), &config, &sandbox).await.unwrap_err();
    let request: cri::CreateContainerRequest = server.only_request("CreateContainer");
    let context = request.config.unwrap().linux.unwrap().security_context.unwrap();
    let sent = context.namespace_options.unwrap();
    assert_eq!(sent.pid(), cri::NamespaceMode::Node);
    assert_eq!(sent.network(), cri::NamespaceMode::Node);
    assert_eq!(sent.ipc(), cri::NamespaceMode::Pod);
}

// behaviour: ACT-76
#[tokio::test]
async fn ephemeral_container_joins_the_pid_namespace_of_its_target() {
    let server = Server::running();
    let mut config = container_config();
    config.pid_target = Some("c7".into());
    let client = server.client();
    client.create_container(&"s1".into(), &config, &sandbox_config()).await.unwrap_err();
    let request: cri::CreateContainerRequest = server.only_request("CreateContainer");
    let context = request.config.unwrap().linux.unwrap().security_context.unwrap();
    let sent = context.namespace_options.unwrap();
    assert_eq!((sent.pid(), sent.target_id.as_str()), (cri::NamespaceMode::Target, "c7"));
}

#[tokio::test]
async fn create_container_without_an_id_is_an_error() {
    let server = Server::running();
    server.answer("CreateContainer", &cri::CreateContainerResponse::default());
    let (config, sandbox) = (container_config(), sandbox_config());
    let made = server.client().create_container(&"s1".into(), &config, &sandbox).await;
    assert_eq!(
        made.unwrap_err().to_string(),
        "CreateContainer app of shop/web: DataLoss: the runtime's answer has no container id"
    );
}

#[tokio::test]
async fn start_container_sends_the_id() {
    let server = Server::running();
    server.answer("StartContainer", &cri::StartContainerResponse {});
    server.client().start_container(&"c1".into()).await.unwrap();
    let request: cri::StartContainerRequest = server.only_request("StartContainer");
    assert_eq!(request.container_id, "c1");
}

#[tokio::test]
async fn stop_container_sends_the_grace_period_rounded_up() {
    let rows = [
        (Duration::ZERO, 0),
        (Duration::from_secs(30), 30),
        (Duration::from_millis(1), 1),
        (Duration::from_millis(2500), 3),
        (Duration::MAX, i64::MAX),
    ];
    for (grace, seconds) in rows {
        let server = Server::running();
        server.answer("StopContainer", &cri::StopContainerResponse {});
        server.client().stop_container(&"c1".into(), grace).await.unwrap();
        let request: cri::StopContainerRequest = server.only_request("StopContainer");
        assert_eq!(request.container_id, "c1");
        assert_eq!(request.timeout, seconds, "{grace:?}");
    }
}

#[tokio::test]
async fn remove_container_sends_the_id_of_the_verdict() {
    let server = Server::running();
    server.answer("RemoveContainer", &cri::RemoveContainerResponse {});
    let verdict = verdict(Subject::Container("c1".into()));
    server.client().remove_container(&verdict).await.unwrap();
    let request: cri::RemoveContainerRequest = server.only_request("RemoveContainer");
    assert_eq!(request.container_id, "c1");
}

#[tokio::test]
async fn listed_containers_have_their_states() {
    let server = Server::running();
    let containers = vec![
        listed("c1", cri::ContainerState::ContainerCreated),
        listed("c2", cri::ContainerState::ContainerRunning),
        listed("c3", cri::ContainerState::ContainerExited),
        listed("c4", cri::ContainerState::ContainerUnknown),
    ];
    server.answer("ListContainers", &cri::ListContainersResponse { containers });
    let list = server.client().list_containers(&ContainerFilter::default()).await.unwrap();
    let expected = |id: &str, state| Container {
        id: id.into(),
        sandbox_id: "s1".into(),
        pod_uid: "uid-1".into(),
        pod: PodName::new("shop", "web"),
        name: "app".into(),
        attempt: 4,
        state,
        created_at: Timestamp::new(1, 7).unwrap(),
        image_ref: "sha256:beef".into(),
    };
    let expected = [
        expected("c1", ContainerState::Created),
        expected("c2", ContainerState::Running),
        expected("c3", ContainerState::Exited),
        expected("c4", ContainerState::Unknown),
    ];
    assert_eq!(list, expected);
}

#[tokio::test]
async fn listed_containers_without_id_or_name_are_skipped() {
    let server = Server::running();
    let running = cri::ContainerState::ContainerRunning;
    let containers = vec![
        cri::Container { metadata: None, ..listed("c1", running) },
        listed("", running),
        listed("c3", running),
    ];
    server.answer("ListContainers", &cri::ListContainersResponse { containers });
    let list = server.client().list_containers(&ContainerFilter::default()).await.unwrap();
    let ids: Vec<&str> = list.iter().map(|container| container.id.as_str()).collect();
    assert_eq!(ids, ["c3"]);
}

// behaviour: GC-29
#[tokio::test]
async fn container_without_pod_labels_has_an_empty_pod_uid() {
    let running = cri::ContainerState::ContainerRunning;
    let mut no_uid = pod_labels();
    no_uid.insert("io.kubernetes.pod.uid".into(), String::new());
    let rows = [
        (pod_labels(), "uid-1", "shop", "web"),
        (without("io.kubernetes.pod.uid"), "", "shop", "web"),
        (without("io.kubernetes.pod.name"), "uid-1", "shop", ""),
        (without("io.kubernetes.pod.namespace"), "uid-1", "", "web"),
        (no_uid, "", "shop", "web"),
        (BTreeMap::new(), "", "", ""),
    ];
    let server = Server::running();
    let labelled = rows.iter().enumerate().map(|(number, (labels, ..))| cri::Container {
        labels: labels.clone(),
        ..listed(&format!("c{number}"), running)
    });
    let containers = labelled.collect();
    server.answer("ListContainers", &cri::ListContainersResponse { containers });
    let client = server.client();
    let list = client.list_containers(&ContainerFilter::default()).await.unwrap();
    assert_eq!(list.len(), rows.len());
    for (container, (labels, uid, namespace, name)) in list.iter().zip(rows) {
        assert_eq!(container.pod_uid.as_str(), uid, "{labels:?}");
        assert_eq!(container.pod, PodName::new(namespace, name), "{labels:?}");
        assert_eq!((&*container.name, container.sandbox_id.as_str()), ("app", "s1"));
    }
    let filter = ContainerFilter { pod_uid: Some("".into()), ..ContainerFilter::default() };
    let of_no_pod = client.list_containers(&filter).await.unwrap();
    let ids: Vec<&str> = of_no_pod.iter().map(|container| container.id.as_str()).collect();
    assert_eq!(ids, ["c1", "c4", "c5"]);
    let uses = client.list_image_uses(&filter).await.unwrap();
    let ids: Vec<&str> = uses.iter().map(|one| one.container.as_str()).collect();
    assert_eq!(ids, ["c1", "c4", "c5"]);
}

#[tokio::test]
async fn container_filter_selects_by_id_sandbox_and_pod() {
    let (all, any) = (ContainerFilter::default(), cri::ContainerFilter::default());
    let rows = [
        (all.clone(), any.clone(), "of all pods"),
        (
            ContainerFilter { id: Some("c1".into()), ..all.clone() },
            cri::ContainerFilter { id: "c1".into(), ..any.clone() },
            "c1",
        ),
        (
            ContainerFilter { sandbox_id: Some("s1".into()), ..all.clone() },
            cri::ContainerFilter { pod_sandbox_id: "s1".into(), ..any.clone() },
            "of all pods",
        ),
        (
            ContainerFilter { pod_uid: Some("uid-1".into()), ..all },
            cri::ContainerFilter {
                label_selector: map(&[("io.kubernetes.pod.uid", "uid-1")]),
                ..any
            },
            "of pod uid-1",
        ),
        (
            ContainerFilter { pod_uid: Some("".into()), ..ContainerFilter::default() },
            cri::ContainerFilter::default(),
            "of no pod",
        ),
    ];
    for (filter, expected, object) in rows {
        let server = Server::running();
        let error = server.client().list_containers(&filter).await.unwrap_err();
        let request: cri::ListContainersRequest = server.only_request("ListContainers");
        assert_eq!(request.filter, Some(expected), "{filter:?}");
        assert_eq!(error.object, object, "{filter:?}");
    }
}

#[tokio::test]
async fn container_filter_selects_by_state() {
    let rows = [
        (ContainerState::Created, cri::ContainerState::ContainerCreated),
        (ContainerState::Running, cri::ContainerState::ContainerRunning),
        (ContainerState::Exited, cri::ContainerState::ContainerExited),
        (ContainerState::Unknown, cri::ContainerState::ContainerUnknown),
    ];
    for (state, expected) in rows {
        let server = Server::running();
        let filter = ContainerFilter { state: Some(state), ..Default::default() };
        server.client().list_containers(&filter).await.unwrap_err();
        let request: cri::ListContainersRequest = server.only_request("ListContainers");
        let value = cri::ContainerStateValue { state: expected.into() };
        assert_eq!(request.filter.unwrap().state, Some(value));
    }
}

#[tokio::test]
async fn container_status_is_decoded() {
    let expected = ContainerStatus {
        id: "c1".into(),
        sandbox_id: "".into(),
        name: "app".into(),
        state: ContainerState::Exited,
        created_at: Timestamp::new(1, 7).unwrap(),
        started_at: Some(Timestamp::from_second(2).unwrap()),
        finished_at: Some(Timestamp::from_second(3).unwrap()),
        exit_code: -7,
        image: "shop/app:1".into(),
        image_ref: "shop/app@sha256:cafe".into(),
        reason: "Error".into(),
        message: "it fell".into(),
        log_path: "/var/log/pods/shop_web_uid-1/app/4.log".into(),
        annotations: map(&[("note", "b")]),
        mounts: container_config().mounts,
        resources: None,
        user: None,
        stop_signal: None,
    };
    assert_eq!(seen(status()).await, expected);
}

// behaviour: STW-40, STW-41
#[tokio::test]
async fn reported_user_and_stop_signal_are_decoded() {
    let linux = cri::LinuxContainerUser { uid: 7, gid: 8, supplemental_groups: vec![9, 8] };
    let status = cri::ContainerStatus {
        user: Some(cri::ContainerUser { linux: Some(linux) }),
        stop_signal: cri::Signal::Sigrtminplus3.into(),
        ..status()
    };
    let reported = seen(status.clone()).await;
    let linux = LinuxUser { uid: 7, gid: 8, supplemental_groups: vec![9, 8] };
    assert_eq!(reported.user.as_deref(), Some(&ContainerUser { linux: Some(linux) }));
    assert_eq!(reported.stop_signal.as_deref(), Some("SIGRTMIN+3"));
    let without_value = cri::ContainerStatus {
        user: Some(cri::ContainerUser { linux: None }),
        stop_signal: 0,
        ..status
    };
    let reported = seen(without_value).await;
    assert_eq!(reported.user.as_deref(), Some(&ContainerUser { linux: None }));
    assert_eq!(reported.stop_signal, None);
}

#[tokio::test]
async fn container_status_request_has_the_id() {
    let server = Server::running();
    server.client().container_status(&"c1".into()).await.unwrap_err();
    let request: cri::ContainerStatusRequest = server.only_request("ContainerStatus");
    assert_eq!(request.container_id, "c1");
    assert!(!request.verbose);
}

#[tokio::test]
async fn zero_times_are_none() {
    let status = cri::ContainerStatus { started_at: 0, finished_at: 0, ..status() };
    let created = seen(status.clone()).await;
    assert_eq!((created.started_at, created.finished_at), (None, None));

    let status = cri::ContainerStatus { started_at: i64::MIN, finished_at: i64::MAX, ..status };
    let extreme = seen(status).await;
    let moment = |nanoseconds: i64| Timestamp::from_nanosecond(nanoseconds.into()).unwrap();
    assert_eq!(extreme.started_at, Some(moment(i64::MIN)));
    assert_eq!(extreme.finished_at, Some(moment(i64::MAX)));
}

#[tokio::test]
async fn missing_user_image_falls_back_to_the_image() {
    let image = cri::ImageSpec { image: "docker.io/shop/app:1".into(), ..Default::default() };
    let reported = seen(cri::ContainerStatus { image: Some(image), ..status() }).await;
    assert_eq!(&*reported.image, "docker.io/shop/app:1");
    let without_value = seen(cri::ContainerStatus { image: None, ..status() }).await;
    assert_eq!(&*without_value.image, "");
}

#[tokio::test]
async fn container_status_without_id_or_name_is_malformed() {
    let rows = [
        None,
        Some(cri::ContainerStatus { metadata: None, ..status() }),
        Some(cri::ContainerStatus { id: String::new(), ..status() }),
    ];
    for status in rows {
        let server = Server::running();
        let answer = cri::ContainerStatusResponse { status, ..Default::default() };
        server.answer("ContainerStatus", &answer);
        let error = server.client().container_status(&"c1".into()).await.unwrap_err();
        assert_eq!(error.code, Code::DataLoss, "{answer:?}");
        assert_eq!(error.object, "c1", "{answer:?}");
    }
}

#[tokio::test]
async fn status_of_a_container_without_a_pod_is_decoded() {
    let bare = cri::ContainerStatus { labels: BTreeMap::new(), ..status() };
    let reported = seen(bare).await;
    assert_eq!(&*reported.name, "app");
}

#[tokio::test]
async fn resources_are_updated_and_read_back() {
    let server = Server::running();
    server.answer("UpdateContainerResources", &cri::UpdateContainerResourcesResponse {});
    let resources = LinuxResources {
        cpu_period: 100_000,
        cpu_quota: 25_000,
        cpu_shares: 102,
        memory_limit: 1 << 20,
        ..LinuxResources::default()
    };
    server.client().update_container_resources(&"c1".into(), &resources).await.unwrap();
    let request: cri::UpdateContainerResourcesRequest =
        server.only_request("UpdateContainerResources");
    assert_eq!(request.container_id, "c1");
    let linux = request.linux.unwrap();
    assert_eq!((linux.cpu_period, linux.cpu_quota, linux.cpu_shares), (100_000, 25_000, 102));
    assert_eq!(linux.memory_limit_in_bytes, 1 << 20);
    let reported = cri::ContainerResources { linux: Some(linux) };
    let status = cri::ContainerStatus { resources: Some(reported), ..status() };
    let expected = ReportedResources {
        cpu_request: Some(100),
        cpu_limit: Some(250),
        memory_limit: Some(1 << 20),
    };
    assert_eq!(seen(status).await.resources, Some(expected));
    let none = cri::ContainerResources { linux: None };
    let status = cri::ContainerStatus { resources: Some(none), ..self::status() };
    assert_eq!(seen(status).await.resources, None);
}

//! The environment of a pod: its directory, hosts file, name servers and user namespace.

use std::io::ErrorKind;
use std::path::Path;

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, EnvFromSource, Pod, PodDNSConfig, SecurityContext,
};
use model::machine::Machine;
use model::ports::files::HostFiles;
use model::ports::runtime::{Code, ImageUser, RuntimeHandler};
use model::wanted::{ContainerConfig, Mount, SandboxConfig, UserNamespace};
use podspec::view;
use runtime::SyncError;
use runtime::decide::NodeSettings;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};

use crate::harness::{Harness, IMAGE, WEB_LOGS, forever, web};

const POD: &str = "/var/lib/kubelet/pods/uid-of-web";

async fn made(harness: &Harness, pod: &Pod) -> (SandboxConfig, ContainerConfig) {
    let sandbox = harness.sandbox(pod).await;
    let container = harness.running(pod, "main").await;
    let sandbox = harness.runtime.sandbox_config(&sandbox).unwrap();
    (sandbox, harness.runtime.container_config(&container).unwrap())
}

// behaviour: CON-34
#[tokio::test(start_paused = true)]
async fn hosts_file_of_the_pod_is_rewritten_in_place() {
    let (harness, pod) = (Harness::new(), forever());
    harness.synced(&pod).await;
    for (directory, mode) in [("", 0o750), ("/volumes", 0o750), ("/plugins", 0o750)] {
        assert_eq!(harness.files.mode(format!("{POD}{directory}")), Some(mode), "{directory}");
    }
    let hosts = format!("{POD}/etc-hosts");
    let (_, container) = made(&harness, &pod).await;
    let mount = Mount {
        container_path: "/etc/hosts".to_owned(),
        host_path: hosts.clone(),
        ..Mount::default()
    };
    assert_eq!(container.mounts, [mount]);
    let ip = harness.status(&pod).await.ips[0];
    let content = String::from_utf8(harness.files.content(&hosts).unwrap()).unwrap();
    assert!(content.ends_with(&format!("\n{ip}\tweb\n")), "{content}");
    assert_eq!(harness.files.mode(&hosts), Some(0o644));
    let before = harness.files.look(Path::new(&hosts)).await.unwrap();
    harness.files.write(&hosts, "changed by a container");
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.synced(&pod).await;
    assert_eq!(harness.files.content(&hosts).unwrap(), content.as_bytes());
    let after = harness.files.look(Path::new(&hosts)).await.unwrap();
    assert!(after.version.same_file(&before.version), "mounts of other containers would be lost");
}

// behaviour: CON-87
#[tokio::test(start_paused = true)]
async fn own_files_are_relabeled_with_selinux() {
    for selinux in [true, false] {
        let machine = Machine { selinux, ..Machine::default() };
        let harness = Harness::with(NodeSettings { machine, ..NodeSettings::default() });
        let mut pod = forever();
        pod.spec.as_mut().unwrap().containers[0].termination_message_path = Some("/words".into());
        harness.synced(&pod).await;
        let (_, container) = made(&harness, &pod).await;
        let labels: Vec<bool> = container.mounts.iter().map(|mount| mount.relabel).collect();
        assert_eq!(labels, [selinux; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn uid_that_escapes_the_pods_directory_is_rejected() {
    let (harness, mut pod) = (Harness::new(), forever());
    pod.metadata.uid = Some("../uid".into());
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(error, SyncError::PodDirectory(_)), "{error}");
    assert_eq!(harness.calls(), []);
}

// behaviour: ACT-77
#[tokio::test(start_paused = true)]
async fn failed_directory_creation_is_an_error_with_an_event() {
    let (harness, pod) = (Harness::new(), forever());
    harness.files.fail("/var/lib/kubelet/pods/uid-of-web/volumes", ErrorKind::StorageFull);
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(error, SyncError::PodDirectory(_)), "{error}");
    assert_eq!(harness.events.reasons(), ["Failed"]);
    let error_text = harness.last_message("Failed");
    assert!(error_text.starts_with("error making pod data directories: "), "{error_text}");
    assert_eq!(harness.calls(), []);
    harness.files.repair("/var/lib/kubelet/pods/uid-of-web/volumes");
    harness.synced(&pod).await;
}

#[tokio::test(start_paused = true)]
async fn standalone_sample_starts_without_a_warning() {
    let harness = Harness::with(NodeSettings {
        root_dir: "/var/lib/kubelet".into(),
        resolv_conf: Some("/etc/resolv.conf".into()),
        ..NodeSettings::default()
    });
    harness.files.write("/etc/resolv.conf", "nameserver 1.1.1.1\n");
    let manifest = include_str!("../../../../examples/standalone/manifests/hello.yaml");
    let origin = podspec::Origin::File("/manifests/hello.yaml".into());
    let read = podspec::read_manifest(manifest.as_bytes(), &origin, "node").unwrap();
    harness.synced(&read.pods[0]).await;
    assert_eq!(harness.events.reasons(), ["Pulled", "Created", "Started"]);
    assert_eq!(harness.node_events.all().len(), 0);
}

// behaviour: CON-47
#[tokio::test(start_paused = true)]
async fn missing_or_too_many_name_servers_have_events() {
    let harness = Harness::with(NodeSettings {
        root_dir: "/var/lib/kubelet".into(),
        resolv_conf: Some("/etc/resolv.conf".into()),
        ..NodeSettings::default()
    });
    harness.files.write("/etc/resolv.conf", "nameserver 1.1.1.1\nsearch corp.example\n");
    let mut pod = forever();
    pod.spec.as_mut().unwrap().dns_config = Some(PodDNSConfig {
        nameservers: Some(["2.2.2.2", "3.3.3.3", "4.4.4.4"].map(ToOwned::to_owned).into()),
        ..PodDNSConfig::default()
    });
    harness.synced(&pod).await;
    let (sandbox, _) = made(&harness, &pod).await;
    assert_eq!(sandbox.dns.servers, ["1.1.1.1", "2.2.2.2", "3.3.3.3"]);
    assert_eq!(sandbox.dns.searches, ["corp.example"]);
    assert_eq!(harness.events.reasons()[..2], ["MissingClusterDNS", "DNSConfigForming"]);
    assert_eq!(
        harness.last_message("MissingClusterDNS"),
        "pod: \"web_default(uid-of-web)\". kubelet does not have ClusterDNS IP configured and \
         cannot create Pod using \"ClusterFirst\" policy. Falling back to \"Default\" policy."
    );
    let of_node: Vec<_> = harness.node_events.all();
    assert_eq!((of_node.len(), of_node[0].reason), (1, "MissingClusterDNS"));
    assert_eq!(
        of_node[0].message,
        "kubelet does not have ClusterDNS IP configured and cannot create Pod using \
         \"ClusterFirst\" policy. Falling back to \"Default\" policy."
    );
}

// behaviour: CON-44
#[tokio::test(start_paused = true)]
async fn default_name_server_has_the_ip_family_of_the_node() {
    for (requested, server) in
        [(None, "127.0.0.1"), (Some("192.0.2.1"), "127.0.0.1"), (Some("2001:db8::1"), "::1")]
    {
        let harness = Harness::with(NodeSettings {
            root_dir: "/var/lib/kubelet".into(),
            requested_ips: requested.iter().map(|ip| ip.parse().unwrap()).collect(),
            ..NodeSettings::default()
        });
        harness.synced(&forever()).await;
        let (sandbox, _) = made(&harness, &forever()).await;
        assert_eq!(sandbox.dns.servers, [server], "{requested:?}");
    }
}

// behaviour: CON-49
#[tokio::test(start_paused = true)]
async fn unusable_resolv_conf_has_an_event_at_agent_start() {
    let domains = |count: usize, length: usize| {
        let all: Vec<String> = (0..count).map(|at| format!("{at:0>length$}")).collect();
        Some(format!("nameserver 1.1.1.1\nsearch {}\n", all.join(" ")))
    };
    let rows = [
        (domains(32, 4), "", None),
        (domains(33, 4), "", Some("'/r' contains search line consisting of more than 32 domains!")),
        (domains(29, 4), "cluster.local", None),
        (
            domains(30, 4),
            "cluster.local",
            Some("'/r' contains search line consisting of more than 29 domains!"),
        ),
        (
            domains(1, 254),
            "",
            Some("\"/r\" contains a search path which length is more than allowed 253 chars!"),
        ),
        (
            domains(10, 250),
            "",
            Some("'/r' contains search line which length is more than allowed 2048 chars!"),
        ),
        (None, "", Some("open /r: entity not found")),
        (Some("nameserver".to_owned()), "", Some("nameserver list is empty ")),
    ];
    for (content, cluster_domain, expected) in rows {
        let harness = Harness::with(NodeSettings {
            resolv_conf: Some("/r".into()),
            cluster_domain: cluster_domain.to_owned(),
            ..NodeSettings::default()
        });
        if let Some(content) = content.clone() {
            harness.files.write("/r", content);
        }
        harness.pods.check_resolver_file().await;
        let events = harness.node_events.all();
        assert_eq!(events.len(), usize::from(expected.is_some()), "{events:?}");
        if let (Some(event), Some(words)) = (events.first(), expected) {
            assert_eq!(event.reason, "CheckLimitsForResolvConf");
            let whole = content.as_ref().is_none_or(|content| content == "nameserver");
            assert!(event.message.contains(words), "{event:?}");
            assert!(!whole || event.message == words, "{event:?}");
        }
    }
}

// behaviour: CON-48
#[tokio::test(start_paused = true)]
async fn unreadable_resolv_conf_prevents_the_pod_start() {
    let harness = Harness::with(NodeSettings {
        root_dir: "/var/lib/kubelet".into(),
        resolv_conf: Some("/etc/resolv.conf".into()),
        ..NodeSettings::default()
    });
    let error = harness.sync(&forever()).await.unwrap_err();
    assert!(matches!(error, SyncError::SandboxConfig(_)), "{error}");
    assert_eq!(harness.events.reasons(), ["FailedCreatePodSandBox"]);
    let error_text = || harness.last_message("FailedCreatePodSandBox");
    assert_eq!(
        error_text(),
        "Failed to create pod sandbox: open /etc/resolv.conf: entity not found"
    );
    harness.files.write("/etc/resolv.conf", "nameserver");
    harness.sync(&forever()).await.unwrap_err();
    assert_eq!(
        error_text(),
        "Failed to create pod sandbox: Encountered error while parsing resolv conf file. Error: \
         nameserver list is empty "
    );
    harness.files.write("/etc/resolv.conf", "nameserver 1.1.1.1");
    harness.synced(&forever()).await;
}

/// A container that is not created leaves the same files on the node as upstream.
async fn left_of_one_that_is_refused(harness: &Harness) {
    let left = |path: &str| harness.files.mode(format!("{POD}/{path}"));
    assert_eq!(left("volumes"), Some(0o750));
    assert_eq!(left("plugins"), Some(0o750));
    assert_eq!(left("etc-hosts"), Some(0o644));
    assert_eq!(left("containers/main"), Some(0o750));
    let words = harness.files.list(Path::new(&format!("{POD}/containers/main"))).await.unwrap();
    assert_eq!(words, [""; 0], "no instance has a message");
    assert_eq!(harness.files.mode(WEB_LOGS), Some(0o755));
    assert_eq!(harness.files.mode(format!("{WEB_LOGS}/main")), None, "nor a log");
}

// behaviour: ACT-127
#[tokio::test(start_paused = true)]
async fn container_with_an_environment_error_leaves_fewer_files() {
    let (harness, mut pod) = (Harness::new(), with_termination_message());
    let config_map_ref = Some(ConfigMapEnvSource::default());
    let source = EnvFromSource { config_map_ref, ..EnvFromSource::default() };
    pod.spec.as_mut().unwrap().containers[0].env_from = Some(vec![source]);
    harness.failed(&pod).await;
    assert_eq!(harness.files.mode(format!("{POD}/volumes")), Some(0o750));
    for none in ["etc-hosts", "containers"] {
        assert_eq!(harness.files.mode(format!("{POD}/{none}")), None, "{none}");
    }
    assert_eq!(harness.files.mode(format!("{WEB_LOGS}/main")), None);
}

/// A pod with the defaults of the API server: with a termination message path.
fn with_termination_message() -> Pod {
    let mut pod = forever();
    pod.spec.as_mut().unwrap().containers[0].termination_message_path =
        Some("/dev/termination-log".to_owned());
    pod
}

// behaviour: CON-55, ACT-127
#[tokio::test(start_paused = true)]
async fn run_as_non_root_violation_waits_with_the_message_of_upstream() {
    let harness = Harness::new();
    let mut pod = with_termination_message();
    pod.spec.as_mut().unwrap().containers[0].security_context =
        Some(SecurityContext { run_as_non_root: Some(true), ..SecurityContext::default() });
    let (reasons, error) = harness.failed(&pod).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerConfigError")]);
    let SyncError::StartContainers(failed) = error else { unreachable!() };
    let text = "container has runAsNonRoot and image will run as root \
                (pod: \"web_default(uid-of-web)\", container: main)";
    assert_eq!(failed[0].1.to_string(), text);
    assert_eq!(harness.last_message("Failed"), format!("Error: {text}"));
    left_of_one_that_is_refused(&harness).await;
    harness.runtime.add_image(&RemoteImage::new(IMAGE).content("x").user(ImageUser::Uid(7)));
    harness.synced(&pod).await;
    let (_, container) = made(&harness, &pod).await;
    assert_eq!(container.security.run_as_user, Some(7));
}

fn with_own_users(name: &str) -> Pod {
    let pod = testkit::pods::pod(name).grace(1);
    let mut pod = pod.container("main", IMAGE, ["sleep", "forever"]).build();
    pod.spec.as_mut().unwrap().host_users = Some(false);
    pod
}

// behaviour: CON-85
#[tokio::test(start_paused = true)]
async fn pod_with_a_user_namespace_keeps_its_range_until_removed() {
    let harness = Harness::new();
    let (web, db) = (with_own_users("web"), with_own_users("db"));
    let range = |config: &SandboxConfig| match config.users {
        UserNamespace::Pod(range) => range.host_id,
        UserNamespace::Node => 0,
    };
    for (pod, first) in [(&web, 65_536), (&db, 131_072)] {
        harness.synced(pod).await;
        assert_eq!(range(&made(&harness, pod).await.0), first);
    }
    harness.runtime.kill_sandbox(&harness.sandbox(&web).await);
    harness.synced(&web).await;
    assert_eq!(range(&made(&harness, &web).await.0), 65_536, "its files belong to these IDs");
    harness.pods.release(&web).await.unwrap();
    assert_eq!(harness.files.content(format!("{POD}/userns")), None);
    let next = with_own_users("next");
    harness.synced(&next).await;
    assert_eq!(range(&made(&harness, &next).await.0), 65_536);
}

// behaviour: CON-86
#[tokio::test(start_paused = true)]
async fn missing_user_namespace_support_has_an_event() {
    let (harness, pod) = (Harness::new(), with_own_users("web"));
    for handlers in [vec![], vec![RuntimeHandler::default()]] {
        harness.runtime.set_handlers(handlers);
        harness.sync(&pod).await.unwrap_err();
        assert_eq!(
            harness.last_message("FailedCreatePodSandBox"),
            "Failed to create pod sandbox: can't set `spec.hostUsers: false`, \
             runtime does not support user namespaces"
        );
    }
    harness.runtime.set_handlers(vec![RuntimeHandler {
        name: "other".to_owned(),
        user_namespaces: true,
        ..RuntimeHandler::default()
    }]);
    harness.sync(&pod).await.unwrap_err();
    let error_text = harness.last_message("FailedCreatePodSandBox");
    assert!(error_text.ends_with("namespaces: the handler \"\" is not known"), "{error_text}");
    assert_eq!(harness.runtime.sandboxes().len(), 0);
    assert_eq!(view::spec(&web().build()).unwrap().host_users, None);
}

// behaviour: STW-42
#[tokio::test(start_paused = true)]
async fn recursive_read_only_depends_on_the_runtime_handler() {
    let (harness, pod) = (Harness::new(), forever());
    let handler = |name: &str, recursive_read_only_mounts| RuntimeHandler {
        name: name.to_owned(),
        user_namespaces: false,
        recursive_read_only_mounts,
    };
    let rows = [
        (vec![], false),
        (vec![handler("other", true)], false),
        (vec![handler("", false), handler("other", true)], false),
        (vec![handler("other", false), handler("", true)], true),
    ];
    for (handlers, expected) in rows {
        harness.runtime.set_handlers(handlers.clone());
        assert_eq!(harness.pods.mounts_recursively_read_only(&pod).await, expected, "{handlers:?}");
    }
    harness.runtime.inject(Rule::on(Method::Status, Fault::error(Code::Unavailable)).once());
    assert!(!harness.pods.mounts_recursively_read_only(&pod).await, "unknown");
}

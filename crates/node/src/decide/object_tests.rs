use super::*;
use crate::decide::facts::Facts;
use crate::decide::settings::NodeParameters;
use crate::decide::status::REBOOTED;
use config::KubeletConfiguration;
use k8s_openapi::api::core::v1::NodeSystemInfo;
use model::machine::Identity;
use model::ports::runtime::RuntimeFeatures;
use std::sync::Arc;
use std::time::Duration;

fn settings(change: impl FnOnce(&mut KubeletConfiguration, &mut NodeParameters)) -> Settings {
    let mut config = KubeletConfiguration::default();
    let mut own = NodeParameters {
        name: "n".to_owned(),
        hostname: "n".to_owned(),
        architecture: "amd64".to_owned(),
        kubelet_version: "v1.36.3+ferrolet.0.1.0".to_owned(),
        identity: Identity {
            machine_id: "m".to_owned(),
            system_uuid: "s".to_owned(),
            boot_id: "b".to_owned(),
            kernel_version: "6.1".to_owned(),
            os_image: "Debian".to_owned(),
            swap: 0,
        },
        ..NodeParameters::default()
    };
    change(&mut config, &mut own);
    Settings::new(&config, own)
}

fn made(settings: &Settings, facts: &Facts) -> (Node, Vec<NodeEvent>) {
    let known = StatusFacts { settings, facts, unwell: &[], since_start: Duration::ZERO };
    node_object(known, Timestamp::UNIX_EPOCH)
}

// behaviour: NODE-1
#[test]
fn node_is_created_with_labels_taints_and_annotation() {
    let settings = settings(|config, own| {
        config.provider_id = "x://1".to_owned();
        config.register_with_taints = vec![config::Taint {
            key: "k".to_owned(),
            value: "v".to_owned(),
            effect: Some(config::TaintEffect::NoSchedule),
            time_added: None,
        }];
        own.labels =
            [("zone", "a"), ("kubernetes.io/os", "other"), ("kubernetes.io/hostname", "h")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
    });
    let (node, _) = made(&settings, &Facts::default());
    let labels = node.metadata.labels.unwrap();
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "beta.kubernetes.io/arch=amd64",
        "beta.kubernetes.io/os=linux",
        "kubernetes.io/arch=amd64",
        "kubernetes.io/hostname=h",
        "kubernetes.io/os=linux",
        "zone=a",
    ];
    assert_eq!(labels, expected);
    assert_eq!(node.metadata.annotations.unwrap()[ATTACH_DETACH], "true");
    let spec = node.spec.unwrap();
    assert_eq!(spec.provider_id.as_deref(), Some("x://1"));
    let taint = &spec.taints.unwrap()[0];
    assert_eq!((taint.key.as_str(), taint.effect.as_str()), ("k", "NoSchedule"));
    assert_eq!(taint.value.as_deref(), Some("v"));
}

// behaviour: NODE-6
#[test]
fn cloud_node_has_the_uninitialized_taint() {
    let settings = settings(|config, own| {
        config.enable_controller_attach_detach = false;
        own.external_cloud = true;
    });
    let (node, _) = made(&settings, &Facts::default());
    let taint = &node.spec.unwrap().taints.unwrap()[0];
    assert_eq!((taint.key.as_str(), taint.value.as_deref()), (UNINITIALIZED, Some("true")));
    assert_eq!(node.metadata.annotations, None);
    let addresses = node.status.unwrap().addresses.unwrap();
    assert_eq!(addresses.len(), 1);
    assert_eq!(addresses[0].type_, "Hostname");
    let settings = self::settings(|_, own| {
        own.external_cloud = true;
        own.ips = vec!["10.0.0.1".parse().unwrap()];
    });
    let facts = Facts { addresses: Some(Ok(vec![])), ..Facts::default() };
    let (mut node, _) = made(&settings, &facts);
    let annotations = node.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["alpha.kubernetes.io/provided-node-ip"], "10.0.0.1");
    let theirs = crate::decide::addresses::hostname_only("theirs");
    node.status.as_mut().unwrap().addresses = Some(theirs.clone());
    let known = StatusFacts {
        settings: &settings,
        facts: &facts,
        unwell: &[],
        since_start: Duration::ZERO,
    };
    set_status(&mut node, known, Timestamp::UNIX_EPOCH);
    assert_eq!(node.status.unwrap().addresses, Some(theirs));
}

// behaviour: NODE-16
#[test]
fn node_info_is_set_and_reboot_is_an_event() {
    let settings = settings(|_, own| own.identity.swap = 1024);
    let mut facts = Facts::default();
    facts.runtime.set_version("containerd", "v2.4.2");
    let (mut node, _) = made(&settings, &facts);
    let info = node.status.as_ref().unwrap().node_info.clone().unwrap();
    let expected = NodeSystemInfo {
        architecture: "amd64".to_owned(),
        boot_id: "b".to_owned(),
        container_runtime_version: "containerd://2.4.2".to_owned(),
        kernel_version: "6.1".to_owned(),
        kube_proxy_version: String::new(),
        kubelet_version: "v1.36.3+ferrolet.0.1.0".to_owned(),
        machine_id: "m".to_owned(),
        operating_system: "linux".to_owned(),
        os_image: "Debian".to_owned(),
        swap: Some(k8s_openapi::api::core::v1::NodeSwapStatus { capacity: Some(1024) }),
        system_uuid: "s".to_owned(),
    };
    assert_eq!(info, expected);
    let port = node.status.as_ref().unwrap().daemon_endpoints.clone().unwrap();
    assert_eq!(port.kubelet_endpoint.unwrap().port, 10_250);
    node.status.as_mut().unwrap().node_info.as_mut().unwrap().boot_id = "a".to_owned();
    let known = StatusFacts {
        settings: &settings,
        facts: &facts,
        unwell: &[],
        since_start: Duration::ZERO,
    };
    let events = set_status(&mut node, known, Timestamp::UNIX_EPOCH);
    let reboot = events.iter().find(|event| event.reason == REBOOTED).unwrap();
    assert_eq!(reboot.message, "Node n has been rebooted, boot id: b");
    assert!(set_status(&mut node, known, Timestamp::UNIX_EPOCH).is_empty());
}

/// Feature gates, and the declared features.
type GatesRow = (&'static [(&'static str, bool)], &'static [&'static str]);

// behaviour: NODE-17, RSZ-26
#[test]
fn features_are_declared_when_their_gates_are_on() {
    let all =
        vec!["RestartAllContainersOnContainerExits", "InPlacePodVerticalScalingInitContainers"];
    let rows: [GatesRow; 3] = [
        (&[], &["InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"]),
        (
            &[("RestartAllContainersOnContainerExits", false)],
            &["InPlacePodVerticalScalingInitContainers"],
        ),
        (&[("NodeDeclaredFeatures", false)], &[]),
    ];
    for (gates, expected) in rows {
        let settings = settings(|config, own| {
            config.feature_gates =
                gates.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
            own.declared_features.clone_from(&all);
        });
        let (node, _) = made(&settings, &Facts::default());
        let declared = node.status.unwrap().declared_features.unwrap_or_default();
        assert_eq!(declared, expected);
    }
}

// behaviour: NODE-17
#[test]
fn runtime_features_are_declared_once_reported() {
    let users = "UserNamespacesHostNetworkSupport";
    let settings = settings(|config, own| {
        config.feature_gates = [(users.to_owned(), true)].into();
        own.declared_features = vec![users];
    });
    for (can, expected) in [(None, false), (Some(false), false), (Some(true), true)] {
        let mut facts = Facts::default();
        facts.runtime.features = can.map(|can| RuntimeFeatures {
            user_namespaces_host_network: can,
            ..RuntimeFeatures::default()
        });
        let (node, _) = made(&settings, &facts);
        let declared = node.status.unwrap().declared_features.unwrap_or_default();
        assert_eq!(declared == [users], expected, "{can:?}");
    }
}

// behaviour: NODE-26
#[test]
fn starting_events_include_cgroup_v1_warning() {
    use crate::decide::status::starting_events;
    for (cgroup_v1, expected) in [
        (false, vec![("Starting", "Starting kubelet.")]),
        (true, vec![("Starting", "Starting kubelet."), ("CgroupV1", "cgroup v1 detected.")]),
    ] {
        let settings = settings(|_, own| own.cgroup_v1 = cgroup_v1);
        let events = starting_events(&settings);
        assert_eq!(events.len(), expected.len());
        for (event, (reason, message)) in events.iter().zip(expected) {
            assert!(event.reason == reason && event.message.starts_with(message), "{event:?}");
        }
    }
}

// behaviour: NODE-15
#[test]
fn largest_images_are_listed_with_five_names() {
    use crate::decide::images::images;
    let image = |id: &str, size: u64, tags: usize| model::ports::runtime::Image {
        id: id.to_owned(),
        repo_tags: (0..tags).map(|tag| format!("{id}:{tag}")).collect(),
        repo_digests: vec![format!("{id}@sha256:0")],
        size,
        pinned: false,
        user: None,
        runtime_handler: String::new(),
    };
    let all = vec![image("a", 1, 1), image("b", 3, 9), image("c", 2, 1), image("d", 2, 0)];
    let listed = images(all.clone(), Some(3));
    let sizes: Vec<i64> = listed.iter().filter_map(|image| image.size_bytes).collect();
    assert_eq!(sizes, [3, 2, 2]);
    let names = listed[0].names.as_ref().unwrap();
    assert_eq!((names.len(), names[0].as_str(), names[1].as_str()), (5, "b@sha256:0", "b:0"));
    assert_eq!(listed[1].names.as_ref().unwrap()[0], "d@sha256:0");
    assert_eq!((images(all.clone(), None).len(), images(all, Some(0)).len()), (4, 0));
    let facts = Facts { images: Some(Arc::new(listed)), ..Facts::default() };
    let (node, _) = made(&settings(|_, _| {}), &facts);
    assert_eq!(node.status.unwrap().images.unwrap().len(), 3);
}

#[test]
fn settings_follow_the_configuration() {
    let settings = settings(|config, _| {
        config.node_status_max_images = -1;
        config.node_lease_duration_seconds = 5;
    });
    assert_eq!((settings.most_images, settings.register), (None, true));
    assert_eq!(settings.answer_time(), Duration::from_secs(5));
    assert_eq!(settings.report_frequency, Duration::from_mins(5));
}

//! Configurations, labels and verdicts for requests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::ids::PodName;
use model::verdict::{Detail, Subject, Verdict};
use model::wanted::{
    Capabilities, ContainerConfig, ContainerSecurity, Device, DnsConfig, GroupsPolicy,
    HugePageLimit, IdMapping, LinuxResources, Mount, MountPropagation, NamespaceMode, PortMapping,
    Protocol, SandboxConfig, SandboxSecurity, SecurityProfile, SelinuxOptions, UserNamespace,
};
use proto::runtime_v1 as cri;

pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The labels of a container of a pod.
pub(crate) fn pod_labels() -> BTreeMap<String, String> {
    map(&[
        ("io.kubernetes.pod.name", "web"),
        ("io.kubernetes.pod.namespace", "shop"),
        ("io.kubernetes.pod.uid", "uid-1"),
    ])
}

/// No two fields of a type have equal values, so that mix-ups are found.
pub(crate) fn sandbox_config() -> SandboxConfig {
    SandboxConfig {
        pod_uid: "uid-1".into(),
        pod: PodName::new("shop", "web"),
        attempt: 3,
        hostname: "web-host".into(),
        log_directory: "/var/log/pods/shop_web_uid-1".into(),
        labels: map(&[("tier", "front")]),
        annotations: map(&[("note", "a")]),
        network: NamespaceMode::Pod,
        pid: NamespaceMode::Container,
        ipc: NamespaceMode::Node,
        cgroup_parent: "/kubepods/poduid-1".into(),
        runtime_handler: "kata".into(),
        dns: DnsConfig {
            servers: vec!["10.0.0.10".into()],
            searches: vec!["cluster.local".into()],
            options: vec!["ndots:5".into()],
        },
        port_mappings: vec![PortMapping {
            protocol: Protocol::Udp,
            container_port: 53,
            host_port: 5353,
            host_ip: "127.0.0.1".into(),
        }],
        users: UserNamespace::Pod(IdMapping { host_id: 65_536, container_id: 0, length: 9 }),
        security: SandboxSecurity {
            privileged: true,
            run_as_user: Some(1),
            run_as_group: Some(2),
            supplemental_groups: vec![3, 4],
            groups_policy: GroupsPolicy::Strict,
            selinux: Some(selinux("sandbox")),
        },
        sysctls: map(&[("kernel.sem", "5")]),
        resources: resources(100),
        overhead: resources(200),
    }
}

fn selinux(level: &str) -> SelinuxOptions {
    SelinuxOptions { user: "u".into(), role: "r".into(), kind: "t".into(), level: level.into() }
}

/// Distinct numbers from `first` on.
fn resources(first: i64) -> LinuxResources {
    LinuxResources {
        cpu_period: first,
        cpu_quota: first + 1,
        cpu_shares: first + 2,
        memory_limit: first + 3,
        memory_swap_limit: first + 4,
        oom_score_adj: first + 5,
        huge_page_limits: vec![HugePageLimit { page_size: "2MB".into(), limit: 6 }],
        unified: map(&[("memory.oom.group", "1")]),
    }
}

pub(crate) fn container_config() -> ContainerConfig {
    ContainerConfig {
        name: "app".into(),
        attempt: 4,
        image_ref: "sha256:beef".into(),
        user_image: "shop/app:1".into(),
        command: vec!["/bin/app".into(), "serve".into()],
        args: vec!["--port".into(), "80".into()],
        working_dir: "/srv".into(),
        envs: vec![("B".into(), "2".into()), ("A".into(), "ö".into())].into(),
        labels: map(&[("tier", "inner")]),
        annotations: map(&[("note", "b")]),
        log_path: "app/4.log".into(),
        stdin: true,
        stdin_once: false,
        tty: true,
        mounts: vec![Mount {
            container_path: "/in/container".into(),
            host_path: "/on/host".into(),
            read_only: true,
            image: String::new(),
            image_subpath: "etc".into(),
            relabel: true,
            recursive_read_only: true,
            propagation: MountPropagation::HostToContainer,
        }],
        devices: vec![Device {
            container_path: "/dev/xda".into(),
            host_path: "/dev/loop1".into(),
            permissions: "mrw".into(),
        }],
        security: ContainerSecurity {
            capabilities: Some(Capabilities { add: vec!["KILL".into()], drop: vec!["ALL".into()] }),
            privileged: true,
            selinux: Some(selinux("container")),
            run_as_user: Some(11),
            run_as_username: "www".into(),
            run_as_group: Some(12),
            read_only_root: true,
            supplemental_groups: vec![13],
            groups_policy: GroupsPolicy::Strict,
            no_new_privileges: true,
            masked_paths: vec!["/proc/kcore".into()],
            readonly_paths: vec!["/proc/sys".into()],
            seccomp: Some(SecurityProfile::Localhost("/seccomp/a.json".into())),
            apparmor: Some(SecurityProfile::Unconfined),
        },
        resources: resources(300),
        pid: NamespaceMode::Container,
        pid_target: None,
        stop_signal: Some("SIGUSR1".into()),
    }
}

/// The same numbers in the CRI.
pub(crate) fn sent_resources(first: i64) -> cri::LinuxContainerResources {
    cri::LinuxContainerResources {
        cpu_period: first,
        cpu_quota: first + 1,
        cpu_shares: first + 2,
        memory_limit_in_bytes: first + 3,
        memory_swap_limit_in_bytes: first + 4,
        oom_score_adj: first + 5,
        hugepage_limits: vec![cri::HugepageLimit { page_size: "2MB".into(), limit: 6 }],
        unified: map(&[("memory.oom.group", "1")]),
        ..Default::default()
    }
}

pub(crate) fn sent_selinux(level: &str) -> cri::SeLinuxOption {
    cri::SeLinuxOption {
        user: "u".into(),
        role: "r".into(),
        r#type: "t".into(),
        level: level.into(),
    }
}

/// The namespaces of both, with user namespaces.
pub(crate) fn sent_namespaces() -> cri::NamespaceOption {
    cri::NamespaceOption {
        network: cri::NamespaceMode::Pod.into(),
        pid: cri::NamespaceMode::Container.into(),
        ipc: cri::NamespaceMode::Node.into(),
        userns_options: Some(cri::UserNamespace {
            mode: cri::NamespaceMode::Pod.into(),
            uids: sent_ids(),
            gids: sent_ids(),
        }),
        ..Default::default()
    }
}

pub(crate) fn sent_ids() -> Vec<cri::IdMapping> {
    vec![cri::IdMapping { host_id: 65_536, container_id: 0, length: 9 }]
}

pub(crate) fn verdict(subject: Subject) -> Verdict {
    Verdict {
        subject,
        name: "".into(),
        owner: None,
        rule: "a-rule",
        detail: Detail::default(),
        at: Timestamp::UNIX_EPOCH,
    }
}

/// The mount of [`container_config`] in the CRI request.
pub(crate) fn sent_mount() -> cri::Mount {
    cri::Mount {
        container_path: "/in/container".into(),
        host_path: "/on/host".into(),
        readonly: true,
        selinux_relabel: true,
        propagation: cri::MountPropagation::PropagationHostToContainer.into(),
        recursive_read_only: true,
        image_sub_path: "etc".into(),
        uid_mappings: sent_ids(),
        gid_mappings: sent_ids(),
        ..Default::default()
    }
}

/// The device of [`container_config`] in the CRI request.
pub(crate) fn sent_device() -> cri::Device {
    cri::Device {
        container_path: "/dev/xda".into(),
        host_path: "/dev/loop1".into(),
        permissions: "mrw".into(),
    }
}

//! Masked paths, seccomp, and shared host namespaces.

use std::fs;

use anyhow::{Result, ensure};
use e2e::containerd::RuntimeContainer;
use e2e::node::{NODE_NAME, Node, one_running};

use crate::container::{ended, lines, pod, status};

/// A profile that forbids one system call of a server.
const NO_LISTENING: &str = r#"{
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [{"names": ["listen"], "action": "SCMP_ACT_ERRNO"}]
}"#;

#[test]
fn localhost_seccomp_profile_and_unmasked_proc_take_effect() -> Result<()> {
    let mut node = Node::start()?;
    let profiles = node.root_dir().join("seccomp/profiles");
    fs::create_dir_all(&profiles)?;
    fs::write(profiles.join("quiet.json"), NO_LISTENING)?;
    let profile = "securityContext: {seccompProfile: {type: Localhost, localhostProfile: profiles/quiet.json}}";
    let filtered = pod(
        "filtered",
        "hostname: filtered",
        &[
            ("status", "[cat, /proc/self/status]", profile),
            ("silenced", "[serve, '8080']", profile),
            (
                "free",
                "[cat, /proc/self/status]",
                "securityContext: {seccompProfile: {type: Unconfined}}",
            ),
        ],
    );
    let unmasked = pod(
        "unmasked",
        "hostUsers: false",
        &[
            ("open", "[cat, /proc/self/mounts]", "securityContext: {procMount: Unmasked}"),
            ("masked", "[cat, /proc/self/mounts]", "securityContext: {procMount: Default}"),
        ],
    );
    ended(&mut node, &[("filtered", filtered), ("unmasked", unmasked)])?;
    for (container, mode) in [("status", "2"), ("free", "0")] {
        let found = lines(&node, "filtered", container)?;
        ensure!(status(&found, "Seccomp")? == mode, "{container}: {found:?}");
    }
    let log = node.run("sh", &["-c", "cat /var/log/pods/shop_filtered-*/silenced/0.log"])?;
    ensure!(log.contains("Operation not permitted"), "{log}");
    ensure!(!log.contains("serving"), "{log}");
    let below_proc = |container| {
        let mounts = lines(&node, "unmasked", container)?;
        ensure!(mounts.iter().any(|line| line.starts_with("proc /proc ")), "{mounts:?}");
        let places = mounts.iter().filter_map(|line| line.split(' ').nth(1));
        let below = places.filter(|place| place.starts_with("/proc/"));
        anyhow::Ok(below.map(ToOwned::to_owned).collect::<Vec<_>>())
    };
    let (open, masked) = (below_proc("open")?, below_proc("masked")?);
    ensure!(open.is_empty(), "still covered: {open:?}");
    ensure!(masked.contains(&"/proc/sys".to_owned()), "{masked:?}");
    node.stop()
}

#[test]
fn host_namespaces_are_shared_only_on_request() -> Result<()> {
    let mut node = Node::start()?;
    let run: &[_] = &[("main", "[sleep, forever]", ""), ("other", "[sleep, forever]", "")];
    let pods = [
        ("own", "hostname: own", [false, false, false]),
        ("net", "hostNetwork: true", [true, false, false]),
        ("ipc", "hostIPC: true", [false, true, false]),
        ("pid", "hostPID: true", [false, false, true]),
        ("shared", "shareProcessNamespace: true", [false, false, false]),
    ];
    for (name, spec, _) in pods {
        node.write_manifest(&format!("{name}.yaml"), &pod(name, spec, run))?;
    }
    node.start_agent()?;
    let namespace = |pid: &str, kind| node.run("readlink", &[&format!("/proc/{pid}/ns/{kind}")]);
    for (name, _, as_host) in pods {
        let find = |container: &'static str| {
            node.wait_for_containers(name, "it runs", move |containers: &[RuntimeContainer]| {
                let named = containers.iter().filter(|one| one.name == container);
                one_running(&named.cloned().collect::<Vec<_>>())
            })
        };
        let (main, other) = (find("main")?.pid.to_string(), find("other")?.pid.to_string());
        for (kind, expected) in ["net", "ipc", "pid"].into_iter().zip(as_host) {
            let (of_host, of_pod) = (namespace("1", kind)?, namespace(&main, kind)?);
            ensure!((of_host == of_pod) == expected, "{name}: {kind}: {of_host}{of_pod}");
        }
        ensure!(namespace(&main, "ipc")? == namespace(&other, "ipc")?, "{name}");
        let together = namespace(&main, "pid")? == namespace(&other, "pid")?;
        ensure!(together == matches!(name, "pid" | "shared"), "{name}-{NODE_NAME}");
    }
    node.stop()
}

//! Isolation of two instances, and of the host.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use testbed::{Command, Instance};

use crate::{alone, is_running, printed, run_sleeper, start};

fn sh(instance: &Instance, script: &str) -> String {
    printed(&instance.run(&Command::new("sh").args(["-c", script])).unwrap())
}

/// Tests share an instance between threads and tasks. Checked by the compiler.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Instance>();
};

#[test]
fn instances_are_isolated_from_each_other() {
    let _alone = alone();
    let (first, second) = (start(), start());
    assert_ne!(first.slot(), second.slot());
    assert_ne!(first.dir(), second.dir());
    assert_ne!(first.node_ip(), second.node_ip());
    assert_ne!(first.pod_cidr(), second.pod_cidr());

    // The same names in both, for everything that would conflict on one host.
    for instance in [&first, &second] {
        run_sleeper(instance, "same");
        sh(
            instance,
            "ip link add cni0 type bridge && mkdir /run/netns/same /var/lib/same /var/log/same",
        );
        assert_eq!(sh(instance, "ls /sys/class/net"), "cni0\neth0\nlo\n");
        let address = instance.node_ip().to_string();
        assert!(sh(instance, "ip -4 -brief address show eth0").contains(&address));
    }
    for place in ["/run/netns/same", "/var/lib/same", "/var/log/same", "/sys/class/net/cni0"] {
        assert!(!Path::new(place).exists(), "{place} is on the host");
    }
    let pids = "cat /sys/fs/cgroup/pids/k8s.io/same/cgroup.procs || cat /sys/fs/cgroup/k8s.io/same/cgroup.procs";
    assert_eq!(sh(&first, pids).lines().count(), 1);

    first.stop().unwrap();
    assert!(is_running(&second, "same"));
    second.stop().unwrap();
}

#[test]
fn sysctls_of_an_instance_do_not_reach_the_host() {
    let _alone = alone();
    let instance = start();
    let setting = "/proc/sys/kernel/panic";
    let host = fs::read_to_string(setting).unwrap();
    assert_eq!(
        sh(&instance, &format!("cat {setting}; echo 77 > {setting}; cat {setting}")),
        format!("{host}77\n")
    );
    assert_eq!(fs::read_to_string(setting).unwrap(), host);
    instance.stop().unwrap();
}

#[test]
fn instances_of_two_cache_directories_use_different_slots() {
    let _alone = alone();
    let instance = start();
    let cache = std::env::temp_dir().join(format!("testbed-other-{}", std::process::id()));
    let mut other = std::process::Command::new(crate::TESTBED)
        .arg("supervise")
        .env("XDG_CACHE_HOME", &cache)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(other.stdin.take());
    let status = other.wait().unwrap();
    fs::remove_dir_all(&cache).unwrap();
    let report: serde_json::Value = serde_json::from_str(&line).unwrap();
    let slot = report["Ready"]["slot"].as_u64().unwrap();
    assert_ne!(slot, u64::from(instance.slot()));
    assert!(status.success());
    assert!(instance.containerd().unwrap().is_alive().unwrap(), "it was removed");
    instance.stop().unwrap();
}

#[test]
fn processes_of_an_instance_have_the_marker_and_die_with_pid_1() {
    let _alone = alone();
    let instance = start();
    let marker = sh(&instance, "echo $FERROLET_TESTBED_INSTANCE");
    assert_eq!(marker.trim(), instance.slot().to_string());
    // A child without its parent and process group: only pid 1 still knows it.
    let name = format!("/tmp/testbed-orphan-{}", std::process::id());
    let orphan = format!("setsid sh -c 'exec 9>{name}; sleep 1000' >/dev/null 2>&1 &");
    sh(&instance, &orphan);
    let holders = || {
        let fds = fs::read_dir("/proc").unwrap().flatten().filter_map(|process| {
            let fds = fs::read_dir(process.path().join("fd")).ok()?;
            Some(fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok()).collect::<Vec<_>>())
        });
        fds.flatten().filter(|target| target == Path::new(&name)).count()
    };
    crate::eventually("the orphan", || (holders() > 0).then_some(()));
    instance.stop().unwrap();
    assert_eq!(holders(), 0);
    fs::remove_file(&name).unwrap();
}

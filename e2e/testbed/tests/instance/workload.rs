//! Real containers in an instance.

use crate::{alone, is_running, printed, run_sleeper, start};

#[test]
fn container_runs_and_its_exit_code_is_reported() {
    let _alone = alone();
    let instance = start();
    let image = "ferrolet.test/workload:1";
    let args = ["run", "--rm", image, "echo", "/workload", "args", "one", "two"];
    let output = instance.ctr(&args).unwrap();
    assert_eq!(printed(&output), "one\ntwo\n");
    let output = instance.ctr(&["run", "--rm", image, "seven", "/workload", "exit", "7"]).unwrap();
    assert_eq!(output.status.code(), Some(7));
    instance.stop().unwrap();
}

#[test]
fn container_runs_in_a_user_namespace() {
    let _alone = alone();
    let instance = start();
    let map = "0:100000:65536";
    let mapped = ["run", "--rm", "--remap-labels", "--uidmap", map, "--gidmap", map];
    let what = ["ferrolet.test/workload:1", "mapped", "/workload", "args", "mapped"];
    let output = instance.ctr(&[&mapped[..], &what[..]].concat()).unwrap();
    assert_eq!(printed(&output), "mapped\n");
    instance.stop().unwrap();
}

#[test]
fn container_survives_a_killed_containerd() {
    let _alone = alone();
    let mut instance = start();
    run_sleeper(&instance, "steady");
    let before = instance.containerd().unwrap().pid();
    instance.restart_containerd().unwrap();
    assert_ne!(instance.containerd().unwrap().pid(), before);
    assert!(is_running(&instance, "steady"));
    instance.stop().unwrap();
}

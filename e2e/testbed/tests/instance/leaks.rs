//! Nothing of an instance stays on the host, however it ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Component, ControlPlaneOptions, Instance, MARKER, Options, Runtime, Snapshot};

use crate::{TESTBED, alone, eventually, printed, run_sleeper, start};

const PATIENCE: Duration = Duration::from_mins(1);

fn restored(before: &Snapshot, slots: impl IntoIterator<Item = u8>) {
    let slots = slots.into_iter().collect();
    before.wait_restored(&slots, PATIENCE).unwrap_or_else(|error| panic!("{error}"));
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// Whether the process runs. A zombie does not.
fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains("zombie"))
}

#[test]
fn clean_stop_leaves_nothing() {
    let _alone = alone();
    let before = Snapshot::take().unwrap();
    let instance = start();
    run_sleeper(&instance, "sleeper");
    // A frozen process does not die by itself.
    run_sleeper(&instance, "frozen");
    printed(&instance.ctr(&["tasks", "pause", "frozen"]).unwrap());
    let slot = instance.slot();
    instance.stop().unwrap();
    restored(&before, [slot]);
}

#[test]
fn dropped_instance_leaves_nothing() {
    let _alone = alone();
    let before = Snapshot::take().unwrap();
    let instance = start();
    let slot = instance.slot();
    drop(instance);
    restored(&before, [slot]);
}

/// A holder in a separate process, with a running container.
struct Holder {
    child: Child,
    slot: u8,
}

impl Holder {
    /// With a container and a control plane.
    fn start() -> Self {
        let ctr = "$0 --address $FERROLET_TESTBED_SOCKET --namespace k8s.io";
        let script = format!(
            "{ctr} run -d ferrolet.test/workload:1 c /workload sleep forever && \
             kubectl create namespace leak >&2 && \
             echo ${MARKER} && exec sleep 1000"
        );
        let ctr = testbed::Cache::from_env().unwrap().parts().program("ctr");
        let mut child = Command::new(TESTBED)
            .args(["run", "--control-plane", "sh", "-c", &script])
            .arg(ctr)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, slot: line.trim().parse().unwrap() }
    }
}

#[test]
fn holder_killed_with_container_and_control_plane_leaves_nothing() {
    let _alone = alone();
    let before = Snapshot::take().unwrap();
    let mut holder = Holder::start();
    let during = Snapshot::take().unwrap();
    let difference = during.difference(&before, &BTreeSet::from([holder.slot]));
    for kind in ["+ Process", "+ Namespace", "+ Cgroup", "+ Link flt-", "+ File"] {
        assert!(difference.contains(kind), "no {kind} in\n{difference}");
    }
    for component in Component::ALL {
        // The kernel truncates the name.
        let program: String = component.program().chars().take(15).collect();
        assert!(difference.contains(&program), "no {program} in\n{difference}");
    }
    holder.child.kill().unwrap();
    holder.child.wait().unwrap();
    restored(&before, [holder.slot]);
}

#[test]
fn holder_killed_at_any_moment_of_the_start_leaves_nothing() {
    let _alone = alone();
    let before = Snapshot::take().unwrap();
    for milliseconds in [1, 5, 10, 20, 40, 60, 80, 120, 200, 400, 800] {
        let mut child = Command::new(TESTBED).args(["run", "sleep", "1000"]).spawn().unwrap();
        // This is not a wait for an event: the moment is arbitrary.
        thread::sleep(Duration::from_millis(milliseconds));
        let supervisor = supervisor_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        let mut slots = BTreeSet::new();
        eventually("the end of the supervisor", || {
            slots.extend(supervisor.and_then(slot_held_by));
            (!supervisor.is_some_and(is_alive)).then_some(())
        });
        restored(&before, slots);
    }
}

/// The child of `holder` that supervises.
fn supervisor_of(holder: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(|pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{holder}"))
    })
}

/// The slot whose lock the supervisor has open.
fn slot_held_by(supervisor: u32) -> Option<u8> {
    let files = fs::read_dir(format!("/proc/{supervisor}/fd")).ok()?.flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).find_map(|path| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("slot-")?.strip_suffix(".lock")?.parse().ok()
    })
}

#[test]
fn next_start_removes_leftovers_of_a_killed_supervisor() {
    let _alone = alone();
    let before = Snapshot::take().unwrap();
    let mut instance = start();
    run_sleeper(&instance, "sleeper");
    let (slot, dir) = (instance.slot(), instance.dir().to_owned());
    kill(instance.supervisor_pid());
    // Pid 1 ends with its supervisor, and all processes with pid 1.
    eventually("the end of pid 1", || instance.restart_containerd().err());
    eventually("the end of all processes", || {
        let now = Snapshot::take().unwrap().difference(&before, &BTreeSet::from([slot]));
        (!now.contains("+ Process") && !now.contains("+ Namespace")).then_some(())
    });
    assert!(dir.exists(), "no process was left to remove it");
    assert!(instance.stop().is_err(), "a killed supervisor reports nothing");

    let next = start();
    let slots = [slot, next.slot()];
    next.stop().unwrap();
    restored(&before, slots);
}

#[test]
fn control_plane_ends_with_its_killed_supervisor_and_its_files_are_removed() {
    let _alone = alone();
    let before = Snapshot::take().unwrap();
    let options = Options { runtime: Runtime::None, ..Options::default() };
    let instance = Instance::start(&options).unwrap();
    instance.start_control_plane(&ControlPlaneOptions::default()).unwrap();
    let slot = instance.slot();
    kill(instance.supervisor_pid());
    eventually("the end of all processes", || {
        let now = Snapshot::take().unwrap().difference(&before, &BTreeSet::from([slot]));
        (!now.contains("+ Process") && !now.contains("+ Namespace")).then_some(())
    });
    assert!(instance.stop().is_err(), "a killed supervisor reports nothing");
    let next = Instance::start(&options).unwrap();
    let slots = [slot, next.slot()];
    next.stop().unwrap();
    restored(&before, slots);
}

#[test]
fn frozen_container_of_a_killed_supervisor_is_removed() {
    let _alone = alone();
    let before = Snapshot::take().unwrap();
    let instance = start();
    run_sleeper(&instance, "frozen");
    printed(&instance.ctr(&["tasks", "pause", "frozen"]).unwrap());
    let slot = instance.slot();
    kill(instance.supervisor_pid());
    assert!(instance.stop().is_err(), "a killed supervisor reports nothing");
    let next = start();
    let slots = [slot, next.slot()];
    next.stop().unwrap();
    restored(&before, slots);
}

/// Removes everything that the test below leaves on purpose, even if an assertion fails.
struct Undo(Vec<Vec<String>>);

impl Drop for Undo {
    fn drop(&mut self) {
        for argv in self.0.iter().rev() {
            Command::new(&argv[0]).args(&argv[1..]).status().ok();
        }
    }
}

#[test]
fn snapshot_comparison_finds_leftovers() {
    let _alone = alone();
    let before = Snapshot::take().unwrap();
    let own = std::process::id();
    let link = format!("fltx-{own}");
    let v1 = PathBuf::from("/sys/fs/cgroup/pids");
    let hierarchy = if v1.exists() { v1 } else { PathBuf::from("/sys/fs/cgroup") };
    let dir = hierarchy.join(format!("ferrolet-leak-{own}"));
    let dir = dir.to_str().unwrap();
    let mount = std::env::temp_dir().join(format!("ferrolet-leak-{own}"));
    let mount = mount.to_str().unwrap();
    let argv = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let leave = [
        (
            argv(&["ip", "link", "add", &link, "type", "bridge"]),
            argv(&["ip", "link", "delete", &link]),
        ),
        (argv(&["mkdir", dir]), argv(&["rmdir", dir])),
        (argv(&["mkdir", mount]), argv(&["rmdir", mount])),
        (argv(&["mount", "-t", "tmpfs", "none", mount]), argv(&["umount", mount])),
    ];
    let mut undo = Undo(Vec::new());
    for (make, unmake) in leave {
        assert!(Command::new(&make[0]).args(&make[1..]).status().unwrap().success(), "{make:?}");
        undo.0.push(unmake);
    }
    let mut process =
        Command::new("unshare").args(["--net", "sleep", "1000"]).env(MARKER, "63").spawn().unwrap();
    undo.0.push(argv(&["kill", &process.id().to_string()]));

    let wanted = [
        format!("+ Link {link}\n"),
        format!("+ Cgroup {dir}\n"),
        format!("+ Mount tmpfs on {mount}\n"),
        format!("+ Process {} sleep", process.id()),
        "+ Namespace net:[".to_owned(),
    ];
    let slots = BTreeSet::from([63]);
    eventually("a difference with everything in it", || {
        let difference = Snapshot::take().unwrap().difference(&before, &slots);
        wanted.iter().all(|line| difference.contains(line)).then_some(())
    });
    let error = before.wait_restored(&slots, Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains(&link), "{error}");
    drop(undo);
    process.wait().unwrap();
    restored(&before, slots);
}

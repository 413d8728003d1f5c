//! From the kernel's start to a node on which programs can run.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_move,
};
use rustix::process::{WaitOptions, chdir, chroot, wait};
use rustix::system::finit_module;

use guest::{INIT, MODULES, PROGRAM};

const CGROUPS: &str = "/sys/fs/cgroup";

/// The mounts for any program that is pid 1: type and mount point.
const MOUNTS: [(&str, &str); 4] =
    [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run")];

/// The mounts that pid 1 of a node makes itself.
const NODE_MOUNTS: [(&str, &str); 4] = [
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("securityfs", "/sys/kernel/security"),
    ("cgroup2", CGROUPS),
];

/// Prepares the machine; returns when the program that serves the test has ended.
pub(crate) fn run() -> Result<()> {
    leave_initial_root().context("leave the initial root")?;
    for (kind, place) in MOUNTS {
        put(kind, place)?;
    }
    load_modules()?;
    if let Some(init) = std::env::var_os(INIT) {
        let error = Command::new(&init).env_remove(INIT).exec();
        return Err(error).with_context(|| format!("become {}", init.display()));
    }
    for (kind, place) in NODE_MOUNTS {
        put(kind, place)?;
    }
    mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)
        .context("share the mounts")?;
    look_after(serve()?)
}

/// A process whose root is the kernel's first one cannot change it, as a container must. Mounting the same files once
/// more makes a root that can be changed.
fn leave_initial_root() -> Result<()> {
    let place = "/root";
    fs::create_dir_all(place)?;
    mount_bind("/", place)?;
    chdir(place)?;
    mount_move(".", "/")?;
    chroot(".")?;
    chdir("/")?;
    Ok(())
}

fn put(kind: &str, place: &str) -> Result<()> {
    let options: Option<&CStr> = (kind == "tmpfs").then_some(c"mode=0755");
    fs::create_dir_all(place).with_context(|| format!("make {place}"))?;
    mount(kind, place, kind, MountFlags::empty(), options)
        .with_context(|| format!("mount {kind} on {place}"))
}

fn load_modules() -> Result<()> {
    let list = fs::read_to_string(MODULES).with_context(|| format!("read {MODULES}"))?;
    for path in list.lines() {
        let file = File::open(path).with_context(|| format!("open {path}"))?;
        finit_module(&file, c"", 0).with_context(|| format!("load {path}"))?;
    }
    Ok(())
}

/// Starts the program that serves the test, in its own cgroup, which everything it starts inherits.
fn serve() -> Result<i32> {
    let cgroup = format!("{CGROUPS}/init");
    fs::create_dir(&cgroup).with_context(|| format!("make {cgroup}"))?;
    let procs = format!("{cgroup}/cgroup.procs");
    fs::write(&procs, "1").with_context(|| format!("write {procs}"))?;
    let child = Command::new(PROGRAM)
        .arg("serve")
        .spawn()
        .context("start the program that serves the test")?;
    // Reaped below, with all others.
    Ok(child.id().cast_signed())
}

/// Reaps processes until `pid` has ended.
fn look_after(pid: i32) -> Result<()> {
    loop {
        let ended = wait(WaitOptions::empty()).context("wait for children")?;
        if ended.is_some_and(|(ended, _)| ended.as_raw_pid() == pid) {
            return Ok(());
        }
    }
}

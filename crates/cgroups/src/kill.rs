//! Kills the processes of a cgroup.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::beneath;

/// The processes in a cgroup itself.
pub(crate) fn processes(directory: &OwnedFd) -> BTreeSet<i32> {
    let text = beneath::read(directory, "cgroup.procs").unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Kills the processes of a cgroup and, if the kernel supports that directly, below it. Returns the processes.
pub(crate) fn kill(directory: &OwnedFd) -> BTreeSet<i32> {
    let found = processes(directory);
    if beneath::write(directory, "cgroup.kill", "1").is_ok() {
        return found;
    }
    // A frozen process does not die.
    if beneath::read(directory, "freezer.state").is_ok_and(|state| state.trim() != "THAWED") {
        // If it stays frozen, its processes are reported as still alive.
        beneath::write(directory, "freezer.state", "THAWED").ok();
    }
    // 0 stands for a process that is not visible from here.
    let named = found.iter().filter_map(|pid| Pid::from_raw(*pid));
    let handles: Vec<(i32, OwnedFd)> = named
        .filter_map(|pid| {
            Some((pid.as_raw_nonzero().get(), pidfd_open(pid, PidfdFlags::empty()).ok()?))
        })
        .collect();
    // Checked again: a reused process id is no longer in this cgroup.
    let still = processes(directory);
    for (pid, handle) in handles {
        if still.contains(&pid) {
            // It may have exited by itself; the caller checks again.
            pidfd_send_signal(handle, Signal::KILL).ok();
        }
    }
    found
}

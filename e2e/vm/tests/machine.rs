//! A machine without a node. Needs the parts that `make testbed` puts into the cache.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use testbed::wait;
use vm::{Machine, Root, Vm};

const LONG: Duration = Duration::from_secs(30);

fn small() -> Machine {
    Machine { mebibytes: 256, processors: 1, modules: vec!["overlay"], init: None, parameters: "" }
}

/// Whether a process runs and is not a zombie.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn machine_has_cgroup_v2_serves_requests_and_ends_with_its_holder() -> Result<()> {
    let mut root = Root::default();
    root.program("/bin/sh", Path::new("/bin/sh"))?;
    root.text("/etc/greeting", "hello\n");
    let vm = Vm::boot(&small(), root)?;

    let controllers = vm.read("/sys/fs/cgroup/cgroup.controllers")?;
    for controller in ["cpu", "memory", "pids", "io", "cpuset", "hugetlb"] {
        ensure!(controllers.split_whitespace().any(|has| has == controller), "{controllers}");
    }
    ensure!(vm.read("/proc/filesystems")?.contains("overlay"), "the module was loaded");
    ensure!(vm.read("/sys/module/apparmor/parameters/enabled")?.trim() == "Y");
    ensure!(vm.read("/proc/net/dev")?.lines().count() == 3, "there is no link but the loopback");
    ensure!(vm.read("/proc/self/cgroup")?.trim() == "0::/init");

    let ended = vm.run(&["/bin/sh", "-c", "read x </etc/greeting; echo $x; exit 3"], LONG)?;
    ensure!((ended.code, ended.stdout.as_str()) == (Some(3), "hello\n"), "{ended:?}");
    let late =
        vm.run(&["/bin/sh", "-c", "echo begun; while :; do :; done"], Duration::from_secs(2));
    let late = late.map_err(|error| format!("{error:#}"));
    ensure!(late.as_ref().is_err_and(|error| error.contains("begun")), "{late:?}");

    vm.write("/etc/node/one", "1\n")?;
    vm.write("/etc/node/deep/two", "2\n")?;
    ensure!(vm.directories("/etc/node")? == ["/etc/node/deep"]);
    vm.remove("/etc/node/one")?;
    ensure!(vm.read("/etc/node/one").is_err());

    let pid = vm.spawn(&["/bin/sh", "-c", "echo waits; read x < /run/never"], "/run/log")?;
    let failed = vm.wait(pid, LONG)?;
    ensure!(failed.is_some_and(|ended| ended.code != Some(0)), "there is no such file");
    let pid = vm.spawn(&["/bin/sh", "-c", "echo waits; while :; do :; done"], "/run/log")?;
    wait::until("the log says so", LONG, || {
        let log = vm.read("/run/log")?;
        Ok(if log == "waits\n" { Ok(()) } else { Err(log) })
    })?;
    ensure!(vm.wait(pid, Duration::ZERO)?.is_none(), "it still runs");
    vm.signal(pid, 9)?;
    let killed = vm.wait(pid, LONG)?;
    ensure!(killed.as_ref().is_some_and(|ended| ended.signal == Some(9)), "{killed:?}");

    vm.stop()
}

#[test]
fn machine_ends_when_dropped_and_when_its_holder_ends() -> Result<()> {
    let vm = Vm::boot(&small(), Root::default())?;
    let pid = vm.pid();
    ensure!(runs(pid));
    drop(vm);
    ensure!(!runs(pid));

    // A thread that ends without dropping it.
    let holder = std::thread::spawn(|| {
        Vm::boot(&small(), Root::default()).map(|vm| {
            let pid = vm.pid();
            std::mem::forget(vm);
            pid
        })
    });
    let pid = holder.join().expect("the thread does not panic")?;
    wait::until("the machine is gone", LONG, || {
        Ok(if runs(pid) { Err(format!("{pid} runs")) } else { Ok(()) })
    })
}

#[test]
fn machine_reports_why_it_cannot_start() -> Result<()> {
    let machine = Machine { modules: vec!["no_such_module"], ..small() };
    let error = Vm::boot(&machine, Root::default()).err().map(|error| format!("{error:#}"));
    ensure!(error.as_ref().is_some_and(|error| error.contains("no_such_module")), "{error:?}");
    let machine = Machine { init: Some("/no/such/init".to_owned()), ..small() };
    let error = Vm::boot(&machine, Root::default()).err().map(|error| format!("{error:#}"));
    let is_reported = error.as_ref().is_some_and(|error| error.contains("become /no/such/init"));
    ensure!(is_reported, "{error:?}");
    Ok(())
}

//! The testbed on the real system. Needs root and the parts that `make testbed` builds.
#![allow(
    clippy::disallowed_methods,
    reason = "tests of a tool that works on real files, processes and time"
)]
#![allow(clippy::unwrap_used, reason = "tests, with functions of their own beside them")]

mod command;
mod control_plane;
mod isolation;
mod leaks;
mod network;
mod workload;

use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Instance, Options};

/// The program under test, as cargo built it.
const TESTBED: &str = env!("CARGO_BIN_EXE_testbed");

/// One test of this program at a time: the leak tests inspect the whole host, and the leftovers of one of them must be
/// removed by its own next start. (`make test` runs the leak tests in a separate stage.)
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> Instance {
    Instance::start(&Options::default())
        .unwrap_or_else(|error| panic!("{:#}", anyhow::Error::from(error)))
}

/// Waits for a value; panics with `what` when it does not come.
fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(Instant::now() < end, "{what}: not within 30 s");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The output of a program; panics when it failed.
fn printed(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stdout}{stderr}", output.status);
    stdout
}

/// Starts a container that sleeps, and returns when it runs.
fn run_sleeper(instance: &Instance, name: &str) {
    let image = "ferrolet.test/workload:1";
    let output = instance.ctr(&["run", "-d", image, name, "/workload", "sleep", "forever"]);
    printed(&output.unwrap());
    eventually("a running container", || is_running(instance, name).then_some(()));
}

fn is_running(instance: &Instance, name: &str) -> bool {
    let tasks = printed(&instance.ctr(&["tasks", "ls"]).unwrap());
    tasks.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(name) && words.nth(1) == Some("RUNNING")
    })
}

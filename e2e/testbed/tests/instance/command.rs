//! `testbed run`, and its errors.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{TESTBED, alone, eventually};

fn run(script: &str) -> Child {
    Command::new(TESTBED)
        .args(["run", "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn command_output_and_exit_code_pass_through() {
    let _alone = alone();
    let mut child =
        run("read word; echo got $word from $(pwd); test -S $FERROLET_TESTBED_SOCKET && exit 42");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"tea\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("got tea from {}\n", here.display())
    );
    assert_eq!(output.status.code(), Some(42));
}

#[test]
fn sigint_and_sigterm_reach_the_command() {
    let _alone = alone();
    for (signal, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM")] {
        let mut child = run(&format!(
            "trap 'echo caught; exit 3' {name}; echo ready; while :; do sleep 0.1; done"
        ));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "caught");
        let status = eventually("the end of the command", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(3));
    }
}

#[test]
fn instance_files_are_kept_on_request() {
    let _alone = alone();
    let output =
        Command::new(TESTBED).args(["run", "true"]).env("FERROLET_KEEP", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let kept = text.lines().find_map(|line| line.split_once("are kept in ")).unwrap().1;
    let log = fs::read_to_string(Path::new(kept).join("log/containerd.log"));
    fs::remove_dir_all(kept).unwrap();
    assert!(log.unwrap().contains("containerd successfully booted"));
    assert!(output.status.success());
}

#[test]
fn missing_part_error_names_the_command_that_builds_it() {
    let cache = std::env::temp_dir().join(format!("testbed-empty-{}", std::process::id()));
    let output =
        Command::new(TESTBED).args(["run", "true"]).env("XDG_CACHE_HOME", &cache).output().unwrap();
    fs::remove_dir_all(&cache).unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let part = cache.join("ferrolet/testbed/bin/containerd");
    let wanted = format!("{} is missing: run `make testbed`", part.display());
    assert!(text.contains(&wanted), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn start_without_root_is_an_error() {
    // A copy that another user can run.
    let copy = std::env::temp_dir().join(format!("testbed-copy-{}", std::process::id()));
    fs::copy(TESTBED, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = Command::new(&copy)
        .args(["run", "true"])
        .uid(65_534)
        .current_dir("/")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    fs::remove_file(&copy).unwrap();
    assert!(text.contains("needs root"), "{text}");
    assert_eq!(status.code(), Some(1));
}

//! The program as a process: exit codes, output and signals.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests that run real processes, which a paused clock does not move"
)]

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn workload(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_workload"));
    command.args(arguments.split_whitespace());
    command
}

fn code(arguments: &str) -> Option<i32> {
    workload(arguments).output().unwrap().status.code()
}

fn stdout(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// A process that is killed when the test ends, however it ends.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(arguments: &str) -> Self {
        let mut child = workload(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has usually ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn exit_code_is_the_requested_one() {
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 42"), Some(42));
    assert_eq!(code("sleep 1ms"), Some(0));
    assert_eq!(code("crash-after 1ms"), Some(1));
    assert_eq!(code("crash-after 1ms 9"), Some(9));
}

#[test]
fn wrong_command_line_is_explained() {
    // All commands are listed only without one.
    for (arguments, explained) in
        [("nonsense", "workload: unknown command nonsense"), ("", "usage: workload")]
    {
        let output = workload(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(explained), "{arguments}: {text}");
    }
}

#[test]
fn files_are_copied_into_a_directory_or_to_a_path() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("one"), "1").unwrap();
    std::fs::create_dir(at("into")).unwrap();
    let place = place.path().display();
    assert_eq!(code(&format!("cp -f {place}/one {place}/into")), Some(0));
    assert_eq!(code(&format!("cp {place}/one {place}/into/two")), Some(0));
    assert_eq!(code(&format!("cp {place}/missing {place}/into")), Some(125));
    for name in ["into/one", "into/two"] {
        assert_eq!(std::fs::read_to_string(at(name)).unwrap(), "1", "{name}");
    }
    assert_eq!(std::fs::read_dir(at("into")).unwrap().count(), 2);
}

#[test]
fn served_page_is_fetched() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    assert_eq!(code(&format!("get localhost {port}")), Some(125));
    let mut server = Running::start(&format!("serve {port}"));
    assert_eq!(server.line(), format!("serving {port}"));
    let page = stdout(&mut workload(&format!("get localhost {port}")));
    assert_eq!(page, "127.0.0.1 HTTP/1.1 200 OK\n");
}

#[test]
fn environment_is_printed_sorted() {
    let printed = stdout(workload("env").env_clear().env("B", "2 3").env("A", "1").env("C", ""));
    assert_eq!(printed, "A=1\nB=2 3\nC=\n");
}

#[test]
fn arguments_are_printed_one_per_line() {
    assert_eq!(stdout(workload("args").args(["--a", "b c", ""])), "--a\nb c\n\n");
}

#[test]
fn logs_end_after_the_last_line() {
    assert_eq!(stdout(&mut workload("logs --rate max --count 3 --size 4")), "0 .\n1 .\n2 .\n");
    let output = workload("logs --rate 1000 --count 2 --stderr").output().unwrap();
    assert_eq!((output.stdout, output.stderr), (vec![], b"0\n1\n".to_vec()));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn sigterm_ends_logs_and_is_reported_as_the_exit_code() {
    let mut logs = Running::start("logs --rate 0.001");
    assert_eq!(logs.line(), "0");
    logs.send(Signal::TERM);
    assert_eq!(logs.end().code(), Some(143));
}

#[test]
fn trapped_signal_is_printed_and_sets_the_exit_code() {
    let mut trap = Running::start("trap USR1 --exit 5");
    assert_eq!(trap.line(), "trapping SIGUSR1");
    trap.send(Signal::USR1);
    assert_eq!(trap.line(), "received SIGUSR1");
    assert_eq!(trap.end().code(), Some(5));
}

#[test]
fn untrapped_signal_ends_the_process() {
    let mut trap = Running::start("trap USR1 --exit 5");
    trap.line();
    trap.send(Signal::TERM);
    assert_eq!(trap.end().code(), Some(143));
}

#[test]
fn signals_during_the_delay_are_printed_too() {
    let mut trap = Running::start("trap TERM INT --exit 5 --delay 1h");
    trap.line();
    trap.send(Signal::TERM);
    assert_eq!(trap.line(), "received SIGTERM");
    trap.send(Signal::INT);
    assert_eq!(trap.line(), "received SIGINT");
    assert_eq!(trap.child.try_wait().unwrap(), None, "the delay is not over");
}

#[test]
fn ignored_signal_has_no_effect() {
    let mut ignore = Running::start("ignore INT");
    assert_eq!(ignore.line(), "ignoring SIGINT");
    ignore.send(Signal::INT);
    // Signals that are pending together arrive by number: not ignored, SIGINT would give 130.
    ignore.send(Signal::TERM);
    assert_eq!(ignore.end().code(), Some(143));
}

#[test]
fn pause_exits_with_zero_on_sigterm() {
    let mut pause = Running::start("pause");
    assert_handled(&pause, Signal::TERM);
    pause.send(Signal::TERM);
    assert_eq!(pause.end().code(), Some(0));
}

#[test]
fn sleep_exits_on_sigterm_with_its_own_code() {
    let mut sleep = Running::start("sleep forever");
    assert_handled(&sleep, Signal::TERM);
    sleep.send(Signal::TERM);
    let status = sleep.end();
    assert_eq!((status.code(), status.signal()), (Some(143), None));
}

/// Waits until the process has a handler, without which the signal would just kill it.
fn assert_handled(running: &Running, signal: Signal) {
    let path = format!("/proc/{}/status", running.child.id());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let status = std::fs::read_to_string(&path).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let mask = u64::from_str_radix(caught.trim(), 16).unwrap();
        if mask & (1 << (signal.as_raw() - 1)) != 0 {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{signal:?} is not caught: {caught}");
        std::thread::yield_now();
    }
}

#[test]
fn line_is_appended_to_a_file_and_exit_code_is_the_requested_one() {
    let file = std::env::temp_dir().join(format!("workload-write-{}", std::process::id()));
    let write = |rest: &str| code(&format!("write {} {rest}", file.display()));
    assert_eq!((write("one"), write("two --exit 3")), (Some(0), Some(3)));
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(written, "one\ntwo\n");
}

#[test]
fn every_request_is_printed_and_gets_a_response() {
    use std::io::{Read as _, Write as _};
    // A port that was free a moment ago.
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let mut server = Running::start(&format!("serve {port}"));
    assert_eq!(server.line(), format!("serving {port}"));
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /bye HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(server.line(), "GET /bye HTTP/1.1");
    assert_handled(&server, Signal::TERM);
    server.send(Signal::TERM);
    assert_eq!(server.end().code(), Some(143));
}

#[test]
fn archive_is_unpacked_as_it_was_written() {
    use std::fs;
    use std::io::Write as _;
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fs::create_dir_all(from.join("sub")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("sub/file"), "x".repeat(100_000)).unwrap();
    let written = workload("tar cf -").arg(&from).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let mut unpacking = workload("tar -xmf - -C").arg(&to).stdin(Stdio::piped()).spawn().unwrap();
    unpacking.stdin.take().unwrap().write_all(&written.stdout).unwrap();
    assert!(unpacking.wait().unwrap().success());
    let unpacked = to.join(from.strip_prefix("/").unwrap()).join("sub/file");
    assert_eq!(fs::read(unpacked).unwrap().len(), 100_000);
}

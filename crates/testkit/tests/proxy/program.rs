//! The program: its start, control socket and end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tonic::Code;

use crate::pair::{LONG, Pair, client, version};

/// A running `cri-proxy`, which is killed on drop.
struct Program(Child);

impl Program {
    fn start(directory: &Path, runtime: &Path) -> (Self, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cri-proxy"))
            .arg("--socket")
            .arg(directory.join("proxy.sock"))
            .arg("--runtime")
            .arg(runtime)
            .arg("--control")
            .arg(directory.join("control.sock"))
            .args(["--fault", "Status=unavailable"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        (Self(child), ready)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already; then both calls fail, which is fine.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn control(directory: &Path, line: &str) -> Value {
    let mut stream = UnixStream::connect(directory.join("control.sock")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[tokio::test]
async fn faults_can_be_set_at_run_time_and_the_socket_is_removed() {
    let pair = Pair::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    // A proxy in front of a proxy is a proxy too.
    let (mut program, ready) = Program::start(directory.path(), &pair.socket());
    assert!(ready.starts_with("cri-proxy: ready on unix://"), "{ready:?}");
    let control = |line: &str| control(directory.path(), line);
    let left = json!({"left": ["Status=unavailable skip=0 times=1 after=0ms"], "late": 0});
    assert_eq!(control("faults"), left);
    assert_eq!(control("clear"), json!({"done": "clear"}));
    assert_eq!(control("fault Version=not-found"), json!({"done": "fault Version=not-found"}));
    let refused = control("fault Versions=hang");
    assert_eq!(refused, json!({"error": "the CRI has no method \"Versions\""}));

    let mut client = client(&directory.path().join("proxy.sock"));
    assert_eq!(client.version(version()).await.unwrap_err().code(), Code::NotFound);
    client.version(version()).await.unwrap();
    assert_eq!(pair.runtime_calls("Version"), 1);
    let counts = control("reset");
    assert_eq!((&counts["Version"]["calls"], &counts["Version"]["spoilt"]), (&json!(2), &json!(1)));
    assert_eq!(control("counts"), json!({}));
    client.version(version()).await.unwrap();
    assert_eq!(control("arrivals Version").as_array().unwrap().len(), 1);

    let pid = program.0.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let end = std::time::Instant::now() + LONG;
    let status = loop {
        if let Some(status) = program.0.try_wait().unwrap() {
            break status;
        }
        assert!(std::time::Instant::now() < end, "it did not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(status.success());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn invalid_command_line_is_explained() {
    let program = || Command::new(env!("CARGO_BIN_EXE_cri-proxy"));
    let output = program().args(["--socket", "/nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("--runtime is required") && words.contains("usage:"), "{words}");
    let output = program().arg("--help").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("usage: cri-proxy"));
}

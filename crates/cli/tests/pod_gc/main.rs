//! The process of `ferrolet pod-gc`, on an API server with rules set by the test.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]
#![allow(clippy::disallowed_methods, reason = "reads the files of the process")]

mod server;

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::server::{Rules, Server};

/// The time limit for work that takes the process seconds.
const PATIENCE: Duration = Duration::from_mins(1);

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrolet"));
    command
        .arg("pod-gc")
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

fn start(server: &Server, state: &Path, more: &[&str]) -> Child {
    let (address, state) = (format!("--master={}", server.address()), state.display());
    let state = format!("--state-dir={state}");
    let mut args = vec![address.as_str(), &state, "--secure-port=0"];
    args.extend_from_slice(more);
    program(&args).spawn().unwrap()
}

async fn ended(child: Child) -> (Option<i32>, String) {
    let output: Output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn terminate(child: &Child) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

// behaviour: PGC-113
#[tokio::test]
async fn unknown_flag_is_an_error_that_names_it() {
    let (code, error) = ended(program(&["--nonsense=1"]).spawn().unwrap()).await;
    assert_eq!((code, error.trim()), (Some(2), "ferrolet: unknown flag --nonsense"));
}

// behaviour: PGC-140
#[tokio::test]
async fn missing_kubeconfig_and_service_account_are_reported() {
    let state = tempfile::tempdir().unwrap();
    let state = format!("--state-dir={}", state.path().display());
    let mut command = program(&[&state, "--secure-port=0"]);
    for name in ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
        command.env_remove(name);
    }
    let (code, error) = ended(command.spawn().unwrap()).await;
    assert_eq!(code, Some(1), "{error}");
    let reported =
        "no kubeconfig is given, and the process does not run in a pod with a service account";
    assert!(error.contains("find the API server") && error.contains(reported), "{error}");
}

// behaviour: PGC-114
#[tokio::test]
async fn unhealthy_api_server_is_retried_for_ten_seconds() {
    let server = Server::start(Rules { is_well: false, ..Rules::default() }).await;
    let state = tempfile::tempdir().unwrap();
    let begun = tokio::time::Instant::now();
    let (code, error) = ended(start(&server, state.path(), &[])).await;
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("is not healthy"), "{error}");
    let took = begun.elapsed().as_secs();
    assert!((9..30).contains(&took), "{took}");
}

// behaviour: PGC-64, PGC-65
#[tokio::test]
async fn lost_lease_exits_with_code_1() {
    let server = Server::start(Rules { lease_is_robbed: true, ..Rules::default() }).await;
    let state = tempfile::tempdir().unwrap();
    let (code, error) = ended(start(&server, state.path(), &[])).await;
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("leader election lost"), "{error}");
}

// behaviour: PGC-69
#[tokio::test]
async fn sigterm_releases_the_lease_and_exits_with_code_0() {
    let server = Server::start(Rules::default()).await;
    let state = tempfile::tempdir().unwrap();
    let child = start(&server, state.path(), &[]);
    server.until(|seen| seen.deleted.contains("a")).await;
    terminate(&child);
    let (code, error) = ended(child).await;
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(server.seen().holder.as_deref(), Some(""), "{error}");
}

// behaviour: PGC-69
#[tokio::test]
async fn sigterm_during_startup_releases_the_lease() {
    // It has the lease, and waits for the response to its leader election event.
    let server = Server::start(Rules { events_hang: true, ..Rules::default() }).await;
    let state = tempfile::tempdir().unwrap();
    let child = start(&server, state.path(), &["--leader-elect-retry-period=5s"]);
    server.until(|seen| seen.holder.as_ref().is_some_and(|holder| !holder.is_empty())).await;
    terminate(&child);
    let (code, error) = ended(child).await;
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(server.seen().holder.as_deref(), Some(""), "{error}");
    assert!(server.seen().deleted.is_empty(), "{error}");
}

// behaviour: PGC-95
#[tokio::test]
async fn invalid_selector_is_refused_before_any_request() {
    let server = Server::start(Rules::default()).await;
    let state = tempfile::tempdir().unwrap();
    let (code, error) = ended(start(&server, state.path(), &["--exclude-labels=a b"])).await;
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--exclude-labels: \"a b\" is no requirement"), "{error}");
    assert_eq!(server.seen().holder, None);
}

// behaviour: PGC-99, PGC-115
#[tokio::test]
async fn deletions_are_shown_after_a_kill() {
    let server = Server::start(Rules::default()).await;
    let state = tempfile::tempdir().unwrap();
    let mut child = start(&server, state.path(), &["--leader-elect=false"]);
    server.until(|seen| seen.deleted.contains("a")).await;
    // The entry in the journal follows the response to the deletion.
    let journal = state.path().join("journal");
    let recorded = async {
        while std::fs::read_dir(&journal).map_or(0, Iterator::count) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, recorded).await.unwrap();
    child.kill().await.unwrap();
    let state = format!("--state-dir={}", state.path().display());
    let why = program(&["why", "default/a", &state]).output();
    let output = timeout(PATIENCE, why).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("pod default/a was removed"), "{text}");
    assert!(text.contains("rule:  never-scheduled: phase Pending"), "{text}");
}

// behaviour: PGC-115
#[tokio::test]
async fn state_directory_in_use_is_refused() {
    let server = Server::start(Rules::default()).await;
    let state = tempfile::tempdir().unwrap();
    let _first = start(&server, state.path(), &["--leader-elect=false"]);
    server.until(|seen| seen.deleted.contains("a")).await;
    let (code, error) = ended(start(&server, state.path(), &["--leader-elect=false"])).await;
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("another process uses the state directory"), "{error}");
}

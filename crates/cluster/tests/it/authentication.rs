//! Authentication of the client, and its proxy.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use model::cluster::{PodRecord, Uid};
use model::ids::PodName;
use model::ports::cluster::{ApiError, Change, PodFeed as _, Sink};
use model::ports::pod_api::PodApi as _;
use tempfile::NamedTempFile;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::relay::Relay;
use crate::server::{Server, by_kubeconfig, lines, ok, refused};

const POD: &str = r#"{"metadata":{"name":"a","namespace":"ns","uid":"u1","resourceVersion":"8"},"spec":{"containers":[]}}"#;
const END: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

fn pod() -> PodName {
    PodName::new("ns", "a")
}

/// Counts complete lists.
#[derive(Debug, Default)]
struct ListCounter(watch::Sender<usize>);

impl Sink<PodRecord, Uid> for ListCounter {
    fn receive(&self, change: Change<PodRecord, Uid>) {
        if matches!(change, Change::Complete) {
            self.0.send_modify(|count| *count += 1);
        }
    }
}

// behaviour: NODE-43
#[tokio::test]
async fn every_call_has_a_user_agent() {
    let server = Server::start([ok(POD), lines(&[END])]).await;
    let cluster = server.cluster().await;
    cluster.patch_status(&pod(), "{}".to_owned()).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { cluster.follow_pods(&ListCounter::default()).await });
    server.paths(2).await;
    for requested in server.requested() {
        assert_eq!(requested.user_agent, "test/1", "{requested:?}");
    }
}

fn token() -> (NamedTempFile, String) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(b"one\n").unwrap();
    let user = format!("tokenFile: \"{}\"", file.path().display());
    (file, user)
}

/// Replaces the token.
fn rotate(file: &NamedTempFile) {
    file.as_file().write_all_at(b"two\n", 0).unwrap();
}

fn who(server: &Server) -> Vec<String> {
    server.requested().into_iter().map(|requested| requested.authorization).collect()
}

// behaviour: NODE-43
#[tokio::test]
async fn status_write_is_retried_with_a_new_token_after_a_refusal() {
    let server = Server::start([refused(401, "Unauthorized"), ok(POD)]).await;
    let (file, user) = token();
    let cluster = by_kubeconfig(server.address(), "", &user).await;
    rotate(&file);
    let error = cluster.patch_status(&pod(), "{}".to_owned()).await.unwrap_err();
    assert!(matches!(error, ApiError::Refused { code: 401, .. }), "{error:?}");
    cluster.patch_status(&pod(), "{}".to_owned()).await.unwrap();
    assert_eq!(who(&server), ["Bearer one", "Bearer two"]);
}

// behaviour: NODE-43
#[tokio::test]
async fn feed_resumes_with_a_new_token_after_a_refusal() {
    let script = [refused(401, "Unauthorized"), lines(&[END])];
    let server = Server::start(script).await;
    let (file, user) = token();
    let cluster = by_kubeconfig(server.address(), "", &user).await;
    rotate(&file);
    let lists = Arc::new(ListCounter::default());
    let (sink, mut tasks) = (Arc::clone(&lists), JoinSet::new());
    tasks.spawn(async move { cluster.follow_pods(&*sink).await });
    drop(lists.0.subscribe().wait_for(|count| *count == 1).await.unwrap());
    assert_eq!(who(&server)[..2], ["Bearer one", "Bearer two"]);
}

// behaviour: NODE-40
#[tokio::test]
async fn server_is_reached_through_the_kubeconfig_proxy() {
    let server = Server::start([ok(POD)]).await;
    let at = server.address().strip_prefix("http://").unwrap().parse().unwrap();
    let proxy = Relay::proxy(at).await;
    let more = format!(", proxy-url: \"http://me:secret@{}\"", proxy.address);
    // Only the proxy can resolve this name.
    let cluster = by_kubeconfig("http://api.invalid:6443", &more, "token: t").await;
    cluster.patch_status(&pod(), "{}".to_owned()).await.unwrap();
    let heads = proxy.heads.borrow().clone();
    assert_eq!(heads.len(), 1);
    assert!(heads[0].starts_with("CONNECT api.invalid:6443 HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads[0].to_lowercase().contains("proxy-authorization: basic "), "{heads:?}");
}

/// A plugin that prints another token at each run.
fn plugin(directory: &std::path::Path) -> String {
    let runs = directory.join("runs");
    let script = format!(
        "echo x >> {runs}; echo \\\"status: {{token: t$(wc -l < {runs})}}\\\"",
        runs = runs.display()
    );
    format!("exec: {{command: sh, args: [-c, \"{script}\"]}}")
}

// behaviour: NODE-70
#[tokio::test]
async fn plugin_token_is_sent_and_replaced_after_a_refusal() {
    let server = Server::start([ok(POD), refused(401, "Unauthorized"), ok(POD)]).await;
    let directory = tempfile::tempdir().unwrap();
    let cluster = by_kubeconfig(server.address(), "", &plugin(directory.path())).await;
    cluster.patch_status(&pod(), "{}".to_owned()).await.unwrap();
    cluster.patch_status(&pod(), "{}".to_owned()).await.unwrap_err();
    cluster.patch_status(&pod(), "{}".to_owned()).await.unwrap();
    assert_eq!(who(&server), ["Bearer t1", "Bearer t1", "Bearer t2"]);
}

// behaviour: NODE-70
#[tokio::test]
async fn plugin_is_not_run_with_a_token_file() {
    let server = Server::start([ok(POD)]).await;
    let directory = tempfile::tempdir().unwrap();
    let (_file, user) = token();
    let user = format!("{user}, {}", plugin(directory.path()));
    let cluster = by_kubeconfig(server.address(), "", &user).await;
    cluster.patch_status(&pod(), "{}".to_owned()).await.unwrap();
    assert_eq!(who(&server), ["Bearer one"]);
    assert!(!directory.path().join("runs").exists());
}

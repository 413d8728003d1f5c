//! Statuses and texts, with in-memory logs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus, Pod,
    PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ids::{ContainerId, PodUid};
use model::ports::clock::WallClock;
use model::ports::logs::{ContainerLogs, Ended, LogRequest};
use tokio::sync::watch;

use super::*;
use crate::parts::{LogPaths, PodAndStatus, PodView};
use crate::wire::RefusedManifest;

/// A node with the pod `shop/web`: `main` runs, `broken` waits for its image.
#[derive(Debug, Default)]
struct Node {
    /// Whether the log can be opened.
    unreadable: bool,
}

fn status(name: &str, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        name: name.to_owned(),
        container_id: Some("containerd://c1".to_owned()),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

impl PodView for Node {
    fn pods(&self) -> Vec<PodAndStatus> {
        let container = |name: &str| Container { name: name.to_owned(), ..Container::default() };
        let metadata = ObjectMeta {
            namespace: Some("shop".to_owned()),
            name: Some("web".to_owned()),
            uid: Some("uid-1".to_owned()),
            ..ObjectMeta::default()
        };
        let spec = PodSpec {
            containers: vec![container("main"), container("broken")],
            ..PodSpec::default()
        };
        let running = ContainerStateRunning::default();
        let running = ContainerState { running: Some(running), ..ContainerState::default() };
        let reason = Some("ErrImagePull".to_owned());
        let waiting = ContainerStateWaiting { reason, ..ContainerStateWaiting::default() };
        let waiting = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
        let statuses = vec![status("main", running), status("broken", waiting)];
        let status = PodStatus { container_statuses: Some(statuses), ..PodStatus::default() };
        let pod = Pod { metadata, spec: Some(spec), ..Pod::default() };
        vec![PodAndStatus { pod: Arc::new(pod), status: Some(Arc::new(status)) }]
    }

    fn refused(&self) -> Vec<RefusedManifest> {
        Vec::new()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }
}

impl LogPaths for Node {
    fn log_path(&self, _: &PodUid, id: &ContainerId) -> Option<PathBuf> {
        Some(PathBuf::from(format!("/var/log/pods/shop_web_uid-1/main/{id}.log")))
    }
}

fn failure() -> FileError {
    let source = std::io::Error::other("broken disk");
    FileError { operation: "read the log", path: "/var/log/pods/x/main/0.log".into(), source }
}

#[async_trait]
impl ContainerLogs for Node {
    async fn open(
        &self,
        _: &Path,
        request: &LogRequest,
        _: Option<Ended>,
    ) -> Result<LogText, FileError> {
        if self.unreadable {
            return Err(failure());
        }
        let shown = format!("{:?} {:?}\n", request.tail_lines, request.stream);
        let mut pieces = vec![Ok(shown.into_bytes())];
        if request.limit_bytes == Some(1) {
            pieces.push(Err(failure()));
        }
        Ok(stream::iter(pieces).boxed())
    }
}

impl WallClock for Node {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

async fn answer(node: Node, path: &str, query: &str, split_streams: bool) -> (u16, String) {
    let node = Arc::new(node);
    let parts = LogParts {
        pods: Arc::clone(&node) as _,
        log_paths: Arc::clone(&node) as _,
        logs: Arc::clone(&node) as _,
        clock: node,
    };
    let [namespace, pod, container] = path.split('/').collect::<Vec<_>>()[..] else {
        panic!("{path} has three names");
    };
    let path = ContainerLogPath {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
    };
    let answer = container_logs(&parts, &path, Some(query), split_streams).await;
    let content_type = answer.headers()["content-type"].to_str().unwrap();
    assert_eq!(content_type, "text/plain; charset=utf-8");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

// behaviour: LOG-1, LOG-3
#[tokio::test]
async fn errors_have_upstreams_statuses_and_texts() {
    let rows = [
        ("shop/web/main", "tailLines=x", 400, r#"{"message": "Unable to decode query."}"#),
        ("shop/web/main", "tailLines=-1", 422, r#"{"message": "Invalid request."}"#),
        ("shop/web/main", "stream=other", 422, r#"{"message": "Invalid request."}"#),
        ("shop//main", "", 400, r#"{"message": "Missing podID."}"#),
        ("shop/other/main", "", 404, r#"pod "other" does not exist"#),
        ("shop/web/other", "", 404, r#"container "other" not found in pod "web""#),
        (
            "shop/web/main",
            "previous=true",
            400,
            r#"previous terminated container "main" in pod "web" not found"#,
        ),
        (
            "shop/web/broken",
            "",
            400,
            r#"container "broken" in pod "web" is waiting to start: image can't be pulled"#,
        ),
        (
            "shop/web/main",
            "stream=Stdout",
            400,
            "unable to return the given log stream: \"Stdout\". \
             Please enable PodLogsQuerySplitStreams feature gate in kubelet",
        ),
    ];
    for (path, query, status, text) in rows {
        let expected = (status, text.to_owned());
        assert_eq!(answer(Node::default(), path, query, false).await, expected, "{path}?{query}");
    }
}

#[tokio::test]
async fn log_is_read_with_the_query_options() {
    let rows = [
        ("tail=3&tailLines=5", "Some(3) All\n"),
        ("tail=all&tailLines=5", "None All\n"),
        ("stream=Stderr", "None Stderr\n"),
    ];
    for (query, text) in rows {
        let found = answer(Node::default(), "shop/web/main", query, true).await;
        assert_eq!(found, (200, text.to_owned()), "{query}");
    }
}

// behaviour: LOG-4
#[tokio::test]
async fn error_after_the_container_was_found_is_text_at_the_end() {
    let found = answer(Node { unreadable: true }, "shop/web/main", "", false).await;
    assert_eq!(found, (200, "unable to retrieve container logs for containerd://c1".to_owned()));
    let found = answer(Node::default(), "shop/web/main", "limitBytes=1", false).await;
    let text = "None All\nfailed to read log file \"/var/log/pods/x/main/0.log\": broken disk";
    assert_eq!(found, (200, text.to_owned()));
}

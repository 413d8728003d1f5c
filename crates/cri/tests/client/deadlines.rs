//! Deadlines and cancellation of calls.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use ::cri::{CriRuntime, Deadlines};
use model::ports::runtime::{Code, ContainerService, ImageService, RuntimeInfo, SandboxService};
use proto::runtime_v1 as cri;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::methods::{Class, METHODS, call};
use crate::server::{Log, Server};
use crate::wanted::sandbox_config;

const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn every_method_sends_its_deadline_plus_one_second() {
    let grace = Duration::from_secs(30);
    for (service, method, _, class) in METHODS {
        let server = Server::running();
        let client = server.client_within(Duration::from_secs(40));
        call(&client, method, grace).await.unwrap_err();
        let calls = server.calls();
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert_eq!(calls[0].path, format!("/runtime.v1.{service}/{method}"));
        let expected = match class {
            Class::Request => Some("41000000u"),
            Class::Sandbox => Some("81000000u"),
            Class::Stop | Class::Exec => Some("71000000u"),
            Class::Pull => Some("3601000m"),
        };
        assert_eq!(calls[0].timeout.as_deref(), expected, "{method}");
    }
}

#[tokio::test]
async fn deadlines_of_any_length_are_sent() {
    let rows = [
        (Duration::from_secs(100_000), "100061S"),
        (Duration::from_secs(100_000) + SHORT, "100061S"),
        (Duration::MAX, "90000001S"),
    ];
    for (grace, expected) in rows {
        let server = Server::running();
        server.client().stop_container(&"c1".into(), grace).await.unwrap_err();
        assert_eq!(server.calls()[0].timeout.as_deref(), Some(expected), "{grace:?}");
    }
}

#[tokio::test]
async fn hanging_call_ends_at_the_deadline_of_its_class() {
    let server = Server::running();
    let deadlines = Deadlines { request: SHORT, pull: 4 * SHORT };
    let client = CriRuntime::new(&server.endpoint(), &server.endpoint(), deadlines);
    for (_, method, object, class) in METHODS {
        let deadline = match class {
            Class::Request => SHORT,
            Class::Sandbox => 2 * SHORT,
            Class::Stop | Class::Exec => 3 * SHORT,
            Class::Pull => 4 * SHORT,
        };
        server.hang(method);
        let start = Instant::now();
        let error = call(&client, method, 2 * SHORT).await.unwrap_err();
        assert!(start.elapsed() >= deadline, "{method}");
        assert_eq!((error.method, error.object.as_str()), (method, object));
        assert_eq!(error.code, Code::DeadlineExceeded, "{error}");
        assert_eq!(error.message, "context deadline exceeded");
    }
}

#[tokio::test]
async fn late_call_is_cancelled_in_the_runtime_and_the_next_works() {
    let server = Server::running();
    let client = server.client_within(SHORT);
    server.hang("Version");
    // On a busy machine a call may time out before it is sent.
    while server.calls().is_empty() {
        client.version().await.unwrap_err();
    }
    server.until("cancelled", |log| log.cancelled.len() == log.calls.len()).await;
    // A pull has a long deadline, so a busy machine does not fail it.
    server.answer("PullImage", &cri::PullImageResponse { image_ref: "sha256:beef".into() });
    client.pull_image("busybox", None, None).await.unwrap();
}

#[tokio::test]
async fn pull_outlasts_other_deadlines_and_delays_no_other_call() {
    let server = Server::running();
    let client = server.client_within(SHORT);
    server.hang("PullImage");
    server.hang("Version");
    let pull = client.pull_image("busybox", None, None);
    let others = async {
        server.until("the pull", |log| log.calls.len() == 1).await;
        for _ in 0..5 {
            let error = client.version().await.unwrap_err();
            assert_eq!(error.code, Code::DeadlineExceeded);
        }
        server.answer("PullImage", &cri::PullImageResponse { image_ref: "sha256:beef".into() });
    };
    let (pulled, ()) = tokio::join!(pull, others);
    assert_eq!(pulled.unwrap(), "sha256:beef");
}

#[tokio::test]
async fn dropped_call_is_cancelled_in_the_runtime() {
    let server = Server::running();
    let client = server.client();
    server.hang("RunPodSandbox");
    server.hang("PullImage");
    let config = sandbox_config();
    tokio::select! {
        // Polled first, so that both are in progress.
        biased;
        result = client.run_pod_sandbox(&config) => panic!("{result:?}"),
        result = client.pull_image("busybox", None, None) => panic!("{result:?}"),
        () = server.until("both calls", |log| log.calls.len() == 2) => {}
    }
    let both = |log: &Log| {
        let mut cancelled = log.cancelled.clone();
        cancelled.sort();
        cancelled == ["PullImage", "RunPodSandbox"]
    };
    server.until("both cancelled", both).await;
    server.answer("Version", &cri::VersionResponse::default());
    client.version().await.unwrap();
}

#[tokio::test]
async fn runtime_that_does_not_accept_connections_times_out() {
    let server = Server::absent();
    let listener = UnixListener::bind(server.socket()).unwrap();
    let error = server.client_within(SHORT).version().await.unwrap_err();
    assert_eq!(error.code, Code::DeadlineExceeded, "{error}");
    drop(listener);
}

#[tokio::test]
async fn call_times_out_when_the_agent_itself_was_delayed() {
    let server = Server::running();
    let client = server.client_within(10 * SHORT);
    server.hang("Version");
    let held_up = async {
        server.until("the call", |log| log.calls.len() == 1).await;
        // Longer than the deadline sent to the runtime: it gives up the call too, and when this task continues,
        // its response and all timers are ready at once.
        std::thread::sleep(10 * SHORT + Duration::from_millis(1100));
    };
    let (result, ()) = tokio::join!(client.version(), held_up);
    let error = result.unwrap_err();
    assert_eq!(error.code, Code::DeadlineExceeded, "{error}");
    assert_eq!(error.message, "context deadline exceeded");
}

#[tokio::test]
async fn calls_above_the_stream_limit_are_queued() {
    let server = Server::running();
    let client = server.client();
    server.hang("Version");
    let mut calls = JoinSet::new();
    for _ in 0..500 {
        let client = client.clone();
        calls.spawn(async move { client.version().await });
    }
    server.until("as many as it takes", |log| log.calls.len() >= 100).await;
    server.answer("Version", &cri::VersionResponse::default());
    for answer in calls.join_all().await {
        answer.unwrap();
    }
}

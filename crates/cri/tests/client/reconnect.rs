//! A runtime that stops and starts.

use std::io::Write;
use std::os::unix::net::UnixListener;

use model::ports::runtime::{Code, RuntimeError, RuntimeInfo};
use proto::runtime_v1 as cri;

use crate::server::Server;

fn with_version(server: Server) -> Server {
    server.answer("Version", &cri::VersionResponse::default());
    server
}

/// The error names the socket and the cause.
fn assert_unavailable(error: &RuntimeError, server: &Server, words: &str) {
    assert_eq!(error.code, Code::Unavailable, "{error}");
    let socket = server.socket();
    assert!(error.message.contains(socket.to_str().unwrap()), "{error}");
    assert!(error.message.contains(words), "{error}");
    assert!(!error.message.contains("transport error"), "{error}");
}

#[tokio::test]
async fn runtime_that_starts_later_is_reached() {
    let mut server = with_version(Server::absent());
    let client = server.client();
    for _ in 0..2 {
        let error = client.version().await.unwrap_err();
        let socket = server.socket();
        let expected =
            format!("connect to {}: No such file or directory (os error 2)", socket.display());
        assert_eq!((error.code, error.message), (Code::Unavailable, expected));
    }
    server.start();
    client.version().await.unwrap();
}

#[tokio::test]
async fn stopped_runtime_is_unavailable_until_it_is_back() {
    let mut server = with_version(Server::running());
    let client = server.client();
    client.version().await.unwrap();
    for _ in 0..3 {
        server.stop();
        // The first call may still use the old connection.
        let error = client.version().await.unwrap_err();
        assert_unavailable(&error, &server, "");
        let error = client.version().await.unwrap_err();
        assert_unavailable(&error, &server, "Connection refused");
        server.start();
        client.version().await.unwrap();
    }
}

#[tokio::test]
async fn unnoticed_runtime_restart_fails_at_most_one_call() {
    let mut server = with_version(Server::running());
    let client = server.client();
    for _ in 0..10 {
        client.version().await.unwrap();
        server.stop();
        server.start();
        if let Err(error) = client.version().await {
            assert_unavailable(&error, &server, "");
        }
    }
    client.version().await.unwrap();
}

#[tokio::test]
async fn runtime_restart_while_idle_fails_no_call() {
    let mut server = with_version(Server::running());
    let client = server.client();
    client.version().await.unwrap();
    server.stop();
    server.start();
    // A round trip of another client gives the first client's connection time to notice its end.
    server.client().version().await.unwrap();
    client.version().await.unwrap();
}

#[tokio::test]
async fn call_in_progress_is_unavailable_when_the_runtime_dies() {
    let mut server = with_version(Server::running());
    let client = server.client();
    server.hang("Status");
    let dies = async {
        server.until("the call", |log| log.calls.len() == 1).await;
        server.stop();
    };
    let (result, ()) = tokio::join!(client.status(), dies);
    let error = result.unwrap_err();
    assert_unavailable(&error, &server, "broke off");
    assert!(error.may_have_happened());
    server.start();
    client.version().await.unwrap();
}

#[tokio::test]
async fn non_grpc_server_is_unavailable() {
    let server = Server::absent();
    let listener = UnixListener::bind(server.socket()).unwrap();
    let other_server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let error = server.client().version().await.unwrap_err();
    assert_unavailable(&error, &server, "broke off");
    other_server.join().unwrap();
}

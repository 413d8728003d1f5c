//! The health port.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::harness::PATIENCE;

/// The port of an agent.
struct Port {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Port {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(server::serve_health_on(listener, CancellationToken::new()));
        Self { address, _tasks: tasks }
    }

    async fn get(&self, path: &str) -> String {
        let requesting = async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        timeout(PATIENCE, requesting).await.expect("an answer in time")
    }
}

// behaviour: NODE-59
#[tokio::test]
async fn health_port_has_ping_and_nothing_else() {
    let port = Port::open().await;
    for path in ["/healthz", "/healthz/ping"] {
        let answer = port.get(path).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    }
    let verbose = port.get("/healthz?verbose").await;
    assert!(verbose.ends_with("\r\n\r\n[+]ping ok\nhealthz check passed\n"), "{verbose}");
    for path in ["/healthz/syncloop", "/healthz/PLEG", "/healthzy", "/pods", "/metrics"] {
        let answer = port.get(path).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
}

// behaviour: NODE-62
#[tokio::test]
async fn health_is_served_while_idle_connections_hold_all_slots() {
    let port = Port::open().await;
    let mut idle = Vec::new();
    for _ in 0..2 * server::MOST_CONNECTIONS {
        idle.push(TcpStream::connect(port.address).await.unwrap());
    }
    // Well before the other requests time out.
    let answer = timeout(Duration::from_secs(5), port.get("/healthz")).await;
    let answer = answer.expect("an answer beside idle connections");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The oldest connections were closed.
    let mut rest = Vec::new();
    let closed = timeout(PATIENCE, idle[0].read_to_end(&mut rest)).await.expect("closed in time");
    assert!(closed.is_err() || rest.is_empty(), "{rest:?}");
}

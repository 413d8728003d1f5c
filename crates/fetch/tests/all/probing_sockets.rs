//! How the connections of probes end.

use std::time::Duration;

use fetch::ProbeDialer;
use model::ports::probes::{NetworkProbe, ProbeClient as _, TcpProbe};
use testkit::http::Page;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::probing_http::http;
use super::server::{Server, response};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(100);
const TIME_WAIT: u8 = 6;

/// One client socket.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    state: u8,
    /// 0 when no program has it open.
    inode: u64,
}

/// The client sockets of connections to a port on loopback.
#[expect(clippy::disallowed_methods, reason = "the kernel's table of sockets")]
fn clients_of(port: u16) -> Vec<Socket> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let peer = fields[2].rsplit(':').next().unwrap();
        let state = u8::from_str_radix(fields[3], 16).unwrap();
        let inode = fields[9].parse().unwrap();
        (peer == format!("{port:04X}")).then_some(Socket { state, inode })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// The client sockets of a port, once none is open any more.
async fn closed_clients_of(port: u16) -> Vec<Socket> {
    loop {
        let clients = clients_of(port);
        if clients.iter().all(|client| client.inode == 0) {
            return clients;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn time_waits_of(port: u16) -> usize {
    loop {
        let clients = clients_of(port);
        if clients.iter().all(|client| client.state == TIME_WAIT) {
            return clients.len();
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn tcp(port: u16) -> NetworkProbe {
    NetworkProbe::Tcp(TcpProbe { host: "127.0.0.1".to_owned(), port })
}

/// A server that closes when its client has closed.
async fn patient_server() -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                stream.read_u8().await.ok();
            });
        }
    });
    (port, tasks)
}

#[tokio::test]
async fn server_reads_the_whole_request_after_the_probe_has_timed_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dialer = ProbeDialer::default();
    let url = format!("http://127.0.0.1:{port}/{}", "x".repeat(10_000));
    dialer.probe(&http(url), SHORT).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    // The probe's socket is closed for good, and the server has read nothing yet.
    closed_clients_of(port).await;
    let mut request = String::new();
    stream.read_to_string(&mut request).await.unwrap();
    assert!(request.ends_with("\r\n\r\n"), "{} bytes", request.len());
}

#[tokio::test]
async fn server_that_speaks_first_is_not_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dialer = ProbeDialer::default();
    let served = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 ready\r\n").await.unwrap();
        let mut rest = Vec::new();
        // An RST would be an error here.
        stream.read_to_end(&mut rest).await.unwrap();
        stream.write_all(b"221 bye\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        rest
    };
    let probe = tcp(port);
    let (output, rest) = tokio::join!(dialer.probe(&probe, LONG), served);
    assert_eq!((output.unwrap().output, rest), (String::new(), Vec::new()));
}

#[tokio::test]
async fn probes_leave_no_more_time_waits_than_plain_connections() {
    const PROBES: usize = 500;
    let dialer = ProbeDialer::default();
    let (plain, _plain_server) = patient_server().await;
    let (probed, _probed_server) = patient_server().await;
    let web = Server::start(None).await;
    web.put("page", response(Page::ok("text")));
    let request = http(web.url("page"));
    for _ in 0..PROBES {
        drop(TcpStream::connect(("127.0.0.1", plain)).await.unwrap());
        dialer.probe(&tcp(probed), LONG).await.unwrap();
        dialer.probe(&request, LONG).await.unwrap();
    }
    let expected = time_waits_of(plain).await;
    assert!(time_waits_of(probed).await <= expected);
    // The server closes first, so that its side has the TIME_WAIT.
    let of_http = time_waits_of(web.port()).await;
    assert!(of_http <= PROBES / 10, "{of_http} of {PROBES}");
}

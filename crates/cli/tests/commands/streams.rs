//! Commands in containers and forwarded ports, with a small WebSocket server as the runtime's streaming server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::Parser as _;
use cli::commands::exec::{CommandExited, Outputs};
use cli::commands::{exec, port_forward};
use jiff::Timestamp;
use model::ids::{ContainerId, PodName, PodUid};
use model::observed::{Container, ContainerState, Sandbox, SandboxState};
use model::ports::runtime::{ExecOutput, RuntimeError};
use model::ports::streaming::{
    AttachRequest, CheckpointRequest, ExecRequest, PortForwardRequest, Session, SessionRecord,
    Streaming,
};
use server::streaming::{ClientConfig, StreamProxy, StreamTargets, StreamTls, Streams};
use server::{BrokenOff, PodView};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::node::Node;
use super::{OutputBuffer, PATIENCE, words};

#[derive(Debug, clap::Parser)]
struct Exec {
    #[command(flatten)]
    args: exec::Args,
}

#[derive(Debug, clap::Parser)]
struct PortForward {
    #[command(flatten)]
    args: port_forward::Args,
}

/// A runtime whose streams are at a URL.
#[derive(Debug)]
struct Runtime(String);

#[async_trait]
impl StreamTargets for Runtime {
    async fn running_containers(&self, pod: &PodUid) -> Result<Vec<Container>, RuntimeError> {
        Ok(vec![Container {
            id: "c1".into(),
            sandbox_id: "s1".into(),
            pod_uid: pod.clone(),
            pod: PodName::new("default", "web"),
            name: "main".into(),
            attempt: 0,
            state: ContainerState::Running,
            created_at: Timestamp::UNIX_EPOCH,
            image_ref: "image".into(),
        }])
    }

    async fn ready_sandboxes(&self, pod: &PodUid) -> Result<Vec<Sandbox>, RuntimeError> {
        Ok(vec![Sandbox {
            id: "s1".into(),
            pod_uid: pod.clone(),
            pod: PodName::new("default", "web"),
            attempt: 0,
            state: SandboxState::Ready,
            created_at: Timestamp::UNIX_EPOCH,
        }])
    }

    async fn exec_sync(&self, _: &ContainerId, _: &[String]) -> Result<ExecOutput, RuntimeError> {
        Ok(ExecOutput::default())
    }

    fn mirrored(&self, _: &PodUid) -> Option<PodUid> {
        None
    }
}

#[async_trait]
impl Streaming for Runtime {
    async fn exec(&self, _: &ExecRequest) -> Result<String, RuntimeError> {
        Ok(self.0.clone())
    }

    async fn attach(&self, _: &AttachRequest) -> Result<String, RuntimeError> {
        Ok(self.0.clone())
    }

    async fn port_forward(&self, _: &PortForwardRequest) -> Result<String, RuntimeError> {
        Ok(self.0.clone())
    }

    async fn checkpoint_container(&self, _: &CheckpointRequest) -> Result<(), RuntimeError> {
        Ok(())
    }
}

impl SessionRecord for Runtime {
    fn record_session(&self, session: &Session) {
        assert!(session.user.starts_with("local user "), "{session:?}");
    }
}

#[async_trait]
impl StreamTls for Runtime {
    async fn client_config(&self) -> Result<Arc<ClientConfig>, BrokenOff> {
        Err("no TLS here".into())
    }
}

/// Streams into the pods of a node, and the listener of the runtime's streaming server.
pub(crate) async fn streams(pods: Arc<dyn PodView>) -> (Arc<Streams>, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/stream/token", listener.local_addr().unwrap());
    let runtime = Arc::new(Runtime(url));
    let streams = Streams {
        pods,
        targets: Arc::clone(&runtime) as _,
        runtime: Arc::clone(&runtime) as _,
        sessions: Arc::clone(&runtime) as _,
        tls: runtime,
        proxy: StreamProxy::default(),
    };
    (Arc::new(streams), listener)
}

/// The server's side of a WebSocket.
struct Socket(TcpStream);

impl Socket {
    async fn accept(listener: &TcpListener) -> Self {
        let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("get /stream/token http/1.1\r\n"), "{head}");
        assert!(head.contains("sec-websocket-protocol: v4.channel.k8s.io\r\n"), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                      Connection: Upgrade\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        Self(stream)
    }

    async fn send(&mut self, channel: u8, bytes: &[u8]) {
        let length = u8::try_from(bytes.len() + 1).unwrap();
        assert!(length < 126);
        let frame = [&[0x82, length, channel][..], bytes].concat();
        self.0.write_all(&frame).await.unwrap();
    }

    async fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; 6];
        timeout(PATIENCE, self.0.read_exact(&mut header)).await.unwrap().unwrap();
        assert_eq!((header[0], header[1] & 0x80), (0x82, 0x80));
        let mut payload = vec![0; usize::from(header[1] & 0x7f)];
        self.0.read_exact(&mut payload).await.unwrap();
        (payload[0], payload[1..].to_vec())
    }

    async fn close(mut self) {
        self.0.write_all(&[0x88, 0]).await.unwrap();
        self.0.shutdown().await.unwrap();
    }
}

const EXITED: &str =
    r#"{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;

#[tokio::test]
async fn exec_forwards_streams_and_the_exit_code() {
    let node = Node::new();
    node.run("default", "web-node");
    let (streams, listener) = streams(node.pod_view()).await;
    let _server = node.start_with(Some(streams));
    let (input, receiver) = mpsc::channel(1);
    input.send(b"hello".to_vec()).await.unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let args = Exec::parse_from(words("web -i -c main -- cat")).args;
    let client = node.client();
    let outputs = Outputs { stdout: &mut stdout, stderr: &mut stderr };
    let running = exec::exec(&client, &args, Some(receiver), outputs);
    let runtime = async {
        let mut socket = Socket::accept(&listener).await;
        socket.send(1, b"").await;
        socket.send(1, b"out").await;
        socket.send(2, b"err").await;
        let (channel, bytes) = socket.receive().await;
        assert_eq!((channel, &bytes[..]), (0, &b"hello"[..]));
        socket.send(1, &bytes).await;
        socket.send(3, EXITED.as_bytes()).await;
        socket.close().await;
    };
    let (ended, ()) = tokio::join!(timeout(PATIENCE, running), runtime);
    let error = ended.unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<CommandExited>(), Some(&CommandExited(3)), "{error:#}");
    assert_eq!((stdout.as_slice(), stderr.as_slice()), (&b"outhello"[..], &b"err"[..]));
}

#[tokio::test]
async fn exec_error_of_the_agent_is_shown() {
    let node = Node::new();
    node.run("default", "web-node");
    let _server = node.start();
    let args = Exec::parse_from(words("web -- ls")).args;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let outputs = Outputs { stdout: &mut stdout, stderr: &mut stderr };
    let error = exec::exec(&node.client(), &args, None, outputs).await.unwrap_err();
    assert!(error.to_string().contains("the runtime has no streams"), "{error:#}");
}

#[tokio::test]
async fn port_forward_forwards_connections() {
    let node = Node::new();
    node.run("default", "web-node");
    let (streams, listener) = streams(node.pod_view()).await;
    let _server = node.start_with(Some(streams));
    let seen = OutputBuffer::default();
    let (client, mut out) = (Arc::new(node.client()), seen.clone());
    let args = PortForward::parse_from(words("web :80")).args;
    let forwarding = port_forward::port_forward(client, &args, &mut out);
    let test = async {
        seen.until(|text| text.contains("-> 80\n")).await;
        let text = seen.text();
        let port = text.split(&[':', ' '][..]).find_map(|word| word.parse::<u16>().ok()).unwrap();
        for _ in 0..2 {
            let mut connection = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            connection.write_all(b"ping").await.unwrap();
            let mut socket = Socket::accept(&listener).await;
            socket.send(0, &80_u16.to_le_bytes()).await;
            socket.send(1, &80_u16.to_le_bytes()).await;
            assert_eq!(socket.receive().await, (0, b"ping".to_vec()));
            socket.send(0, b"pong").await;
            socket.close().await;
            let mut answer = Vec::new();
            timeout(PATIENCE, connection.read_to_end(&mut answer)).await.unwrap().unwrap();
            assert_eq!(answer, b"pong");
        }
    };
    tokio::select! {
        ended = forwarding => panic!("{ended:?}"),
        () = test => {}
        () = tokio::time::sleep(PATIENCE + Duration::from_secs(1)) => panic!("it takes too long"),
    }
}

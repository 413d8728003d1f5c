//! `ferrolet port-forward`.

use std::fmt;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use podspec::view;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Place;
use super::agent::AgentClient;
use super::select::select;
use super::stream::Stream;
use super::websocket::Message;

/// The channels of a connection: its bytes, and an error.
const DATA: u8 = 0;
const ERROR: u8 = 1;

/// Both channels begin with the port number.
const PORT_BYTES: usize = 2;

/// The buffer size of a read.
const CHUNK: usize = 32 * 1024;

/// How long the pod may be silent after the client has closed its direction, which the protocol cannot forward.
const SILENCE: Duration = Duration::from_secs(30);

/// Options of `port-forward`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The pod, as NAME or NAMESPACE/NAME; the node's name suffix may be left out.
    pub pod: String,
    /// Namespace of the pod; any unless given.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Ports as LOCAL:REMOTE, PORT for the same one on both sides, or :REMOTE for any local one.
    #[arg(required = true, value_name = "LOCAL:REMOTE")]
    pub ports: Vec<PortPair>,
}

/// A local port and the port of the pod to which it is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortPair {
    /// On this machine; 0 for any.
    pub local: u16,
    /// In the pod.
    pub remote: u16,
}

/// The text is not a pair of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ports are written as LOCAL:REMOTE, PORT or :REMOTE")]
pub struct BadPorts;

impl FromStr for PortPair {
    type Err = BadPorts;

    fn from_str(text: &str) -> Result<Self, BadPorts> {
        let port = |text: &str| text.parse::<u16>().map_err(|_| BadPorts);
        let pair = match text.split_once(':') {
            None => Self { local: port(text)?, remote: port(text)? },
            Some(("", remote)) => Self { local: 0, remote: port(remote)? },
            Some((local, remote)) => Self { local: port(local)?, remote: port(remote)? },
        };
        if pair.remote == 0 { Err(BadPorts) } else { Ok(pair) }
    }
}

impl fmt::Display for PortPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forwarding from 127.0.0.1:{} -> {}", self.local, self.remote)
    }
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    port_forward(Arc::new(args.place.agent()), args, &mut io::stdout()).await
}

/// Forwards ports until the program is stopped.
pub async fn port_forward(
    agent: Arc<AgentClient>,
    args: &Args,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let pods = agent.pods().await?.items;
    let pod = select(pods, &args.pod, args.namespace.as_deref())?.pod;
    let name = view::pod_name(&pod);
    let mut serving = JoinSet::new();
    for PortPair { local, remote } in args.ports.iter().copied() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, local)).await;
        let listener = listener.with_context(|| format!("listen on 127.0.0.1:{local}"))?;
        let local = listener.local_addr().context("read the local port")?.port();
        writeln!(out, "{}", PortPair { local, remote })?;
        let path = format!("/portForward/{}/{}?port={remote}", name.namespace, name.name);
        serving.spawn(serve(listener, Arc::clone(&agent), path));
    }
    out.flush()?;
    match serving.join_next().await {
        Some(ended) => ended.context("forward a port")?,
        None => Ok(()),
    }
}

/// Forwards each connection over its own stream.
async fn serve(listener: TcpListener, agent: Arc<AgentClient>, path: String) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        // Biased: ended connections are few.
        let accepted = tokio::select! {
            biased;
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (socket, _) = accepted.context("accept a connection")?;
        let (agent, path) = (Arc::clone(&agent), path.clone());
        connections.spawn(async move {
            if let Err(error) = forward(socket, &agent, &path).await {
                eprintln!("ferrolet: {error:#}");
            }
        });
    }
}

async fn forward(mut socket: TcpStream, agent: &AgentClient, path: &str) -> Result<()> {
    let Stream { mut reader, mut writer } = Stream::open(agent, path).await?;
    let (mut from_client, mut to_client) = socket.split();
    let mut bytes = vec![0; CHUNK];
    let mut is_open = true;
    let mut skipped = [PORT_BYTES; 2];
    loop {
        let received = async {
            if is_open {
                return reader.next().await;
            }
            timeout(SILENCE, reader.next()).await.unwrap_or(Ok(None))
        };
        // Biased: output of the pod first, so that its end is noticed.
        tokio::select! {
            biased;
            message = received => match message? {
                None => break,
                Some(Message::Ping(payload)) => writer.pong(&payload).await?,
                Some(Message::Channel(channel @ (DATA | ERROR), bytes)) => {
                    let port = &mut skipped[usize::from(channel)];
                    let begin = bytes.len().min(*port);
                    *port -= begin;
                    match &bytes[begin..] {
                        [] => {}
                        bytes if channel == DATA => to_client.write_all(bytes).await?,
                        error => eprintln!("ferrolet: {}", String::from_utf8_lossy(error)),
                    }
                }
                Some(_) => {}
            },
            length = from_client.read(&mut bytes), if is_open => match length? {
                0 => is_open = false,
                length => writer.send(DATA, &bytes[..length]).await?,
            },
        }
    }
    // The pod may be gone.
    writer.close().await.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_arguments_are_parsed_as_pairs() {
        let rows = [
            ("8080:80", Ok(PortPair { local: 8080, remote: 80 })),
            ("80", Ok(PortPair { local: 80, remote: 80 })),
            (":80", Ok(PortPair { local: 0, remote: 80 })),
            ("0:80", Ok(PortPair { local: 0, remote: 80 })),
            ("80:", Err(BadPorts)),
            ("80:0", Err(BadPorts)),
            ("http", Err(BadPorts)),
            ("1:2:3", Err(BadPorts)),
            ("65536", Err(BadPorts)),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse::<PortPair>(), expected, "{text}");
        }
    }
}

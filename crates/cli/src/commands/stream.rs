//! Streams into pods through a running agent.

use std::io;

use anyhow::{Context as _, Result, bail};
use http_body_util::{BodyExt as _, Collected, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::task::JoinSet;

use super::agent::{AgentClient, AgentError};
use super::websocket::{Decoder, KEY, Message, PROTOCOL, close, message, pong};

/// The maximum size of an error response.
const LONGEST_ERROR: usize = 64 * 1024;

/// The buffer size of a read.
const CHUNK: usize = 32 * 1024;

/// A WebSocket with channels.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) reader: StreamReader,
    pub(crate) writer: StreamWriter,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct StreamReader {
    half: ReadHalf<TokioIo<Upgraded>>,
    decoder: Decoder,
    buffer: Vec<u8>,
    /// Drives the connection until it is upgraded.
    _connection: JoinSet<()>,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct StreamWriter(WriteHalf<TokioIo<Upgraded>>);

impl Stream {
    /// Opens the stream of a path.
    pub(crate) async fn open(agent: &AgentClient, path: &str) -> Result<Self> {
        let socket = agent.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(AgentError::BrokenOff)?;
        let mut task = JoinSet::new();
        // An error of the connection shows in the response.
        task.spawn(async move { drop(connection.with_upgrades().await) });
        let request = Request::get(path)
            .header("host", "agent")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", KEY)
            .header("sec-websocket-protocol", PROTOCOL);
        let request = request.body(Empty::<Bytes>::new()).context("make the request")?;
        let mut answer = sender.send_request(request).await.map_err(AgentError::BrokenOff)?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let body = Limited::new(answer.into_body(), LONGEST_ERROR).collect().await;
            let body = body.map(Collected::to_bytes).unwrap_or_default();
            bail!("{}", String::from_utf8_lossy(&body).trim());
        }
        let upgraded = hyper::upgrade::on(&mut answer).await.map_err(AgentError::BrokenOff)?;
        let (half, writer) = tokio::io::split(TokioIo::new(upgraded));
        let (decoder, buffer) = (Decoder::default(), vec![0; CHUNK]);
        let reader = StreamReader { half, decoder, buffer, _connection: task };
        Ok(Self { reader, writer: StreamWriter(writer) })
    }
}

impl StreamReader {
    /// The next message of a channel, or a ping; `None` at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>> {
        loop {
            match self.decoder.next()? {
                Some(Message::Close) => return Ok(None),
                Some(message) => return Ok(Some(message)),
                None => {}
            }
            let length = match self.half.read(&mut self.buffer).await {
                Ok(length) => length,
                // The peer has closed the connection without reading everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                Err(error) => return Err(error).context("read from the agent"),
            };
            if length == 0 {
                return Ok(None);
            }
            self.decoder.push(&self.buffer[..length]);
        }
    }
}

impl StreamWriter {
    /// Sends bytes on a channel.
    pub(crate) async fn send(&mut self, channel: u8, bytes: &[u8]) -> io::Result<()> {
        self.write(&message(channel, bytes)).await
    }

    /// Answers a ping.
    pub(crate) async fn pong(&mut self, payload: &[u8]) -> io::Result<()> {
        self.write(&pong(payload)).await
    }

    /// Ends the stream.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        self.write(&close()).await
    }

    async fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.write_all(frame).await?;
        self.0.flush().await
    }
}

//! `ferrolet exec`.

use std::io::{self, Read as _, Write};

use anyhow::{Context as _, Result, bail};
use podspec::view;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::Place;
use super::agent::AgentClient;
use super::logs::container;
use super::select::select;
use super::stream::{Stream, StreamReader, StreamWriter};
use super::terminal::{RawTerminal, size_message};
use super::websocket::Message;

/// The channels of a command.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;

/// The buffer size for standard input.
const CHUNK: usize = 16 * 1024;

/// Options of `exec`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The pod, as NAME or NAMESPACE/NAME; the node's name suffix may be left out.
    pub pod: String,
    /// Namespace of the pod; any unless given.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The container; the pod's first one unless given.
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Pass standard input to the command. Its end is not passed on: end a command that waits for it with Ctrl-C.
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Give the command a terminal.
    #[arg(short, long)]
    pub tty: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The command ended with an exit code other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("command terminated with exit code {0}")]
pub struct CommandExited(pub u8);

pub(crate) async fn run(args: &Args) -> Result<()> {
    let input = args.stdin.then(standard_input);
    let streams = Outputs { stdout: &mut io::stdout(), stderr: &mut io::stderr() };
    exec(&args.place.agent(), args, input, streams).await
}

/// The writers for the output of the command.
pub struct Outputs<'a> {
    /// Its standard output.
    pub stdout: &'a mut dyn Write,
    /// Its standard error.
    pub stderr: &'a mut dyn Write,
}

/// Runs a command in a container; an error of type [`CommandExited`] if it fails.
pub async fn exec(
    agent: &AgentClient,
    args: &Args,
    input: Option<mpsc::Receiver<Vec<u8>>>,
    outputs: Outputs<'_>,
) -> Result<()> {
    let pods = agent.pods().await?.items;
    let pod = select(pods, &args.pod, args.namespace.as_deref())?.pod;
    let container = container(&pod, args.container.as_deref())?;
    let name = view::pod_name(&pod);
    let path = format!("/exec/{}/{}/{container}?{}", name.namespace, name.name, query(args));
    let Stream { reader, writer } = Stream::open(agent, &path).await?;
    let _terminal =
        if args.tty { RawTerminal::new().context("change the terminal")? } else { None };
    let status = passed_on(reader, writer, input, outputs, args.tty).await?;
    match status {
        Some(status) => status.result(),
        None => bail!("the connection ended before the command did"),
    }
}

fn query(args: &Args) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("output", "1");
    if args.stdin {
        query.append_pair("input", "1");
    }
    query.append_pair(if args.tty { "tty" } else { "error" }, "1");
    query.extend_pairs(args.command.iter().map(|word| ("command", word)));
    query.finish()
}

/// Forwards bytes between the terminal and the command until the command has ended.
async fn passed_on(
    mut reader: StreamReader,
    mut writer: StreamWriter,
    mut input: Option<mpsc::Receiver<Vec<u8>>>,
    outputs: Outputs<'_>,
    tty: bool,
) -> Result<Option<CommandStatus>> {
    let mut resized = signal(SignalKind::window_change()).context("watch the terminal")?;
    let mut status = None;
    if let Some(size) = size_message().filter(|_| tty) {
        writer.send(RESIZE, size.as_bytes()).await?;
    }
    loop {
        // Biased: output first, so that a command that has ended is not sent input.
        tokio::select! {
            biased;
            message = reader.next() => match message? {
                None => return Ok(status),
                Some(Message::Channel(STDOUT, bytes)) => {
                    outputs.stdout.write_all(&bytes)?;
                    outputs.stdout.flush()?;
                }
                Some(Message::Channel(STDERR, bytes)) => outputs.stderr.write_all(&bytes)?,
                Some(Message::Channel(STATUS, bytes)) if !bytes.is_empty() => {
                    status = Some(serde_json::from_slice(&bytes).context("read the exit status")?);
                }
                Some(Message::Ping(payload)) => writer.pong(&payload).await?,
                Some(_) => {}
            },
            Some(bytes) = next_input(&mut input) => writer.send(STDIN, &bytes).await?,
            Some(()) = resized.recv(), if tty => if let Some(size) = size_message() {
                writer.send(RESIZE, size.as_bytes()).await?;
            },
        }
    }
}

async fn next_input(input: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    let next = input.as_mut()?.recv().await;
    if next.is_none() {
        *input = None;
    }
    next
}

/// Standard input, read by a thread: a read of a terminal cannot be cancelled.
fn standard_input() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut bytes = vec![0; CHUNK];
        while let Ok(length @ 1..) = io::stdin().read(&mut bytes) {
            if sender.blocking_send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The status of a command that has ended, as the API writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CommandStatus {
    status: String,
    message: String,
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

impl CommandStatus {
    fn result(&self) -> Result<()> {
        if self.status == "Success" {
            return Ok(());
        }
        let code = self.details.causes.iter().find(|cause| cause.reason == "ExitCode");
        match code.and_then(|cause| cause.message.parse::<i32>().ok()) {
            // A process exits with one byte; a code that does not fit is a failure too.
            Some(code) => Err(CommandExited(u8::try_from(code).unwrap_or(1)).into()),
            None => bail!("{}", self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Args {
        Line::parse_from(std::iter::once("exec").chain(line.split(' '))).args
    }

    #[test]
    fn exec_options_become_query_parameters() {
        let rows = [
            ("web -- ls -l", "output=1&error=1&command=ls&command=-l"),
            ("web -i -- cat a&b", "output=1&input=1&error=1&command=cat&command=a%26b"),
            ("web -it -c main -- sh", "output=1&input=1&tty=1&command=sh"),
        ];
        for (line, expected) in rows {
            assert_eq!(query(&parsed(line)), expected, "{line}");
        }
    }

    #[test]
    fn exec_status_is_success_an_exit_code_or_a_failure() {
        let result = |text: &str| serde_json::from_str::<CommandStatus>(text).unwrap().result();
        assert!(result(r#"{"metadata":{},"status":"Success"}"#).is_ok());
        let exited = r#"{"status":"Failure","reason":"NonZeroExitCode","message":"x",
            "details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        let error = result(exited).unwrap_err();
        assert_eq!(error.downcast_ref::<CommandExited>(), Some(&CommandExited(3)));
        let failed = r#"{"status":"Failure","reason":"InternalError","message":"no such file"}"#;
        assert_eq!(result(failed).unwrap_err().to_string(), "no such file");
    }
}

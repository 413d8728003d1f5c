//! The processes of `probe-peer` inside the instance.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use testbed::{Command, Process, wait};

use crate::place::Place;
use crate::usage;

/// The port of the probed server.
pub(crate) const PORT: u16 = 8080;

/// The longest time for the start of a process, its end, or an answer.
const MOMENT: Duration = Duration::from_secs(30);

/// The server that agents probe.
#[derive(Debug)]
pub(crate) struct Peer<'a> {
    place: &'a Place,
    process: Process,
}

/// A process that sends bare requests.
#[derive(Debug)]
pub(super) struct Requests {
    process: Process,
    /// The host's number of the process.
    pub(super) pid: i32,
}

fn spawn(place: &Place, name: &str, args: &[String]) -> Result<Process> {
    let program = place.programs().probe_peer.display().to_string();
    let command = Command::new(program).args(args.iter().cloned());
    place.instance().spawn(name, &command).with_context(|| format!("start {name}"))
}

fn stop(process: &Process) -> Result<()> {
    process.kill()?;
    process.wait(MOMENT)?;
    Ok(())
}

impl<'a> Peer<'a> {
    /// Starts the server and waits until it answers.
    pub(crate) fn start(place: &'a Place) -> Result<Self> {
        let process = spawn(place, "probe-server", &["serve".to_owned(), PORT.to_string()])?;
        let peer = Self { place, process };
        wait::until("the probed server answers", MOMENT, || {
            let answer = peer.attempts().map(drop);
            Ok(answer.map_err(|error| format!("{error:#}; {}", peer.process.log())))
        })?;
        Ok(peer)
    }

    /// The HTTP requests and TCP probes since its start.
    pub(super) fn attempts(&self) -> Result<u64> {
        let answer = self.get("/count", MOMENT)?;
        let counts = answer.split(' ');
        let counts = counts.map(|count| count.parse::<u64>().with_context(|| answer.clone()));
        counts.sum()
    }

    /// Holds the next requests until a number of them wait, and answers all with another status code. Returns the time
    /// of the change.
    pub(crate) fn flip(&self, code: u16, requests: usize, patience: Duration) -> Result<Timestamp> {
        let answer = self.get(&format!("/flip/{code}/{requests}"), patience)?;
        let nanoseconds = answer.parse().with_context(|| answer.clone())?;
        Timestamp::from_nanosecond(nanoseconds).context("parse the time of the server")
    }

    /// The last line of a response.
    fn get(&self, path: &str, patience: Duration) -> Result<String> {
        let address = (self.place.instance().node_ip(), PORT);
        let mut stream = TcpStream::connect(address).context("connect to the probed server")?;
        stream.set_read_timeout(Some(patience))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: peer\r\n\r\n");
        stream.write_all(request.as_bytes()).context("send a request")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("read the server's answer")?;
        Ok(answer.lines().last().unwrap_or_default().to_owned())
    }

    /// Starts a process that sends a number of requests per second.
    pub(super) fn send_requests(&self, rate: usize) -> Result<Requests> {
        let args = ["request".to_owned(), PORT.to_string(), rate.to_string()];
        let process = spawn(self.place, "bare-requests", &args)?;
        let pid = usage::host_pid(self.place.instance().slot(), process.pid());
        Ok(Requests { pid: pid.with_context(|| process.log())?, process })
    }

    pub(crate) fn stop(self) -> Result<()> {
        stop(&self.process).context("stop the probed server")
    }
}

impl Requests {
    /// Adds the output of the process to an error.
    pub(super) fn explained<T>(&self, result: Result<T>) -> Result<T> {
        result.with_context(|| self.process.log())
    }

    pub(super) fn stop(&self) -> Result<()> {
        stop(&self.process).context("stop bare requests")
    }
}

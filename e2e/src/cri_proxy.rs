//! A proxy between the agent and containerd that injects faults.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use testbed::wait;
use testbed::{Command, Instance};

use crate::node::{PATIENCE, program};

/// `cri-proxy`, inside an instance. It ends with its instance.
#[derive(Debug)]
pub struct CriProxy {
    socket: PathBuf,
    control: PathBuf,
}

#[derive(Deserialize)]
struct Count {
    spoilt: u64,
}

impl CriProxy {
    /// Starts a proxy before an instance's containerd and waits until it can be used.
    pub fn start(instance: &Instance) -> Result<Self> {
        let socket = instance.dir().join("proxy.sock");
        let control = instance.dir().join("control.sock");
        let runtime = instance.containerd_socket();
        let mut command = Command::new(program("cri-proxy")?.display().to_string());
        for (option, path) in
            [("--socket", &socket), ("--control", &control), ("--runtime", &runtime)]
        {
            command = command.arg(option).arg(path.display().to_string());
        }
        let process = instance.spawn("cri-proxy", &command).context("start the proxy")?;
        wait::until("the proxy is ready", PATIENCE, || {
            let log = process.log();
            Ok(if log.contains("ready on") { Ok(()) } else { Err(log) })
        })?;
        Ok(Self { socket, control })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Adds a fault: `METHOD=KIND [skip=N] [times=N|all] [after=DURATION]`.
    pub fn fault(&self, fault: &str) -> Result<()> {
        self.command(&format!("fault {fault}")).map(drop)
    }

    /// Removes all faults.
    pub fn clear(&self) -> Result<()> {
        self.command("clear").map(drop)
    }

    /// The called methods, each with the number of calls that met a fault.
    pub fn spoilt(&self) -> Result<BTreeMap<String, u64>> {
        let counts: BTreeMap<String, Count> = serde_json::from_value(self.command("counts")?)?;
        Ok(counts.into_iter().map(|(method, count)| (method, count.spoilt)).collect())
    }

    /// The faults that no call has met yet, and the number of late calls under way.
    pub fn left(&self) -> Result<(Vec<String>, u64)> {
        let answer = self.command("faults")?;
        let left = serde_json::from_value(answer["left"].clone()).context("read the faults")?;
        Ok((left, answer["late"].as_u64().context("read the number of late calls")?))
    }

    /// Waits until every fault has met a call.
    pub fn wait_until_met(&self, time: Duration) -> Result<()> {
        wait::until("every fault meets a call", time, || {
            let (left, _) = self.left()?;
            Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are left")) })
        })
    }

    /// Waits until the runtime has finished all late calls.
    pub fn wait_until_done(&self, time: Duration) -> Result<()> {
        wait::until("late calls are done", time, || {
            let (_, late) = self.left()?;
            Ok(if late == 0 { Ok(()) } else { Err(format!("{late} are not")) })
        })
    }

    /// The times at which the latest calls of a method arrived.
    pub fn arrivals(&self, method: &str) -> Result<Vec<Timestamp>> {
        let times = self.command(&format!("arrivals {method}"))?;
        let times: Vec<String> = serde_json::from_value(times).context("read the arrivals")?;
        times.iter().map(|time| Ok(time.parse()?)).collect()
    }

    fn command(&self, line: &str) -> Result<Value> {
        let mut stream = UnixStream::connect(&self.control).context("connect to the proxy")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(stream, "{line}")?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).context("read the response of the proxy")?;
        let answer: Value =
            serde_json::from_str(&answer).context("parse the response of the proxy")?;
        ensure!(answer.get("error").is_none(), "{line}: {answer}");
        Ok(answer)
    }
}

//! The control socket: returns the counts of calls, and offers actions that the CRI does not have.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use model::ids::ContainerId;
use serde_json::json;
use tokio::net::UnixListener;

use super::{Count, Delay, Failure, Hollow};
use crate::socket::answer_lines;

/// Exit code of a container that was killed.
const KILLED: i32 = 137;

/// Answers every line with a line of JSON. Never ends. `reset` returns and resets the counts; `kill ID [CODE]`,
/// `delay METHOD=DURATION`, `fail METHOD=CODE[:TIMES]` and `clear` (of delays and failures) do what their names
/// say; any other line returns the counts.
pub async fn serve_control(hollow: Hollow, listener: UnixListener) -> Result<()> {
    answer_lines(listener, move |line| hollow.execute(line)).await
}

fn counts_json(counts: &BTreeMap<&'static str, Count>) -> serde_json::Value {
    json!(counts)
}

impl Hollow {
    fn execute(&self, line: &str) -> Result<serde_json::Value> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "reset" => return Ok(counts_json(&self.gate.take_counts())),
            "kill" => {
                let (id, code) = rest.split_once(' ').unwrap_or((rest, ""));
                let code = match code {
                    "" => KILLED,
                    code => code.parse().with_context(|| format!("{code:?} is no exit code"))?,
                };
                if !self.runtime.kill_container(&ContainerId::from(id), code) {
                    bail!("no container {id:?} runs");
                }
            }
            "delay" => self.gate.delay(&Delay::parse(rest)?),
            "fail" => self.gate.fail(Failure::parse(rest)?),
            "clear" => self.gate.clear(),
            _ => return Ok(counts_json(&self.gate.counts())),
        }
        Ok(json!({ "done": line }))
    }
}

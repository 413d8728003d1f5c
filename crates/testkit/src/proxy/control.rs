//! The second socket: faults are given and counts are asked for.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::{Fault, Proxy};
use crate::socket::answer_lines;

/// Answers every line with a line of JSON, for ever. `fault METHOD=KIND ...` adds a fault, `clear`
/// takes all back; `faults` tells which are left and how many late calls are under way; `arrivals
/// METHOD` when its latest calls came; `reset` the counts, which begin anew; any other line the counts.
pub async fn answer_questions(proxy: Proxy, listener: UnixListener) -> Result<()> {
    answer_lines(listener, move |line| proxy.obey(line)).await
}

impl Proxy {
    fn obey(&self, line: &str) -> Result<Value> {
        let script = self.script();
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "fault" => script.add(Fault::parse(rest)?),
            "clear" => script.clear(),
            "faults" => {
                let left: Vec<String> = script.faults().iter().map(ToString::to_string).collect();
                return Ok(json!({ "left": left, "late": script.late() }));
            }
            "arrivals" => return Ok(json!(texts(&script.arrivals(rest)))),
            "reset" => return Ok(json!(script.take_counts())),
            _ => return Ok(json!(script.counts())),
        }
        Ok(json!({ "done": line }))
    }
}

fn texts(times: &[jiff::Timestamp]) -> Vec<String> {
    times.iter().map(ToString::to_string).collect()
}

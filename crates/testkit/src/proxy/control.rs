//! The control socket: sets faults and returns counts.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::{Fault, Proxy};
use crate::socket::answer_lines;

/// Answers every line with a line of JSON. Never ends. `fault METHOD=KIND ...` adds a fault, `clear` removes
/// all; `faults` returns the remaining ones and the number of late calls in progress; `arrivals METHOD` the
/// times of its latest calls; `reset` returns and resets the counts; any other line returns the counts.
pub async fn serve_control(proxy: Proxy, listener: UnixListener) -> Result<()> {
    answer_lines(listener, move |line| proxy.execute(line)).await
}

impl Proxy {
    fn execute(&self, line: &str) -> Result<Value> {
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

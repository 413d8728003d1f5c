//! The same for a minute.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use e2e::log_writer::{LogWriter, manifest};
use e2e::node::Node;

#[test]
fn log_of_a_fast_writer_stays_within_its_limits_for_a_minute() -> Result<()> {
    let mut node = Node::start()?;
    node.start_agent()?;
    let writer = LogWriter::start(&node, Duration::from_mins(1))?;
    node.explained(writer.check_until_it_ends())?;
    node.explained(writer.check_lines())?;
    node.stop()
}

#[test]
fn log_has_no_gap_when_the_agent_is_killed_every_three_seconds() -> Result<()> {
    let mut node = Node::start()?;
    node.start_agent()?;
    node.write_manifest("writer.yaml", &manifest(Duration::from_secs(40)))?;
    node.wait_running("writer")?;
    for _ in 0..8 {
        thread::sleep(Duration::from_secs(3));
        node.kill_agent()?;
        node.start_agent()?;
    }
    let writer = LogWriter::of(&node, Duration::from_secs(40));
    node.explained(writer.wait_until_it_ends())?;
    node.explained(writer.check_lines())?;
    node.stop()
}

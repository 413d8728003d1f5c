//! Rotation of the log of a fast container.

mod soak;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::log_writer::LogWriter;
use e2e::node::Node;

// behaviour: ROT-5, ROT-6
#[test]
fn log_of_a_fast_writer_stays_within_its_limits_and_has_no_gap() -> Result<()> {
    let mut node = Node::start()?;
    node.start_agent()?;
    let writer = LogWriter::start(&node, Duration::from_secs(10))?;
    node.explained(writer.check_until_it_ends())?;
    let names: Vec<String> = writer.files()?.into_iter().map(|file| file.name).collect();
    ensure!(names.len() == 5, "{names:?}");
    let is_compressed = |name: &String| Path::new(name).extension().is_some_and(|end| end == "gz");
    ensure!(names.iter().any(is_compressed), "{names:?}");
    node.explained(writer.check_lines())?;
    let why = node.ferrolet(&["gc", "why", "writer"])?;
    ensure!(why.contains("log-max-files"), "{why}");
    node.stop()
}

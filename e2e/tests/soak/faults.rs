//! Every method of the runtime that the agent calls, with every kind of fault, one at a time.

use anyhow::{Context, Result};
use e2e::faults::{FaultyNode, METHODS, Spoilt};

/// The same pod again and again, so that nothing of a round may be in the way of the next.
fn every_method(kind: &'static str) -> Result<()> {
    let mut node = FaultyNode::start()?;
    for row in METHODS {
        let begun = std::time::Instant::now();
        node.round(&["web"], &[Spoilt { row, kind }])
            .with_context(|| format!("{} goes wrong: {kind}", row.method))?;
        println!("{}={kind}: {:.0?}", row.method, begun.elapsed());
    }
    node.round(&["web"], &[]).context("nothing goes wrong any more")?;
    node.check_methods()?;
    node.stop()
}

#[test]
fn every_method_is_unavailable_once() -> Result<()> {
    every_method("unavailable")
}

#[test]
fn every_method_finds_nothing_once() -> Result<()> {
    every_method("not-found")
}

#[test]
fn every_method_says_once_that_it_took_too_long() -> Result<()> {
    every_method("deadline")
}

#[test]
fn every_method_hangs_once() -> Result<()> {
    every_method("hang")
}

#[test]
fn every_method_is_once_done_too_late() -> Result<()> {
    every_method("late")
}

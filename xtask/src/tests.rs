//! `cargo xtask test STAGE [FILTER…]`: builds every test program once and runs a stage of the tests in a pool.
//!
//! `cargo test` runs one program after the other; most of our tests wait for a real runtime, so a pool over all
//! programs is several times as fast. A test of the end-to-end stage is a process; unit tests run in
//! batches of one process. The longest run first, by the times of the last run on this machine.

mod build;
mod options;
mod plan;
mod pool;
mod report;
mod times;

use std::path::Path;

use anyhow::{Result, bail};

use options::Options;
use times::Times;

/// Builds all tests, or runs a stage of them; fails if a test does.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let programs = build::test_programs(root)?;
    let Some(stage) = options.stage else { return Ok(()) };
    let mut times = Times::load()?;
    let tests = plan::select(&programs, stage, &options.filters)?;
    if tests.is_empty() {
        bail!("no test of stage {} matches {:?}", stage.name(), options.filters);
    }
    let jobs = plan::jobs(tests, stage, &times, options.repeat);
    let slots = options.slots.unwrap_or(stage.slots());
    let pool = pool::Pool { slots, limit: stage.limit(), load: options.load };
    let results = pool::run(&pool, jobs)?;
    report::print(&results);
    times.record(&results);
    if let Err(error) = times.save() {
        println!("cannot store the times of the tests: {error:#}");
    }
    let failed = results.iter().filter(|result| !result.passed).count();
    if failed > 0 {
        bail!("{failed} test(s) failed");
    }
    Ok(())
}

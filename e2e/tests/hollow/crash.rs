//! The agent is killed at some of its effects; `make soak` has all of them.

use std::time::Instant;

use anyhow::{Result, ensure};
use e2e::crashes::kill_at;
use testkit::crash_point::Moment;

/// An agent has some more effects than this.
const LAST: usize = 45;

// behaviour: WRK-23, GC-79, GC-102
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_agent_converges_after_a_crash_at_each_effect() -> Result<()> {
    let begun = Instant::now();
    let moments = (1..=LAST).step_by(4).zip([Moment::Before, Moment::After].into_iter().cycle());
    let moments: Vec<Moment> = moments.map(|(effect, at)| at(effect)).collect();
    let deaths = kill_at(moments.iter().copied()).await?;
    eprintln!("killed {deaths} times in {:?}", begun.elapsed());
    ensure!(deaths == moments.len(), "killed {deaths} of {} times", moments.len());
    Ok(())
}

//! The agent is killed before and after each of its effects, on a runtime without containers.

use std::time::Instant;

use anyhow::{Result, ensure};
use e2e::crashes::kill_at;
use testkit::crash_point::Moment;

/// More effects than an agent has.
const EFFECTS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_agent_converges_after_a_crash_at_any_effect() -> Result<()> {
    let begun = Instant::now();
    let moments = (1..=EFFECTS).flat_map(|effect| [Moment::Before(effect), Moment::After(effect)]);
    let deaths = kill_at(moments).await?;
    eprintln!("killed {deaths} times in {:?}", begun.elapsed());
    ensure!((31..2 * EFFECTS).contains(&deaths), "{deaths} deaths");
    Ok(())
}

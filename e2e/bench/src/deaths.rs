//! Containers that die: killed from outside, and watched at the tap until another runs.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::wait;
use rustix::process::{Pid, Signal, kill_process};

use crate::place::{CREATE, START, Stage};
use crate::results::Death;
use crate::usage;

/// How long a restart may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Between two deaths it is quiet for this long, and a share of it longer each time: an agent that
/// looks at regular intervals must not always be met at the same point of them.
const QUIET: Duration = Duration::from_secs(1);

/// Kills a container of each of the first `count` pods, one after the other.
pub fn play(stage: &Stage<'_>, count: usize) -> Result<Vec<Death>> {
    let victims: Vec<String> = stage.runtime.running()?.into_values().take(count).collect();
    ensure!(victims.len() == count, "only {} of {count} containers run", victims.len());
    let shares = u32::try_from(count)?;
    let each = victims.iter().zip(0..shares);
    each.map(|(victim, number)| {
        thread::sleep(QUIET + QUIET * number / shares);
        death(stage, victim).with_context(|| format!("death of container {victim}"))
    })
    .collect()
}

fn death(stage: &Stage<'_>, container: &str) -> Result<Death> {
    let pid = Pid::from_raw(usage::container_pid(container)?).context("a process has a number")?;
    let killed = Instant::now();
    kill_process(pid, Signal::KILL).context("kill the container's process")?;
    let [created, running] = wait::until("another container runs", PATIENCE, || {
        let noted = stage.tap.noted();
        let mut later = noted.iter().filter(|call| call.arrived >= killed);
        let create = later.clone().find(|call| call.method == CREATE);
        let start = later.find_map(|call| {
            let (at, well) = call.answered?;
            (call.method == START && well).then_some(at)
        });
        Ok(match (create, start) {
            (Some(create), Some(start)) => Ok([create.arrived, start]),
            seen => Err(format!("{seen:?}")),
        })
    })?;
    let running_now = stage.runtime.running()?;
    ensure!(!running_now.values().any(|id| id == container), "the container did not die");
    Ok(Death {
        create_seconds: (created - killed).as_secs_f64(),
        running_seconds: (running - killed).as_secs_f64(),
    })
}

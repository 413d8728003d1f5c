//! Restarts: containers are killed from outside, and the proxy observes the restart.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use testbed::wait;

use crate::place::{CREATE, START, Stage};
use crate::results::Death;
use crate::runtime::Deaths;
use crate::usage;

/// How long a restart may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// The pause between two deaths. It grows by a share each time, so that deaths do not coincide with what an agent does
/// at regular intervals.
const QUIET: Duration = Duration::from_secs(1);

/// Kills a container of each of the first `count` pods, one after the other.
pub fn play(stage: &Stage<'_>, count: usize) -> Result<Vec<Death>> {
    let victims: Vec<String> = stage.runtime.running()?.into_values().take(count).collect();
    ensure!(victims.len() == count, "only {} of {count} containers run", victims.len());
    let shares = u32::try_from(count)?;
    let deaths = stage.runtime.deaths();
    let each = victims.iter().zip(0..shares);
    each.map(|(victim, number)| {
        thread::sleep(QUIET + QUIET * number / shares);
        death(stage, &deaths, victim)
            .with_context(|| format!("measure the restart of container {victim}"))
    })
    .collect()
}

fn death(stage: &Stage<'_>, deaths: &Deaths, container: &str) -> Result<Death> {
    let pid = Pid::from_raw(usage::container_pid(container)?).context("a process has a number")?;
    let killed = Timestamp::now();
    kill_process(pid, Signal::KILL).context("kill the container's process")?;
    let script = stage.proxy.script();
    let (stopped, created, running) = wait::until("another container runs", PATIENCE, || {
        let first = |times: Vec<Timestamp>| times.into_iter().find(|at| *at >= killed);
        let seen = (
            deaths.stopped_at(container),
            first(script.arrivals(CREATE)),
            first(script.done(START)),
        );
        Ok(match seen {
            (Some(stopped), Some(created), Some(running)) => Ok((stopped, created, running)),
            seen => Err(format!("{seen:?}")),
        })
    })?;
    let running_now = stage.runtime.running()?;
    ensure!(!running_now.values().any(|id| id == container), "the container did not die");
    Ok(Death {
        event_seconds: stopped.duration_since(killed).as_secs_f64(),
        create_seconds: created.duration_since(killed).as_secs_f64(),
        running_seconds: running.duration_since(killed).as_secs_f64(),
    })
}

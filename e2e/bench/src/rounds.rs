//! All rounds of a plan, the agents taking turns.

use std::time::Instant;

use anyhow::{Context, Result};
use jiff::Timestamp;

use crate::agent::Programs;
use crate::machine::machine;
use crate::place::Place;
use crate::plan::Plan;
use crate::results::{About, Agent, Results, Run};
use crate::scenario;

/// Plays a plan and tells every step on standard error.
pub fn play(plan: &Plan, programs: Programs, commit: &str) -> Result<Results> {
    let (since, date) = (Instant::now(), Timestamp::now());
    let mut about = About {
        commit: commit.to_owned(),
        date: date.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        seconds: 0.0,
        ferrolet: programs.version(Agent::Ferrolet)?,
        upstream: programs.version(Agent::Upstream)?,
        machine: machine()?,
    };
    let place = Place::start(programs)?;
    let mut runs = Vec::new();
    for round in 1..=plan.rounds {
        for scenario in &plan.scenarios {
            for agent in Agent::BOTH {
                let began = Instant::now();
                let run = scenario::play(&place, scenario, agent, round).with_context(|| {
                    format!("round {round}, {}, {}", scenario.name, agent.name())
                })?;
                tell(&run, began);
                runs.push(run);
            }
        }
    }
    place.stop().context("take the instance down")?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(Results { about, scenarios: plan.scenarios.clone(), runs })
}

fn tell(run: &Run, began: Instant) {
    let steady = &run.steady;
    eprintln!(
        "round {} {:<18} {:<9} {:5.1} MiB {:8.3} CPU s in {:.0} s {:6} calls; took {:.0} s",
        run.round,
        run.scenario,
        run.agent.name(),
        steady.memory.rss_bytes >> 20,
        steady.cpu_seconds,
        steady.seconds,
        steady.calls_in_all(),
        began.elapsed().as_secs_f64(),
    );
}

//! All rounds of a plan, with the agents in turn.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::agent::Programs;
use crate::machine::{date, machine, round_start};
use crate::place::Place;
use crate::plan::Plan;
use crate::results::{About, Agent, Results, Run};
use crate::scenario;
use crate::turn::{FOLLOWED, Turn};

/// A run of the benchmark.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// The measured commit.
    pub commit: String,
    /// How long a round waits for a quiet machine before it begins.
    pub patience: Duration,
}

/// Measures a plan and prints every step on standard error.
pub fn play(plan: &Plan, programs: &Programs, session: &Session) -> Result<Results> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let places: Vec<Place> = plan
        .scenarios
        .iter()
        .map(|scenario| Place::start(programs.clone(), scenario.on))
        .collect::<Result<_>>()?;
    let mut runs = Vec::new();
    for round in 1..=plan.rounds {
        about.rounds.push(round_start(session.patience)?);
        for agent in Agent::BOTH {
            runs.extend(turn(plan, &places, agent, round)?);
        }
    }
    for place in places {
        place.stop().context("stop an instance")?;
    }
    about.seconds = since.elapsed().as_secs_f64();
    Ok(Results { about, scenarios: plan.scenarios.clone(), runs })
}

/// Facts of the measurement; the duration is added at the end.
pub fn about(programs: &Programs, commit: &str) -> Result<About> {
    Ok(About {
        commit: commit.to_owned(),
        date: date(),
        seconds: 0.0,
        ferrolet: programs.version(Agent::Ferrolet)?,
        upstream: programs.version(Agent::Upstream)?,
        machine: machine()?,
        binary: String::new(),
        rounds: Vec::new(),
    })
}

/// An agent in all scenarios at the same time.
fn turn(plan: &Plan, places: &[Place], agent: Agent, round: u32) -> Result<Vec<Run>> {
    let began = Instant::now();
    let turn = Turn::of(places.len());
    let results: Vec<Result<Run>> = thread::scope(|scope| {
        let playing: Vec<_> = plan
            .scenarios
            .iter()
            .zip(places)
            .map(|(scenario, place)| {
                let player = turn.join();
                scope.spawn(move || scenario::play(place, scenario, agent, round, player))
            })
            .collect();
        let played = playing.into_iter().map(|one| one.join().map_err(|_| anyhow!("panicked")));
        played.map(Result::flatten).collect()
    });
    let named = plan.scenarios.iter().zip(results).map(|(scenario, result)| {
        result.with_context(|| format!("round {round}, {}, {}", scenario.name, agent.name()))
    });
    let (runs, mut errors): (Vec<_>, Vec<_>) = named.partition(Result::is_ok);
    // A failed scenario ends the others; its error comes first.
    errors.sort_by_key(|error| format!("{error:?}").contains(FOLLOWED));
    if let Some(first) = errors.into_iter().next() {
        first?;
    }
    let runs: Vec<Run> = runs.into_iter().collect::<Result<_>>()?;
    runs.iter().for_each(print_run);
    eprintln!("round {round} {} took {:.0} s", agent.name(), began.elapsed().as_secs_f64());
    Ok(runs)
}

fn print_run(run: &Run) {
    let steady = &run.steady;
    eprintln!(
        "round {} {:<18} {:<9} {:4} MiB {:8.3} CPU s in {:.0} s {:6} calls",
        run.round,
        run.scenario,
        run.agent.name(),
        steady.memory.rss_bytes >> 20,
        steady.cpu_seconds,
        steady.seconds,
        steady.calls_in_all(),
    );
}

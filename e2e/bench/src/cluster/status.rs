//! The delay until the API shows changes of pods: the exit of a process, and many readiness changes at once.
//!
//! Each agent runs the same pods. All of them have a readiness probe against one server. The server can hold the requests
//! and answer all at once with another code. So all pods change at the same time, independent of the phases of the
//! probes. Afterwards containers are killed, one after the other.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testbed::wait;

use super::ClusterPlan;
use super::node::{self, Actor, names, patience, pod, pods_path};
use super::place::{ClusterPlace, NAMESPACE};
use super::requests::Requests;
use super::volumes::timestamp;
use super::watch::PodWatch;
use crate::agent::Programs;
use crate::api::calls;
use crate::machine::round_start;
use crate::probes::peer::{PORT, Peer};
use crate::results::{About, Agent};
use crate::rounds::{Session, about};
use crate::runtime::Deaths;
use crate::usage;

/// The time limit of a change.
const PATIENCE: Duration = Duration::from_mins(2);
/// After all pods have changed, requests that were sent before may still be served.
const TAIL: Duration = Duration::from_millis(500);
/// The pause between two kills. A varying part of it is added, so that the kills cover all phases of a
/// relist.
const PAUSE: Duration = Duration::from_secs(1);

/// The plan of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusPlan {
    /// The number of rounds.
    pub rounds: u32,
    /// The number of pods.
    pub pods: usize,
    /// The period of their readiness probes.
    pub period_seconds: u64,
    /// The number of times that all pods become not ready and ready again.
    pub flips: usize,
    /// The number of containers that are killed.
    pub exits: usize,
    /// The pause before a change.
    pub settle_seconds: u64,
}

impl StatusPlan {
    /// The plan of `make bench`.
    pub fn full(rounds: u32) -> Self {
        Self { rounds, pods: 100, period_seconds: 10, flips: 3, exits: 20, settle_seconds: 3 }
    }

    /// A small plan that shows that everything works.
    pub fn tiny() -> Self {
        Self { rounds: 1, pods: 2, period_seconds: 1, flips: 1, exits: 1, settle_seconds: 0 }
    }
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusResults {
    /// Machine, versions and time.
    pub about: About,
    /// The plan.
    pub plan: StatusPlan,
    /// The runs, in the order in which they were measured.
    pub runs: Vec<StatusRun>,
    /// Bare requests of each round.
    pub bare: Vec<BareFlips>,
}

/// One agent in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusRun {
    /// From 1.
    pub round: u32,
    /// The agent.
    pub agent: Agent,
    /// The measured changes of readiness; in each, all pods change at the same time.
    pub flips: Vec<Flip>,
    /// Containers that were killed.
    pub exits: Vec<Exit>,
}

/// All pods change their readiness at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flip {
    /// Whether they become ready.
    pub to_ready: bool,
    /// From the responses of the probed server until a watch receives the last change.
    pub seconds: f64,
    /// The agent's requests in that time.
    pub requests: Requests,
}

/// A container that was killed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// From the signal until the runtime reported the exit.
    pub runtime_seconds: f64,
    /// From the signal until a watch of the API server received the terminated state.
    pub api_seconds: f64,
}

/// One status patch for each pod, without an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BareFlips {
    /// From 1.
    pub round: u32,
    /// From the first request until a watch receives the last change.
    pub seconds: Vec<f64>,
}

/// Measures a plan and prints every step on standard error.
pub fn play(plan: &StatusPlan, programs: &Programs, session: &Session) -> Result<StatusResults> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let place = ClusterPlace::start(programs)?;
    let peer = Peer::start(&place.place)?;
    let (mut runs, mut bare) = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        about.rounds.push(round_start(session.patience)?);
        for agent in Agent::BOTH {
            let run = turn(&place, &peer, plan, agent);
            let (flips, exits) =
                run.with_context(|| format!("round {round}, status, {}", agent.name()))?;
            let run = StatusRun { round, agent, flips, exits };
            report(&run);
            runs.push(run);
        }
        let seconds = bare_flips(&place, plan).context("bare requests")?;
        eprintln!("round {round} status bare      flips {seconds:.3?}");
        bare.push(BareFlips { round, seconds });
    }
    peer.stop()?;
    place.stop()?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(StatusResults { about, plan: plan.clone(), runs, bare })
}

fn turn(
    place: &ClusterPlace,
    peer: &Peer<'_>,
    plan: &StatusPlan,
    agent: Agent,
) -> Result<(Vec<Flip>, Vec<Exit>)> {
    let settle_seconds = plan.settle_seconds;
    let cluster = ClusterPlan { settle_seconds, ..ClusterPlan::tiny() };
    node::play(place, &cluster, agent, |actor| {
        let names = names("pod", plan.pods);
        let bodies = pods(plan, &names)?;
        actor.timed(bodies.into_iter(), |watch| watch.all_ready(&names, patience(&names)))?;
        let codes = (0..2 * plan.flips).map(|number| number % 2 == 1);
        let flips = codes.map(|to_ready| flip(actor, peer, plan, &names, to_ready));
        let flips = flips.collect::<Result<_>>()?;
        let exits = exits(actor, &names[..plan.exits])?;
        actor.delete(&names)?;
        Ok((flips, exits))
    })
}

/// The calls that create the probed pods. Each probes another address of the loopback network.
fn pods(plan: &StatusPlan, names: &[String]) -> Result<Vec<(&'static str, String, Value)>> {
    let first = Ipv4Addr::LOCALHOST.to_bits();
    let body = |(number, name): (usize, &String)| {
        let host = Ipv4Addr::from_bits(first + u32::try_from(number)?);
        let mut body = pod(name, false);
        body["spec"]["restartPolicy"] = "Never".into();
        body["spec"]["containers"][0]["readinessProbe"] = json!({
            "httpGet": { "host": host.to_string(), "port": PORT, "path": "/" },
            "periodSeconds": plan.period_seconds,
            "failureThreshold": 1,
            // The server holds requests for a period.
            "timeoutSeconds": 3 * plan.period_seconds,
        });
        Ok(("POST", pods_path(), body))
    };
    names.iter().enumerate().map(body).collect()
}

fn flip(
    actor: &Actor<'_>,
    peer: &Peer<'_>,
    plan: &StatusPlan,
    names: &[String],
    to_ready: bool,
) -> Result<Flip> {
    actor.settle();
    actor.watch.clear_readiness();
    let mark = actor.place.audit.mark()?;
    let code = if to_ready { 200 } else { 503 };
    let flipped = peer.flip(code, plan.pods, PATIENCE).context("wait for a probe of each pod")?;
    let last = all_flipped(&actor.watch, names, to_ready)?;
    thread::sleep(TAIL);
    Ok(Flip {
        to_ready,
        seconds: timestamp(last).duration_since(flipped).as_secs_f64(),
        requests: actor.place.audit.since(mark)?,
    })
}

fn all_flipped(watch: &PodWatch, names: &[String], to_ready: bool) -> Result<Instant> {
    if to_ready { watch.all_ready(names, PATIENCE) } else { watch.all_unready(names, PATIENCE) }
}

/// Kills a container of each of these pods, one after the other.
fn exits(actor: &Actor<'_>, names: &[String]) -> Result<Vec<Exit>> {
    let running = actor.place.runtime.running()?;
    let deaths = actor.place.runtime.deaths();
    let shares = u32::try_from(names.len())?;
    let each = names.iter().zip(0..shares).map(|(name, number)| {
        thread::sleep(PAUSE + PAUSE * number / shares);
        let container = running.get(name).with_context(|| format!("{name} does not run"))?;
        exit(actor, &deaths, name, container).with_context(|| format!("exit of {name}"))
    });
    each.collect()
}

fn exit(actor: &Actor<'_>, deaths: &Deaths, name: &str, container: &str) -> Result<Exit> {
    let pid =
        Pid::from_raw(usage::container_pid(container)?).context("a container has a process ID")?;
    let killed = Timestamp::now();
    kill_process(pid, Signal::KILL).context("kill the container's process")?;
    let shown = timestamp(actor.watch.all_terminated(&[name.to_owned()], PATIENCE)?);
    let reported = wait::until("the runtime reports the exit", PATIENCE, || {
        Ok(deaths.stopped_at(container).ok_or_else(String::new))
    })?;
    let since = |time: Timestamp| time.duration_since(killed).as_secs_f64();
    Ok(Exit { runtime_seconds: since(reported), api_seconds: since(shown) })
}

/// Patches the status of the same number of pods by bare requests, in both directions.
fn bare_flips(place: &ClusterPlace, plan: &StatusPlan) -> Result<Vec<f64>> {
    let names = names("bare", plan.pods);
    let watch = PodWatch::start(&place.api, NAMESPACE).context("watch pods")?;
    let send = |all: Vec<(&'static str, String, Value)>| {
        place.api.tasks.block_on(calls(&place.api.client, all))
    };
    send(pods(plan, &names)?)?;
    watch.all_present(&names, PATIENCE)?;
    let mut seconds = Vec::new();
    for number in 0..2 * plan.flips {
        let to_ready = number % 2 == 0;
        let ready = if to_ready { "True" } else { "False" };
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } });
        let path = |name: &String| format!("{}/{name}/status", pods_path());
        watch.clear_readiness();
        let begun = Instant::now();
        send(names.iter().map(|name| ("PATCH", path(name), status.clone())).collect())?;
        let last = all_flipped(&watch, &names, to_ready)?;
        seconds.push(last.duration_since(begun).as_secs_f64());
    }
    let path = |name: &String| format!("{}/{name}?gracePeriodSeconds=0", pods_path());
    send(names.iter().map(|name| ("DELETE", path(name), Value::Null)).collect())?;
    watch.all_gone(&names, PATIENCE)?;
    Ok(seconds)
}

fn report(run: &StatusRun) {
    let StatusRun { round, agent, flips, exits } = run;
    let name = agent.name();
    for Flip { to_ready, seconds, requests } in flips {
        eprintln!(
            "round {round} status {name:<9} ready: {to_ready} in {seconds:.3} s, {requests:?}"
        );
    }
    let exits = exits.iter().map(|exit| (exit.runtime_seconds, exit.api_seconds));
    eprintln!("round {round} status {name:<9} exits {:.3?}", exits.collect::<Vec<_>>());
}

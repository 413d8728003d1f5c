//! Agents as servers of the node's API: a large log is read, commands are executed, many clients follow a log.
//!
//! There is no cluster: clients have a certificate and may do everything, with both agents. This measures the agent's
//! own work without an API server. Anonymous clients would share the few connections of unauthenticated peers.

mod client;

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use testbed::wait;

use self::client::{Client, Identity};
use crate::agent::{self, NODE_NAME, Programs, Running};
use crate::machine::round_start;
use crate::place::{Place, Stage};
use crate::plan::On;
use crate::results::{About, Agent};
use crate::rounds::{Session, about};
use crate::usage;

/// The timeout of an operation.
const PATIENCE: Duration = Duration::from_mins(5);
/// Bytes of a line of the large log.
const LINE: u64 = 1024;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeApiPlan {
    /// How often each agent is measured.
    pub rounds: u32,
    /// The size of the log that is read.
    pub log_bytes: u64,
    /// How many commands are executed, one after the other.
    pub execs: usize,
    /// How many clients follow a log at the same time.
    pub followers: usize,
    /// The seconds for which they follow it.
    pub follow_seconds: u64,
}

impl NodeApiPlan {
    /// The plan of `make bench`.
    pub fn full(rounds: u32) -> Self {
        Self { rounds, log_bytes: 1 << 30, execs: 50, followers: 200, follow_seconds: 10 }
    }

    /// A small plan that shows that everything works.
    pub fn tiny() -> Self {
        Self { rounds: 1, log_bytes: 4 << 20, execs: 3, followers: 5, follow_seconds: 1 }
    }
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeApiResults {
    /// Where and when.
    pub about: About,
    /// The plan.
    pub plan: NodeApiPlan,
    /// The runs, in the order in which they were measured.
    pub runs: Vec<NodeApiRun>,
}

/// One agent in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeApiRun {
    /// From 1.
    pub round: u32,
    /// The agent.
    pub agent: Agent,
    /// CPU time of the agent while the log was read.
    pub read_cpu_seconds: f64,
    /// The time of that.
    pub read_seconds: f64,
    /// The time of each command, from the connection to its end.
    pub exec_seconds: Vec<f64>,
    /// Memory of the agent without followers.
    pub quiet_rss_bytes: u64,
    /// The resident memory with followers.
    pub followed_rss_bytes: u64,
}

/// Plays a plan and prints every step on standard error.
pub fn play(plan: &NodeApiPlan, programs: &Programs, session: &Session) -> Result<NodeApiResults> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let place = Place::start(programs.clone(), On::Containerd)?;
    let mut runs = Vec::new();
    for round in 1..=plan.rounds {
        about.rounds.push(round_start(session.patience)?);
        for agent in Agent::BOTH {
            let run = turn(&place, plan, agent, round);
            runs.push(run.with_context(|| format!("round {round}, node API, {}", agent.name()))?);
        }
    }
    place.stop().context("stop an instance")?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(NodeApiResults { about, plan: plan.clone(), runs })
}

fn turn(place: &Place, plan: &NodeApiPlan, agent: Agent, round: u32) -> Result<NodeApiRun> {
    let stage = place.stage()?;
    let identity = Identity::generate().context("make the client's certificate")?;
    prepare(&stage, plan, &identity)?;
    let started = Running::start(place.instance(), place.programs(), agent, &stage.directories);
    let measured = started.and_then(|running| {
        let measured = running.explained(measure(place, plan, &running, &identity));
        running.stop().context("stop the agent")?;
        measured
    });
    let cleared = stage.clear().context("clear the stage");
    let run = NodeApiRun { round, agent, ..measured? };
    cleared?;
    eprintln!(
        "round {round} node API {:<9} log: {:.2} CPU s in {:.1} s, {} execs from {:.3} s, followers: {} to {} KiB",
        agent.name(),
        run.read_cpu_seconds,
        run.read_seconds,
        run.exec_seconds.len(),
        run.exec_seconds.iter().copied().fold(f64::INFINITY, f64::min),
        run.quiet_rss_bytes >> 10,
        run.followed_rss_bytes >> 10,
    );
    Ok(run)
}

/// Writes the configuration of an agent whose API is open to the client, and the manifests.
fn prepare(stage: &Stage<'_>, plan: &NodeApiPlan, identity: &Identity) -> Result<()> {
    let directories = &stage.directories;
    agent::prepare(directories, &stage.socket, On::Containerd, 0)?;
    let authority = directories.config.with_file_name("client-ca.crt");
    fs::write(&authority, &identity.authority_pem).context("write the client's authority")?;
    let x509 = format!("anonymous: {{enabled: false}}, x509: {{clientCAFile: {authority:?}}}");
    let served = agent::configuration(directories, &stage.socket, On::Containerd)
        .replace("enableServer: false", "enableServer: true")
        .replace("anonymous: {enabled: false}", &x509);
    // Upstream reads only the current file of a log, so there must be only one.
    let config = format!("{served}containerLogMaxSize: 8Gi\n");
    fs::write(&directories.config, config).context("write the agent's configuration")?;
    let count = (plan.log_bytes / LINE).to_string();
    let large = format!("[logs, --rate, max, --count, \"{count}\", --size, \"{LINE}\"]");
    for (name, args) in [("large", large.as_str()), ("talker", "[logs, --rate, \"1\"]")] {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default}}\n\
             spec:\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 1\n  containers:\n  \
             - {{name: main, image: 'ferrolet.test/workload:1', args: {args}}}\n"
        );
        let path = directories.manifests.join(format!("{name}.yaml"));
        fs::write(path, manifest).context("write a manifest")?;
    }
    Ok(())
}

fn logs(pod: &str, query: &str) -> String {
    format!("/containerLogs/default/{pod}-{NODE_NAME}/main?{query}")
}

fn measure(
    place: &Place,
    plan: &NodeApiPlan,
    running: &Running,
    identity: &Identity,
) -> Result<NodeApiRun> {
    let address = SocketAddr::from((place.instance().node_ip(), 10250));
    let client = Client::new(address, identity)?;
    let last = (plan.log_bytes / LINE - 1).to_string();
    wait::until("the large log is complete", PATIENCE, || {
        let tail = client.get(&logs("large", "tailLines=1")).map(|answer| answer.text);
        Ok(match tail {
            Ok(text) if text.contains(&format!("{last} ....")) => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })?;
    let (before, since) = (usage::cpu(running.pid)?, Instant::now());
    let read = client.count(&logs("large", ""))?;
    let read_seconds = since.elapsed().as_secs_f64();
    let read_cpu_seconds = usage::cpu(running.pid)?.saturating_sub(before).as_secs_f64();
    ensure!(read >= plan.log_bytes, "only {read} bytes of the log were read");
    let exec = format!(
        "/exec/default/talker-{NODE_NAME}/main?command=/workload&command=exit&command=0&output=1"
    );
    wait::until("a command is executed", PATIENCE, || {
        Ok(client.execute(&exec).map_err(|error| format!("{error:#}")))
    })?;
    let times = (0..plan.execs).map(|_| {
        let since = Instant::now();
        client.execute(&exec)?;
        Ok(since.elapsed().as_secs_f64())
    });
    let exec_seconds = times.collect::<Result<_>>()?;
    let quiet_rss_bytes = usage::memory(running.pid)?.rss_bytes;
    let followers = (0..plan.followers).map(|_| client.follow(&logs("talker", "follow=true")));
    let followers: Vec<_> = followers.collect::<Result<_>>()?;
    thread::sleep(Duration::from_secs(plan.follow_seconds));
    let followed_rss_bytes = usage::memory(running.pid)?.rss_bytes;
    drop(followers);
    Ok(NodeApiRun {
        round: 0,
        agent: Agent::Ferrolet,
        read_cpu_seconds,
        read_seconds,
        exec_seconds,
        quiet_rss_bytes,
        followed_rss_bytes,
    })
}

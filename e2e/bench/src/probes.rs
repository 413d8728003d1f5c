//! Agents that probe many containers of the in-memory runtime.
//!
//! Each agent runs three workloads, one after the other, on a new runtime: HTTP probes, TCP and HTTP probes, and exec
//! probes. Each agent has its own instance. They take turns with HTTP probes; the other workloads run at the same time.
//! The probed server is a process of its own in the agent's network namespace, as is the process that sends bare
//! requests. Each pod has another address of the loopback network, so ports are not used up.

pub(crate) mod peer;

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use testbed::wait;

use self::peer::{PORT, Peer};
use crate::agent::{self, Programs, Running};
use crate::machine::round_start;
use crate::place::{Place, START, Stage};
use crate::plan::On;
use crate::results::{About, Agent};
use crate::rounds::{Session, about};
use crate::usage;

/// How long an agent may take to start all containers.
const PATIENCE: Duration = Duration::from_mins(5);

/// The command of an exec probe, which the in-memory runtime ends at once.
const COMMAND: &str = "[/workload, cat, /etc/hosts]";

/// The workloads of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbesPlan {
    /// How often each agent is measured.
    pub rounds: u32,
    /// Pods with one HTTP or TCP probe each, with a period of a second.
    pub pods: usize,
    /// Pods with one exec probe each.
    pub exec_pods: usize,
    /// Their period.
    pub exec_period_seconds: u64,
    /// The time between the start of all containers and the measurement of CPU.
    pub warm_up_seconds: u64,
    /// The time in which CPU is measured.
    pub window_seconds: u64,
    /// How long TCP and HTTP probes run before sockets are counted.
    pub mixed_seconds: u64,
}

impl ProbesPlan {
    /// The plan of `make bench`.
    pub fn full(rounds: u32) -> Self {
        Self {
            rounds,
            pods: 1000,
            exec_pods: 200,
            exec_period_seconds: 10,
            warm_up_seconds: 30,
            window_seconds: 60,
            mixed_seconds: 120,
        }
    }

    /// A small plan that shows that everything works.
    pub fn tiny() -> Self {
        Self {
            rounds: 1,
            pods: 4,
            exec_pods: 2,
            exec_period_seconds: 1,
            warm_up_seconds: 0,
            window_seconds: 3,
            mixed_seconds: 1,
        }
    }

    /// The attempts per second of each workload.
    pub fn rate(&self, workload: Workload) -> f64 {
        let per_second = |pods: usize, period: u64| {
            f64::from(u32::try_from(pods).unwrap_or(u32::MAX))
                / f64::from(u32::try_from(period).unwrap_or(u32::MAX))
        };
        match workload {
            Workload::Http | Workload::Mixed => per_second(self.pods, 1),
            Workload::Exec => per_second(self.exec_pods, self.exec_period_seconds),
        }
    }
}

/// The probes of all pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// HTTP probes.
    Http,
    /// TCP probes in one half of the pods, HTTP probes in the other.
    Mixed,
    /// Exec probes.
    Exec,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbesResults {
    /// Where and when.
    pub about: About,
    /// The plan.
    pub plan: ProbesPlan,
    /// The runs, in the order in which they were measured.
    pub runs: Vec<ProbesRun>,
    /// The bare requests of each round.
    pub bare: Vec<BareRequests>,
}

/// One agent in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbesRun {
    /// From 1.
    pub round: u32,
    /// The agent.
    pub agent: Agent,
    /// HTTP probes.
    pub http: ProbeCost,
    /// TCP and HTTP probes, from the start of all containers.
    pub mixed: ProbeCost,
    /// Sockets in `TIME_WAIT` after them.
    pub time_wait: TimeWait,
    /// Exec probes.
    pub exec: ProbeCost,
}

/// A process that sends the same HTTP requests as an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BareRequests {
    /// From 1.
    pub round: u32,
    /// The requests.
    pub http: ProbeCost,
}

/// The cost of probes in a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbeCost {
    /// The length of the window.
    pub seconds: f64,
    /// CPU time of the process.
    pub cpu_seconds: f64,
    /// Resident memory at the end.
    pub rss_bytes: u64,
    /// Attempts: HTTP requests, TCP connections or commands.
    pub attempts: u64,
}

/// Sockets in `TIME_WAIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeWait {
    /// At the agent's end of connections.
    pub client: u64,
    /// At the server's end, which is in the pod's network namespace on a real node.
    pub server: u64,
}

/// Measures a plan and prints every step on standard error.
pub fn play(plan: &ProbesPlan, programs: &Programs, session: &Session) -> Result<ProbesResults> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let places = [(); 2].map(|()| Place::start(programs.clone(), On::Hollow));
    let places: Vec<Place> = places.into_iter().collect::<Result<_>>()?;
    let peers: Vec<Peer<'_>> = places.iter().map(Peer::start).collect::<Result<_>>()?;
    let turns = Agent::BOTH.into_iter().zip(places.iter().zip(&peers));
    let turns = turns.map(|(agent, (place, peer))| Turn { place, peer, plan, agent });
    let turns: Vec<Turn<'_>> = turns.collect();
    let (mut runs, mut bare) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        about.rounds.push(round_start(session.patience)?);
        let measured = round(&turns, number).with_context(|| format!("round {number}, probes"))?;
        measured.iter().for_each(report);
        runs.extend(measured);
        let http = bare_requests(&peers[0], plan).context("bare requests")?;
        eprintln!("round {number} probes bare      http: {}", described(http));
        bare.push(BareRequests { round: number, http });
    }
    for peer in peers {
        peer.stop()?;
    }
    for place in places {
        place.stop().context("stop an instance")?;
    }
    about.seconds = since.elapsed().as_secs_f64();
    Ok(ProbesResults { about, plan: plan.clone(), runs, bare })
}

/// An agent in a round.
#[derive(Debug, Clone, Copy)]
struct Turn<'a> {
    place: &'a Place,
    peer: &'a Peer<'a>,
    plan: &'a ProbesPlan,
    agent: Agent,
}

/// Measures both agents in a round. HTTP probes run alone, because their costs are small; the others run at the same time.
fn round(turns: &[Turn<'_>], round: u32) -> Result<Vec<ProbesRun>> {
    let http: Vec<ProbeCost> = turns.iter().map(Turn::http).collect::<Result<_>>()?;
    let mixed = both(turns, Turn::mixed)?;
    let exec = both(turns, Turn::exec)?;
    let all = turns.iter().zip(http).zip(mixed).zip(exec);
    let runs = all.map(|(((turn, http), (mixed, time_wait)), exec)| ProbesRun {
        round,
        agent: turn.agent,
        http,
        mixed,
        time_wait,
        exec,
    });
    Ok(runs.collect())
}

/// Measures both agents at the same time.
fn both<'a, T: Send>(turns: &[Turn<'a>], measure: fn(&Turn<'a>) -> Result<T>) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let measuring: Vec<_> =
            turns.iter().map(|turn| scope.spawn(move || measure(turn))).collect();
        let ended = measuring.into_iter().map(|one| one.join().map_err(|_| anyhow!("panicked")));
        ended.map(Result::flatten).collect()
    })
}

fn report(run: &ProbesRun) {
    let ProbesRun { round, agent, http, mixed, time_wait, exec } = run;
    for (name, cost) in [("http", http), ("mixed", mixed), ("exec", exec)] {
        eprintln!("round {round} probes {:<9} {name}: {}", agent.name(), described(*cost));
    }
    eprintln!("round {round} probes {:<9} {time_wait:?}", agent.name());
}

fn described(cost: ProbeCost) -> String {
    let ProbeCost { seconds, cpu_seconds, rss_bytes, attempts } = cost;
    format!(
        "{attempts} attempts, {cpu_seconds:.3} CPU s in {seconds:.1} s, {} MiB",
        rss_bytes >> 20
    )
}

impl Turn<'_> {
    fn http(&self) -> Result<ProbeCost> {
        self.on_stage(Workload::Http, |_, running| {
            thread::sleep(Duration::from_secs(self.plan.warm_up_seconds));
            self.measure(running, || self.peer.attempts())
        })
    }

    fn mixed(&self) -> Result<(ProbeCost, TimeWait)> {
        self.on_stage(Workload::Mixed, |_, running| {
            let window = Duration::from_secs(self.plan.mixed_seconds);
            let cost = measure(running.pid, window, || self.peer.attempts())?;
            Ok((cost, time_wait(running.pid)?))
        })
    }

    fn exec(&self) -> Result<ProbeCost> {
        self.on_stage(Workload::Exec, |stage, running| {
            thread::sleep(Duration::from_secs(self.plan.warm_up_seconds));
            let script = stage.proxy.script();
            let commands = || Ok(script.counts().get("ExecSync").map_or(0, |count| count.done));
            self.measure(running, commands)
        })
    }

    fn measure(&self, running: &Running, count: impl Fn() -> Result<u64>) -> Result<ProbeCost> {
        measure(running.pid, Duration::from_secs(self.plan.window_seconds), count)
    }

    /// Runs an agent on a new stage until all containers run and an action has ended, and clears the stage.
    fn on_stage<T>(
        &self,
        workload: Workload,
        act: impl FnOnce(&Stage<'_>, &Running) -> Result<T>,
    ) -> Result<T> {
        let Self { place, plan, agent, .. } = *self;
        let stage = place.stage()?;
        agent::prepare(&stage.directories, &stage.socket, On::Hollow, 0)?;
        let pods = write_manifests(plan, workload, &stage.directories.manifests)?;
        let started = Running::start(place.instance(), place.programs(), agent, &stage.directories);
        let acted = started.and_then(|running| {
            let acted = all_started(&stage, pods).and_then(|()| act(&stage, &running));
            let acted = running.explained(acted);
            running.stop().context("stop the agent")?;
            acted
        });
        let cleared = stage.clear().context("clear the stage");
        let acted = acted.with_context(|| format!("{workload:?}, {}", agent.name()))?;
        cleared.map(|()| acted)
    }
}

fn all_started(stage: &Stage<'_>, pods: usize) -> Result<()> {
    let script = stage.proxy.script();
    wait::until("all containers are started", PATIENCE, || {
        let started = script.counts().get(START).map_or(0, |count| count.done);
        Ok(if started >= pods as u64 { Ok(()) } else { Err(format!("{started} of {pods}")) })
    })
}

/// Writes the manifests of a workload and returns their number.
fn write_manifests(plan: &ProbesPlan, workload: Workload, directory: &Path) -> Result<usize> {
    let pods = match workload {
        Workload::Http | Workload::Mixed => plan.pods,
        Workload::Exec => plan.exec_pods,
    };
    for number in 0..pods {
        let (pod, probe) = (agent::manifest(number, On::Hollow), probe(plan, workload, number)?);
        let path = directory.join(format!("pod-{number}.yaml"));
        fs::write(path, format!("{pod}    readinessProbe: {probe}\n"))
            .context("write a manifest")?;
    }
    Ok(pods)
}

fn probe(plan: &ProbesPlan, workload: Workload, number: usize) -> Result<String> {
    let first = Ipv4Addr::LOCALHOST.to_bits();
    let host = Ipv4Addr::from_bits(first + u32::try_from(number)?);
    Ok(match workload {
        Workload::Mixed if number.is_multiple_of(2) => {
            format!("{{tcpSocket: {{host: {host}, port: {PORT}}}, periodSeconds: 1}}")
        }
        Workload::Http | Workload::Mixed => {
            format!("{{httpGet: {{host: {host}, port: {PORT}, path: /}}, periodSeconds: 1}}")
        }
        Workload::Exec => {
            let period = plan.exec_period_seconds;
            format!("{{exec: {{command: {COMMAND}}}, periodSeconds: {period}}}")
        }
    })
}

/// Measures a process and counts attempts for some time, beginning with an attempt.
fn measure(pid: i32, window: Duration, count: impl Fn() -> Result<u64>) -> Result<ProbeCost> {
    let before = count()?;
    wait::until("there is an attempt", PATIENCE, || {
        Ok(if count()? > before { Ok(()) } else { Err(String::new()) })
    })?;
    let (cpu, attempts, since) = (usage::cpu(pid)?, count()?, Instant::now());
    thread::sleep(window);
    let (cpu_then, attempts_then) = (usage::cpu(pid)?, count()?);
    Ok(ProbeCost {
        seconds: since.elapsed().as_secs_f64(),
        cpu_seconds: cpu_then.saturating_sub(cpu).as_secs_f64(),
        rss_bytes: usage::memory(pid)?.rss_bytes,
        attempts: attempts_then - attempts,
    })
}

fn bare_requests(peer: &Peer<'_>, plan: &ProbesPlan) -> Result<ProbeCost> {
    let requests = peer.send_requests(plan.pods)?;
    thread::sleep(Duration::from_secs(plan.warm_up_seconds.min(5)));
    let window = Duration::from_secs(plan.window_seconds);
    let cost = requests.explained(measure(requests.pid, window, || peer.attempts()));
    requests.stop()?;
    cost
}

/// Counts sockets in the network namespace of a process.
fn time_wait(pid: i32) -> Result<TimeWait> {
    let path = format!("/proc/{pid}/net/tcp");
    let table = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    Ok(time_wait_in(&table))
}

fn time_wait_in(table: &str) -> TimeWait {
    let server = format!(":{PORT:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let waiting = rows.filter(|row| row.get(3) == Some(&"06"));
    let (server, client): (Vec<_>, Vec<_>) = waiting.partition(|row| row[1].ends_with(&server));
    TimeWait { client: client.len() as u64, server: server.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_wait_sockets_are_counted_at_both_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n\
            \x20  0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n\
            \x20  1: 0100007F:1F90 0100007F:BC3E 06 00000000:00000000 03:000012AB 00000000\n\
            \x20  2: 0100007F:BC40 0200007F:1F90 06 00000000:00000000 03:000012AB 00000000\n\
            \x20  3: 0100007F:BC42 0300007F:1F90 06 00000000:00000000 03:000012AB 00000000\n\
            \x20  4: 0100007F:BC44 0300007F:1F90 01 00000000:00000000 00:00000000 00000000\n";
        assert_eq!(time_wait_in(table), TimeWait { client: 2, server: 1 });
        assert_eq!(time_wait_in(""), TimeWait { client: 0, server: 0 });
    }

    #[test]
    fn half_of_the_mixed_probes_are_tcp() {
        let plan = ProbesPlan::full(1);
        let probe = |workload, number| probe(&plan, workload, number).unwrap();
        let tcp = |workload| (0..4).filter(|n| probe(workload, *n).contains("tcpSocket")).count();
        assert_eq!([tcp(Workload::Mixed), tcp(Workload::Http), tcp(Workload::Exec)], [2, 0, 0]);
        assert_eq!(
            probe(Workload::Http, 999),
            "{httpGet: {host: 127.0.3.232, port: 8080, path: /}, periodSeconds: 1}"
        );
    }

    #[test]
    fn rate_is_attempts_per_second() {
        let plan = ProbesPlan::full(1);
        let rates = [Workload::Http, Workload::Mixed, Workload::Exec].map(|one| plan.rate(one));
        assert_eq!(rates.map(|rate| format!("{rate}")), ["1000", "1000", "20"]);
    }
}

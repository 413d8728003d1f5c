//! One agent as a node, from its start to its end.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::wait;

use super::place::{ClusterPlace, NAMESPACE};
use super::requests::{Requests, of_pods};
use super::watch::PodWatch;
use super::{ClusterPlan, Costs, Quiet, SinglePodTimes};
use crate::agent::{self, NODE_NAME, Running};
use crate::api::calls;
use crate::plan::On;
use crate::results::Agent;
use crate::runtime::PodRequests;
use crate::usage::{self, Sleeper};

/// The timeout of one pod, or a node, and of each of many.
const AT_LEAST: Duration = Duration::from_mins(2);
const EACH: Duration = Duration::from_secs(3);
/// After this time without a request about removed pods, the latest counts as the last one; and the limit of that
/// wait.
const SILENCE: Duration = Duration::from_secs(1);
const NOISE: Duration = Duration::from_mins(1);

/// The pause before the next action on single pods. Pauses differ over a whole second, so that they do not coincide
/// with what an agent does every second.
pub(super) fn pause(number: usize, of: usize) -> Duration {
    let part = u32::try_from(number).unwrap_or_default();
    let of = u32::try_from(of.max(1)).unwrap_or(1);
    Duration::from_millis(300) + Duration::from_secs(1) * part / of
}

/// Measures pods one after the other with an agent. Returns its requests to the runtime, too.
pub(super) fn one_by_one(
    place: &ClusterPlace,
    plan: &ClusterPlan,
    agent: Agent,
) -> Result<(SinglePodTimes, PodRequests)> {
    play(place, plan, agent, |actor| {
        actor.settle();
        actor.one_by_one()
    })
}

/// Measures the start and the end of all pods at once.
pub(super) fn at_once(
    place: &ClusterPlace,
    plan: &ClusterPlan,
    agent: Agent,
) -> Result<(f64, f64)> {
    play(place, plan, agent, |actor| {
        let names = names("all", plan.at_once);
        actor.settle();
        let start = actor.make(&names)?;
        actor.settle();
        Ok((start, actor.delete(&names)?))
    })
}

/// Measures the costs of an agent.
pub(super) fn costs(place: &ClusterPlace, plan: &ClusterPlan, agent: Agent) -> Result<Costs> {
    play(place, plan, agent, |actor| {
        // It lives longer than the pods.
        let sleeper = Sleeper::start(Duration::from_hours(1))?;
        thread::sleep(Duration::from_secs(plan.idle_warm_up_seconds));
        actor.costs(&sleeper)
    })
}

/// Runs an action with an agent whose node is ready, and removes its leftovers.
pub(super) fn play<T>(
    place: &ClusterPlace,
    plan: &ClusterPlan,
    agent: Agent,
    part: impl FnOnce(&Actor<'_>) -> Result<T>,
) -> Result<T> {
    let socket = &place.place.instance().containerd_socket();
    play_on(place, plan, Connected { agent, socket }, part)
}

/// An agent and the runtime's socket to which it connects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connected<'a> {
    pub(super) agent: Agent,
    pub(super) socket: &'a Path,
}

/// Like [`play`], with an agent that connects to another socket of the runtime.
pub(super) fn play_on<T>(
    place: &ClusterPlace,
    plan: &ClusterPlan,
    connected: Connected<'_>,
    part: impl FnOnce(&Actor<'_>) -> Result<T>,
) -> Result<T> {
    place.clear().context("clear the place")?;
    let directories = place.directories();
    let instance = place.place.instance();
    agent::prepare(&directories, connected.socket, On::Containerd, 0)?;
    let programs = place.place.programs();
    let running = Running::start(instance, programs, connected.agent, &directories)?;
    // One watch for the whole turn: opening its connection would count in the measured time.
    let watch = PodWatch::start(&place.api, NAMESPACE).context("watch pods");
    let played = watch.and_then(|watch| {
        let actor = Actor { place, plan, watch, pid: running.pid };
        actor.ready()?;
        part(&actor)
    });
    let played = running.explained(played);
    let stopped = running.stop().context("stop the agent");
    let played = played?;
    stopped?;
    place.clear().context("clean up after an agent")?;
    Ok(played)
}

/// An agent in a turn.
pub(super) struct Actor<'a> {
    pub(super) place: &'a ClusterPlace,
    plan: &'a ClusterPlan,
    pub(super) watch: PodWatch,
    pid: i32,
}

impl Actor<'_> {
    pub(super) fn settle(&self) {
        thread::sleep(Duration::from_secs(self.plan.settle_seconds));
    }

    /// Measures its costs once it is idle without pods.
    fn costs(&self, sleeper: &Sleeper) -> Result<Costs> {
        let idle = self.quiet(sleeper)?;
        let mark = self.place.audit.mark()?;
        let names = names("all", self.plan.at_once);
        let cpu = usage::cpu(self.pid)?;
        self.make(&names)?;
        let start_all_cpu_seconds = self.spent(cpu)?;
        thread::sleep(Duration::from_secs(self.plan.warm_up_seconds));
        let full = self.quiet(sleeper)?;
        let cpu = usage::cpu(self.pid)?;
        self.delete(&names)?;
        let delete_all_cpu_seconds = self.spent(cpu)?;
        let requests = self.requests_until_quiet(mark)?;
        Ok(Costs { start_all_cpu_seconds, delete_all_cpu_seconds, idle, full, requests })
    }

    fn spent(&self, before: Duration) -> Result<f64> {
        Ok(usage::cpu(self.pid)?.saturating_sub(before).as_secs_f64())
    }

    /// Waits until the node is ready.
    fn ready(&self) -> Result<()> {
        let path = format!("/api/v1/nodes/{NODE_NAME}");
        wait::every(Duration::from_millis(100), "the node is ready", AT_LEAST, || {
            let node = self.place.api.get(&path)?.unwrap_or_default();
            Ok(if is_ready(&node) { Ok(()) } else { Err(node["status"].to_string()) })
        })
    }

    fn quiet(&self, sleeper: &Sleeper) -> Result<Quiet> {
        let asleep = sleeper.cpu()?;
        let (mark, cpu, since) = (self.place.audit.mark()?, usage::cpu(self.pid)?, Instant::now());
        thread::sleep(Duration::from_secs(self.plan.quiet_seconds));
        let cpu_seconds = self.spent(cpu)?;
        Ok(Quiet {
            seconds: since.elapsed().as_secs_f64(),
            cpu_seconds,
            memory: usage::memory(self.pid)?,
            requests: self.place.audit.since(mark)?,
            asleep: Some(sleeper.since(asleep)?),
        })
    }

    fn one_by_one(&self) -> Result<(SinglePodTimes, PodRequests)> {
        let (mut singles, mut requests) = (SinglePodTimes::default(), None);
        let all = self.plan.one_by_one;
        for (number, name) in names("one", all).into_iter().enumerate() {
            let name = [name];
            singles.start.push(self.make(&name)?);
            requests = Some(self.place.runtime.pod_requests(&name[0])?);
            thread::sleep(pause(number, all));
            singles.delete.push(self.delete(&name)?);
            thread::sleep(pause(all - number, all));
        }
        Ok((singles, requests.context("no single pod was created")?))
    }

    /// Creates pods and waits until all are ready; returns the seconds.
    fn make(&self, names: &[String]) -> Result<f64> {
        let bodies =
            names.iter().map(|name| ("POST", pods_path(), pod(name, self.plan.token_volume)));
        self.timed(bodies, |watch| watch.all_ready(names, patience(names)))
    }

    /// Deletes pods and waits until all are gone; returns the seconds.
    pub(super) fn delete(&self, names: &[String]) -> Result<f64> {
        let path = |name: &String| format!("{}/{name}", pods_path());
        let paths = names.iter().map(|name| ("DELETE", path(name), Value::Null));
        self.timed(paths, |watch| watch.all_gone(names, patience(names)))
    }

    /// Makes calls and waits for the watch; returns the seconds since the first call.
    pub(super) fn timed(
        &self,
        all: impl Iterator<Item = (&'static str, String, Value)>,
        seen: impl FnOnce(&PodWatch) -> Result<Instant>,
    ) -> Result<f64> {
        let api = &self.place.api;
        // Opens a connection before the measurement.
        api.get(&format!("/api/v1/namespaces/{NAMESPACE}"))?;
        let begun = Instant::now();
        api.tasks.block_on(calls(&api.client, all))?;
        Ok(seen(&self.watch)?.saturating_duration_since(begun).as_secs_f64())
    }

    /// The requests since a mark, once no more come.
    fn requests_until_quiet(&self, mark: u64) -> Result<Requests> {
        let audit = &self.place.audit;
        let mut before = None;
        wait::every(SILENCE, "no more requests about pods", NOISE, || {
            let requests = audit.since(mark)?;
            let count = of_pods(&requests);
            let silent = before.replace(count) == Some(count);
            Ok(if silent { Ok(requests) } else { Err(format!("{count} requests")) })
        })
    }
}

/// The API path of the namespace's pods.
pub(super) fn pods_path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

pub(super) fn patience(names: &[String]) -> Duration {
    AT_LEAST + EACH * u32::try_from(names.len()).unwrap_or(u32::MAX)
}

pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

fn is_ready(node: &Value) -> bool {
    let all = node["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// A pod with one container that stops at once on SIGTERM, with or without the token of its service account.
pub(super) fn pod(name: &str, token_volume: bool) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": "bench" } },
        "spec": {
            "nodeName": NODE_NAME,
            "automountServiceAccountToken": token_volume,
            "containers": [{
                "name": "main",
                "image": "ferrolet.test/workload:1",
                "imagePullPolicy": "IfNotPresent",
                "args": ["sleep", "forever"],
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_over_a_second() {
        let pauses: Vec<_> = (0..10).map(|number| pause(number, 10)).collect();
        assert_eq!(pauses[0], Duration::from_millis(300));
        assert_eq!(pauses[9], Duration::from_millis(1200));
        assert!(pauses.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

//! The start and deletion times of default pods, which have the token volume of their service account.
//!
//! Bare calls, ferrolet and the kubelet take turns as in [`cluster`](super), with pods as `kubectl run` creates them.
//! Then ferrolet starts pods one after the other while a proxy of the runtime records its calls: the time from the
//! pod's watch event until the agent calls the runtime, without the API requests that it waits for.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use testkit::proxy::Script;

use super::api_time::awaited_seconds;
use super::node::{self, Actor, Connected, patience, pod, pods_path};
use super::place::{ClusterPlace, NAMESPACE};
use super::{Block, ClusterPlan, one_by_one};
use crate::agent::Programs;
use crate::machine::round_start;
use crate::results::{About, Agent};
use crate::rounds::{Session, about};

/// The call that creates the sandbox of a pod.
const SANDBOX: &str = "RunPodSandbox";

/// The turns of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumesPlan {
    /// The number of rounds.
    pub rounds: u32,
    /// The number of turns that each client has in a round.
    pub turns: usize,
    /// The number of pods in a turn, which are created and deleted one after the other.
    pub one_by_one: usize,
    /// The number of starts of ferrolet with a proxy of the runtime.
    pub starts: usize,
    /// The pause between the start of an agent and the first pod.
    pub settle_seconds: u64,
}

impl VolumesPlan {
    /// The plan of `make bench`.
    pub fn full(rounds: u32) -> Self {
        Self { rounds, turns: 4, one_by_one: 5, starts: 100, settle_seconds: 3 }
    }

    /// A small plan that shows that everything works.
    pub fn tiny() -> Self {
        Self { rounds: 1, turns: 1, one_by_one: 1, starts: 1, settle_seconds: 0 }
    }

    fn cluster(&self) -> ClusterPlan {
        ClusterPlan {
            turns: self.turns,
            one_by_one: self.one_by_one,
            settle_seconds: self.settle_seconds,
            token_volume: true,
            ..ClusterPlan::tiny()
        }
    }
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumesResults {
    /// Machine, versions and time.
    pub about: About,
    /// The plan.
    pub plan: VolumesPlan,
    /// One for each round, in order.
    pub rounds: Vec<VolumesRound>,
}

/// The times of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumesRound {
    /// From the creation of a pod until it was ready, and from its deletion until it was gone. Pods are not created at
    /// once here.
    pub pods: Block,
    /// Ferrolet's starts with a proxy.
    pub starts: Vec<Start>,
}

/// The start of a pod by ferrolet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// From the pod's watch event, or from the response to its creation if that was earlier, until `RunPodSandbox`
    /// arrived at the proxy.
    pub seconds: f64,
    /// The part of that time in which the API server served requests for the pod's volumes.
    pub api_seconds: f64,
}

/// Measures a plan and prints every step on standard error.
pub fn play(plan: &VolumesPlan, programs: &Programs, session: &Session) -> Result<VolumesResults> {
    let since = Instant::now();
    let mut about = about(programs, &session.commit)?;
    let place = ClusterPlace::start(programs)?;
    make_root_certificates(&place)?;
    let cluster = plan.cluster();
    // The first pods of a machine take longer and are not counted.
    one_by_one(&place, &cluster, 0, &mut Block::default()).context("before the first round")?;
    let mut rounds = Vec::new();
    for number in 1..=plan.rounds {
        about.rounds.push(round_start(session.patience)?);
        let mut round = VolumesRound::default();
        for turn in 0..plan.turns {
            let measured = one_by_one(&place, &cluster, turn, &mut round.pods);
            measured.with_context(|| format!("round {number}, turn {turn}"))?;
        }
        round.starts =
            starts(&place, plan, &cluster).with_context(|| format!("round {number}, starts"))?;
        report(number, &round);
        rounds.push(round);
    }
    place.stop()?;
    about.seconds = since.elapsed().as_secs_f64();
    Ok(VolumesResults { about, plan: plan.clone(), rounds })
}

/// Creates the config map of each token volume, which the controller manager creates in a cluster that has one.
fn make_root_certificates(place: &ClusterPlace) -> Result<()> {
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "kube-root-ca.crt" },
        // As long as a certificate.
        "data": { "ca.crt": "c".repeat(1100) },
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    place.api.call("POST", &path, &map).map(drop).context("create the config map of tokens")
}

/// Measures pod starts of ferrolet with a proxy between it and the runtime.
fn starts(place: &ClusterPlace, plan: &VolumesPlan, cluster: &ClusterPlan) -> Result<Vec<Start>> {
    let behind = place.place.instance().containerd_socket();
    let (proxy, socket, serving) = place.place.proxy(&behind)?;
    let connected = Connected { agent: Agent::Ferrolet, socket: &socket };
    let starts = node::play_on(place, cluster, connected, |actor| {
        actor.settle();
        let numbers = 0..plan.starts;
        numbers.map(|number| start(actor, proxy.script(), &format!("start-{number}"))).collect()
    });
    serving.abort();
    starts
}

/// Starts a pod and deletes it again.
fn start(actor: &Actor<'_>, script: &Script, name: &str) -> Result<Start> {
    let place = actor.place;
    let (mark, names) = (place.audit.mark()?, [name.to_owned()]);
    let created = Timestamp::now();
    place.api.call("POST", &pods_path(), &pod(name, true))?;
    let answered = Instant::now();
    let seen = actor.watch.all_present(&names, patience(&names))?;
    actor.watch.all_ready(&names, patience(&names))?;
    let noticed = timestamp(seen.min(answered));
    let called = script.arrivals(SANDBOX).into_iter().find(|at| *at >= created);
    let called = called.with_context(|| format!("{name} is ready without {SANDBOX}"))?;
    let api_seconds = awaited_seconds(&place.audit.lines_since(mark)?, noticed, called)?;
    actor.delete(&names)?;
    // The agent may still work after the last status of a pod.
    thread::sleep(Duration::from_millis(200));
    Ok(Start { seconds: called.duration_since(noticed).as_secs_f64(), api_seconds })
}

/// The time of day at an instant in the past.
pub(super) fn timestamp(instant: Instant) -> Timestamp {
    let ago = SignedDuration::try_from(instant.elapsed()).unwrap_or_default();
    Timestamp::now() - ago
}

fn report(number: u32, round: &VolumesRound) {
    let clients = [
        ("bare calls", &round.pods.floor),
        ("ferrolet", &round.pods.ferrolet),
        ("upstream", &round.pods.upstream),
    ];
    for (name, times) in clients {
        eprintln!("round {number} volumes {name:<10} {:.3?}", times.start_one);
    }
    let own = round.starts.iter().map(|start| 1000.0 * (start.seconds - start.api_seconds));
    eprintln!("round {number} volumes to {SANDBOX}, ms: {:.1?}", own.collect::<Vec<_>>());
}

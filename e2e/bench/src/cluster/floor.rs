//! The runtime calls that a pod needs, without an agent: the floor of the times.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::machine::Machine;

use super::node::pause;
use super::place::ClusterPlace;
use super::{ClusterPlan, SinglePodTimes};
use crate::runtime::{BarePod, PodRequests};

/// Measures pods one after the other. Returns the requests that the runtime received, too.
pub(super) fn one_by_one(
    place: &ClusterPlace,
    plan: &ClusterPlan,
) -> Result<(SinglePodTimes, PodRequests)> {
    play(place, plan, |bare| {
        let (mut singles, mut requests) = (SinglePodTimes::default(), None);
        for number in 0..plan.one_by_one {
            let name = format!("one-{number}");
            let begun = Instant::now();
            let started = place.runtime.start_pods(vec![bare.pod(name.clone())])?;
            singles.start.push(begun.elapsed().as_secs_f64());
            requests = Some(place.runtime.pod_requests(&name)?);
            thread::sleep(pause(number, plan.one_by_one));
            let begun = Instant::now();
            place.runtime.end_pods(started)?;
            singles.delete.push(begun.elapsed().as_secs_f64());
            thread::sleep(pause(plan.one_by_one - number, plan.one_by_one));
        }
        Ok((singles, requests.context("no single pod was created")?))
    })
}

/// Measures the start and the end of all pods at once.
pub(super) fn at_once(place: &ClusterPlace, plan: &ClusterPlan) -> Result<(f64, f64)> {
    play(place, plan, |bare| {
        let pods = (0..plan.at_once).map(|number| bare.pod(format!("all-{number}"))).collect();
        let begun = Instant::now();
        let started = place.runtime.start_pods(pods)?;
        let start = begun.elapsed().as_secs_f64();
        thread::sleep(Duration::from_secs(plan.settle_seconds));
        let begun = Instant::now();
        place.runtime.end_pods(started)?;
        Ok((start, begun.elapsed().as_secs_f64()))
    })
}

/// The parameters of bare pods.
struct Bare<'a> {
    place: &'a ClusterPlace,
    machine: Machine,
    token_volume: bool,
}

impl Bare<'_> {
    fn pod(&self, name: String) -> BarePod {
        let files = self.place.place.file("agent/bare").join(&name);
        BarePod { name, files, machine: self.machine.clone(), token_volume: self.token_volume }
    }
}

/// Starts and stops pods by bare calls, and removes their remaining containers and sandboxes.
fn play<T>(
    place: &ClusterPlace,
    plan: &ClusterPlan,
    part: impl FnOnce(&Bare<'_>) -> Result<T>,
) -> Result<T> {
    place.clear().context("clear the place")?;
    let machine = hostfs::machine().context("inspect the machine")?;
    thread::sleep(Duration::from_secs(plan.settle_seconds));
    let played = part(&Bare { place, machine, token_volume: plan.token_volume });
    let cleared = place.clear().context("clean up after bare calls");
    let played = played?;
    cleared.map(|()| played)
}

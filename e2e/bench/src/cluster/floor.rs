//! The calls to the runtime that a pod needs, and no agent: what no agent can be faster than.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::machine::Machine;

use super::node::pause;
use super::place::ClusterPlace;
use super::{ClusterPlan, Singles};
use crate::runtime::{Asked, BarePod};

/// How long pods take one after the other. Tells what was asked for, too.
pub(super) fn one_by_one(place: &ClusterPlace, plan: &ClusterPlan) -> Result<(Singles, Asked)> {
    play(place, plan, |bare| {
        let (mut singles, mut asked) = (Singles::default(), None);
        for number in 0..plan.one_by_one {
            let name = format!("one-{number}");
            let begun = Instant::now();
            let started = place.runtime.start_pods(vec![bare.pod(name.clone())])?;
            singles.start.push(begun.elapsed().as_secs_f64());
            asked = Some(place.runtime.asked(&name)?);
            thread::sleep(pause(number, plan.one_by_one));
            let begun = Instant::now();
            place.runtime.end_pods(started)?;
            singles.delete.push(begun.elapsed().as_secs_f64());
            thread::sleep(pause(plan.one_by_one - number, plan.one_by_one));
        }
        Ok((singles, asked.context("no pod was alone")?))
    })
}

/// How long all take at once: to start, and to end.
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

/// What pods are made with.
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

/// Starts and ends pods by bare calls, and removes what is left of them.
fn play<T>(
    place: &ClusterPlace,
    plan: &ClusterPlan,
    part: impl FnOnce(&Bare<'_>) -> Result<T>,
) -> Result<T> {
    place.clear().context("clear the place")?;
    let machine = hostfs::machine().context("look at the machine")?;
    thread::sleep(Duration::from_secs(plan.settle_seconds));
    let played = part(&Bare { place, machine, token_volume: plan.token_volume });
    let cleared = place.clear().context("clear up after bare calls");
    let played = played?;
    cleared.map(|()| played)
}

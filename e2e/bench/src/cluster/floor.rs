//! The calls to the runtime that a pod needs, and no agent: what no agent can be faster than.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::node::pause;
use super::place::ClusterPlace;
use super::{ClusterPlan, Times};
use crate::runtime::{Asked, BarePod};

/// Starts and ends pods by bare calls, and removes what is left of them. Tells what was asked for, too.
pub(super) fn play(place: &ClusterPlace, plan: &ClusterPlan) -> Result<(Times, Asked)> {
    place.clear().context("clear the place")?;
    let times = times(place, plan);
    let cleared = place.clear().context("clear up after bare calls");
    let times = times?;
    cleared.map(|()| times)
}

fn times(place: &ClusterPlace, plan: &ClusterPlan) -> Result<(Times, Asked)> {
    let machine = hostfs::machine().context("look at the machine")?;
    let pod = |name: String| {
        let files = place.place.file("agent/bare").join(&name);
        BarePod { name, files, machine: machine.clone() }
    };
    let settle = Duration::from_secs(plan.settle_seconds);
    let (mut times, mut asked) = (Times::default(), None);
    thread::sleep(settle);
    for number in 0..plan.one_by_one {
        let name = format!("one-{number}");
        let begun = Instant::now();
        let started = place.runtime.start_pods(vec![pod(name.clone())])?;
        times.start_one.push(begun.elapsed().as_secs_f64());
        asked = Some(place.runtime.asked(&name)?);
        thread::sleep(pause(number, plan.one_by_one));
        let begun = Instant::now();
        place.runtime.end_pods(started)?;
        times.delete_one.push(begun.elapsed().as_secs_f64());
        thread::sleep(pause(plan.one_by_one - number, plan.one_by_one));
    }
    thread::sleep(settle);
    let pods = (0..plan.at_once).map(|number| pod(format!("all-{number}"))).collect();
    let begun = Instant::now();
    let started = place.runtime.start_pods(pods)?;
    times.start_all = begun.elapsed().as_secs_f64();
    thread::sleep(settle);
    let begun = Instant::now();
    place.runtime.end_pods(started)?;
    times.delete_all = begun.elapsed().as_secs_f64();
    Ok((times, asked.context("no pod was alone")?))
}

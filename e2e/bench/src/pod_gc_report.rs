//! What the Pod GC controllers cost, as a page of Markdown.

use std::fmt::Write as _;

use crate::pod_gc::{PodGcResults, Quiet, TARGETS};
use crate::report::{head, line, short};
use crate::results::Agent;
use crate::spread::{Spread, mebibytes, number};

/// A target: its population, how much of upstream's memory is allowed, and how much is taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryVerdict {
    /// How many pods there are.
    pub pods: usize,
    /// The most that is allowed.
    pub allowed: f64,
    /// Our resident memory as a part of upstream's.
    pub ratio: f64,
}

impl MemoryVerdict {
    /// Whether the target is met.
    pub fn met(&self) -> bool {
        self.ratio <= self.allowed
    }
}

fn of(results: &PodGcResults, agent: Agent, pods: usize) -> Option<&Quiet> {
    results.quiet.iter().find(|quiet| quiet.agent == agent && quiet.pods == pods)
}

/// How many pods went in a second, over the rounds of one of them; of bare calls for nobody.
pub fn rate(results: &PodGcResults, agent: Option<Agent>) -> Option<Spread> {
    let rounds = results.deletions.iter().filter(|deletions| deletions.agent == agent);
    Spread::of(rounds.map(|round| number(round.pods as u64) / round.seconds.max(0.001)))
}

/// How the targets are met, for each population that was measured.
pub fn verdicts(results: &PodGcResults) -> Vec<MemoryVerdict> {
    let verdict = |(pods, allowed): &(usize, f64)| {
        let ours = of(results, Agent::Ferrolet, *pods)?.memory.rss_bytes;
        let theirs = of(results, Agent::Upstream, *pods)?.memory.rss_bytes;
        let ratio = mebibytes(ours) / mebibytes(theirs);
        Some(MemoryVerdict { pods: *pods, allowed: *allowed, ratio })
    };
    TARGETS.iter().filter_map(verdict).collect()
}

/// The page; `name` is that of the files beside it.
pub fn markdown(results: &PodGcResults, name: &str) -> String {
    let mut page = head(&results.about, 1, name);
    page.push_str(
        "\nThe Pod GC controller, and kube-controller-manager with no other controller, on one API server.\n\n\
         | pods | | resident, MiB | most, MiB | CPU until quiet, s | CPU of a quiet minute, s |\n\
         |---:|---|---:|---:|---:|---:|\n",
    );
    for quiet in &results.quiet {
        let Quiet { agent, pods, memory, warm_up_cpu_seconds, cpu_seconds_a_minute } = quiet;
        let cells = [
            pods.to_string(),
            agent.name().to_owned(),
            short(mebibytes(memory.rss_bytes)),
            short(mebibytes(memory.peak_rss_bytes)),
            short(*warm_up_cpu_seconds),
            short(*cpu_seconds_a_minute),
        ];
        line(&mut page, &cells.each_ref().map(String::as_str));
    }
    page.push_str(
        "\n| terminated pods deleted by | rounds | pods each | pods a second | least | most |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for agent in [Some(Agent::Ferrolet), Some(Agent::Upstream), None] {
        let who = agent.map_or("bare calls, 32 at a time", Agent::name);
        let rounds = || results.deletions.iter().filter(|deletions| deletions.agent == agent);
        if let Some(rate) = rate(results, agent) {
            let pods = rounds().map(|deletions| deletions.pods).max().unwrap_or_default();
            let Spread { median, min, max } = rate;
            let cells = [rounds().count().to_string(), pods.to_string()];
            let rates = [median, min, max].map(short);
            line(&mut page, &[who, &cells[0], &cells[1], &rates[0], &rates[1], &rates[2]]);
        }
    }
    for verdict in verdicts(results) {
        let MemoryVerdict { pods, allowed, ratio } = verdict;
        let word = if verdict.met() { "met" } else { "**missed**" };
        let ratio = short(ratio);
        writeln!(
            page,
            "\nTarget: at {pods} pods at most {allowed} of upstream's memory: {ratio}, {word}."
        )
        .expect("a string takes every text");
    }
    page
}

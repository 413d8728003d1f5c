//! The costs of the Pod GC controllers, as a page of Markdown.

use std::fmt::Write as _;

use crate::judge::{Floor, Judgement, Measured, every, judge, load_before, worst};
use crate::pod_gc::{PodGcResults, Quiet, TARGETS};
use crate::report::{TARGETS_HEAD, head, line, short};
use crate::results::Agent;
use crate::spread::{Spread, mebibytes, number};

/// A target: its number of pods, the permitted share of upstream's memory, and the measured one.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryVerdict {
    /// How many pods there are.
    pub pods: usize,
    /// The limit.
    pub allowed: f64,
    /// Our resident memory divided by upstream's, in each round.
    pub measured: Vec<Measured>,
}

impl MemoryVerdict {
    /// Whether all rounds are within the limit.
    pub fn judgement(&self) -> Judgement {
        judge(self.allowed, &self.measured)
    }
}

/// Each of our results with upstream's result of the same round.
fn pairs(results: &PodGcResults, pods: usize) -> impl Iterator<Item = (&Quiet, &Quiet)> {
    let of = move |agent: Agent| {
        let all = results.quiet.iter();
        all.filter(move |quiet| quiet.agent == agent && quiet.pods == pods)
    };
    of(Agent::Ferrolet).filter_map(move |ours| {
        let theirs = of(Agent::Upstream).find(|theirs| theirs.round == ours.round)?;
        Some((ours, theirs))
    })
}

/// Deleted pods per second, over the rounds of an agent; of bare calls without one.
pub fn rate(results: &PodGcResults, agent: Option<Agent>) -> Option<Spread> {
    let rounds = results.deletions.iter().filter(|deletions| deletions.agent == agent);
    Spread::of(rounds.map(|round| number(round.pods as u64) / round.seconds.max(0.001)))
}

/// The measurements of each target with a measured population.
pub fn verdicts(results: &PodGcResults) -> Vec<MemoryVerdict> {
    let verdict = |(pods, allowed): &(usize, f64)| {
        let measured = pairs(results, *pods).map(|(ours, theirs)| {
            let (own, all) = (mebibytes(ours.memory.rss_bytes), mebibytes(theirs.memory.rss_bytes));
            Measured {
                round: ours.round,
                value: (all > 0.0).then_some(own / all),
                load: load_before(&results.about, ours.round),
                floor: Floor::of(ours.asleep.map(|asleep| mebibytes(asleep.rss_bytes)), own),
                flaw: None,
            }
        });
        MemoryVerdict { pods: *pods, allowed: *allowed, measured: measured.collect() }
    };
    let all = TARGETS.iter().map(verdict);
    all.filter(|verdict| !verdict.measured.is_empty()).collect()
}

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &PodGcResults, name: &str) -> String {
    let rounds = results.quiet.iter().map(|quiet| quiet.round).max().unwrap_or(1);
    let mut page = head(&results.about, rounds, name);
    write!(page, "\n## Targets\n\n{TARGETS_HEAD}").expect("writing to a string does not fail");
    for verdict in verdicts(results) {
        let what = format!("{} pods: resident memory, of upstream's", verdict.pods);
        let worst = worst(&verdict.measured).map_or("–".to_owned(), short);
        let (allowed, every) = (short(verdict.allowed), every(&verdict.measured));
        line(&mut page, &[&what, &allowed, &worst, &every, &verdict.judgement().written()]);
    }
    page.push_str(
        "\nThe Pod GC controller, and kube-controller-manager with no other controller, on one API server. \
         The floor is the resident memory of a process that sleeps.\n\n\
         | pods | round | | floor, MiB | resident, MiB | most, MiB | CPU until quiet, s | CPU of a quiet minute, s |\n\
         |---:|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for quiet in &results.quiet {
        let Quiet { agent, pods, memory, warm_up_cpu_seconds, cpu_seconds_a_minute, .. } = quiet;
        let floor = quiet.asleep.map(|asleep| short(mebibytes(asleep.rss_bytes)));
        let cells = [
            pods.to_string(),
            quiet.round.to_string(),
            agent.name().to_owned(),
            floor.unwrap_or_default(),
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
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::collect;
    use crate::pod_gc::PodGcPlan;
    use crate::rendering_tests::quiet_rounds;
    use crate::results::{Asleep, Memory};

    /// One round, with that much memory of ours and 200 MiB of upstream's.
    fn round(mebibytes: u64) -> PodGcResults {
        let quiet = |agent, mebibytes: u64| {
            let bytes = mebibytes << 20;
            Quiet {
                round: 1,
                agent,
                pods: 10_000,
                memory: Memory {
                    rss_bytes: bytes,
                    pss_bytes: bytes,
                    anonymous_bytes: bytes,
                    peak_rss_bytes: bytes,
                },
                warm_up_cpu_seconds: 1.0,
                cpu_seconds_a_minute: 0.1,
                asleep: Some(Asleep { cpu_seconds: 0.0, rss_bytes: 1 << 20 }),
            }
        };
        let quiet = vec![quiet(Agent::Ferrolet, mebibytes), quiet(Agent::Upstream, 200)];
        let (about, plan) = (quiet_rounds(1), PodGcPlan::full());
        PodGcResults { about, plan, quiet, deletions: Vec::new() }
    }

    #[test]
    fn rounds_of_several_runs_are_judged_by_the_worst() {
        let two = collect(Some(round(10)), round(20));
        let why = "2 of 3 rounds with a load below 1 before".to_owned();
        assert_eq!(verdicts(&two)[0].judgement(), Judgement::NotJudged(why));
        let page = markdown(&collect(Some(two.clone()), round(30)), "pod-gc");
        for row in [
            "| 10000 pods: resident memory, of upstream's | 0.150 | 0.150 | 0.050, 0.100, 0.150 | met |",
            "| 10000 | 3 | ferrolet | 1.00 | 30.0 |",
            "| rounds | 3, in 30 minutes |",
        ] {
            assert!(page.contains(row), "{row}\n\n{page}");
        }
        let worse = collect(Some(two), round(31));
        assert_eq!(verdicts(&worse)[0].judgement(), Judgement::Missed);
    }
}

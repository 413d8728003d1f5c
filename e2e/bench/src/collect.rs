//! Rounds of several runs, collected in one file of results.
//!
//! A long benchmark can be measured one round at a time. A run adds its rounds to the stored ones if both have measured
//! the same thing: the same commit and program of ferrolet, the same upstream and plan, on as many cores. Otherwise its
//! results replace the stored ones. Ratios are taken within a round, so rounds may be of different machines; the report
//! names all of them.

use crate::cluster::status::{StatusPlan, StatusResults};
use crate::cluster::volumes::{VolumesPlan, VolumesResults};
use crate::cluster::{ClusterPlan, ClusterResults};
use crate::garbage::{GarbagePlan, GarbageResults};
use crate::logs::{LogsPlan, LogsResults};
use crate::node_api::{NodeApiPlan, NodeApiResults};
use crate::pod_gc::PodGcResults;
use crate::probes::{ProbesPlan, ProbesResults};
use crate::results::{About, Results};

/// Results to which later rounds can be added.
pub trait Collect {
    /// The measurements, with machine and time.
    fn about(&self) -> &About;

    /// Like `about`, mutable.
    fn about_mut(&mut self) -> &mut About;

    /// Whether both were measured in the same way, in any number of rounds.
    fn has_same_plan(&self, other: &Self) -> bool;

    /// Adds the numbers of later rounds, and continues the count of rounds.
    fn append(&mut self, later: Self);
}

/// The stored results followed by the new rounds, or only the new results if these measured something else.
pub fn collect<R: Collect>(stored: Option<R>, new: R) -> R {
    let Some(mut stored) = stored.filter(|stored| is_same(stored, &new)) else { return new };
    let later = new.about().clone();
    stored.append(new);
    let about = stored.about_mut();
    about.seconds += later.seconds;
    about.rounds.extend(later.rounds);
    stored
}

fn is_same<R: Collect>(stored: &R, new: &R) -> bool {
    // Without a digest two builds of a changed tree cannot be distinguished.
    let has_digest = !new.about().binary.is_empty();
    has_digest && subject(stored.about()) == subject(new.about()) && stored.has_same_plan(new)
}

/// The facts that are equal in all rounds of a file.
fn subject(about: &About) -> ([&str; 4], usize) {
    let About { commit, binary, ferrolet, upstream, machine, .. } = about;
    ([commit, binary, ferrolet, upstream], machine.cores)
}

impl Collect for Results {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        self.scenarios == other.scenarios
    }

    fn append(&mut self, later: Self) {
        let before = self.runs.iter().map(|run| run.round).max().unwrap_or_default();
        self.runs.extend(later.runs.into_iter().map(|mut run| {
            run.round += before;
            run
        }));
    }
}

impl Collect for GarbageResults {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        let plan = |results: &Self| GarbagePlan { rounds: 0, ..results.plan.clone() };
        plan(self) == plan(other)
    }

    fn append(&mut self, later: Self) {
        let before = self.plan.rounds;
        self.plan.rounds += later.plan.rounds;
        self.runs.extend(later.runs.into_iter().map(|mut run| {
            run.round += before;
            run
        }));
    }
}

impl Collect for ProbesResults {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        let plan = |results: &Self| ProbesPlan { rounds: 0, ..results.plan.clone() };
        plan(self) == plan(other)
    }

    fn append(&mut self, later: Self) {
        let before = self.plan.rounds;
        self.plan.rounds += later.plan.rounds;
        self.runs.extend(later.runs.into_iter().map(|mut run| {
            run.round += before;
            run
        }));
        self.bare.extend(later.bare.into_iter().map(|mut bare| {
            bare.round += before;
            bare
        }));
    }
}

impl Collect for NodeApiResults {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        let plan = |results: &Self| NodeApiPlan { rounds: 0, ..results.plan.clone() };
        plan(self) == plan(other)
    }

    fn append(&mut self, later: Self) {
        let before = self.plan.rounds;
        self.plan.rounds += later.plan.rounds;
        self.runs.extend(later.runs.into_iter().map(|mut run| {
            run.round += before;
            run
        }));
    }
}

impl Collect for ClusterResults {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        let plan = |results: &Self| {
            let plan = results.plan.clone();
            ClusterPlan { rounds: 0, earlier_blocks: 0, ..plan }
        };
        plan(self) == plan(other)
    }

    fn append(&mut self, later: Self) {
        self.plan.rounds += later.plan.rounds;
        self.blocks.extend(later.blocks);
        self.rounds.extend(later.rounds);
    }
}

impl Collect for VolumesResults {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        let plan = |results: &Self| VolumesPlan { rounds: 0, ..results.plan.clone() };
        plan(self) == plan(other)
    }

    fn append(&mut self, later: Self) {
        self.plan.rounds += later.plan.rounds;
        self.rounds.extend(later.rounds);
    }
}

impl Collect for StatusResults {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        let plan = |results: &Self| StatusPlan { rounds: 0, ..results.plan.clone() };
        plan(self) == plan(other)
    }

    fn append(&mut self, later: Self) {
        let before = self.plan.rounds;
        self.plan.rounds += later.plan.rounds;
        self.runs.extend(later.runs.into_iter().map(|mut run| {
            run.round += before;
            run
        }));
        self.bare.extend(later.bare.into_iter().map(|mut bare| {
            bare.round += before;
            bare
        }));
    }
}

impl Collect for LogsResults {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        let plan = |results: &Self| LogsPlan { rounds: 0, ..results.plan.clone() };
        plan(self) == plan(other)
    }

    fn append(&mut self, later: Self) {
        let before = self.plan.rounds;
        self.plan.rounds += later.plan.rounds;
        self.runs.extend(later.runs.into_iter().map(|mut run| {
            run.round += before;
            run
        }));
    }
}

impl Collect for PodGcResults {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    fn has_same_plan(&self, other: &Self) -> bool {
        self.plan == other.plan
    }

    fn append(&mut self, later: Self) {
        let before = self.quiet.iter().map(|quiet| quiet.round).max().unwrap_or_default();
        self.quiet.extend(later.quiet.into_iter().map(|mut quiet| {
            quiet.round += before;
            quiet
        }));
        self.deletions.extend(later.deletions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Block, Times};
    use crate::cluster_report::markdown;
    use crate::rendering_tests::{about, results};
    use crate::results::RoundStart;

    /// Results of one round of a cluster, which began at this minute.
    fn round(minute: u32) -> ClusterResults {
        let mut machine = about().machine;
        machine.load_before = f64::from(minute) / 10.0;
        let start = RoundStart { date: format!("2026-01-02 03:{minute:02} UTC"), machine };
        let about = About { date: start.date.clone(), rounds: vec![start], ..about() };
        let floor = Times { start_all: f64::from(minute), ..Times::default() };
        let blocks = vec![Block { floor, ..Block::default() }];
        ClusterResults { about, plan: ClusterPlan::full(1), blocks, rounds: Vec::new() }
    }

    #[test]
    fn rounds_of_the_same_binary_are_added_and_reported_together() {
        let stored = serde_json::to_string(&collect(Some(round(1)), round(2))).unwrap();
        let mut third = round(3);
        third.plan.earlier_blocks = 2;
        third.about.rounds[0].machine.kernel = "6.2.0".into();
        let all = collect(Some(serde_json::from_str(&stored).unwrap()), third);
        let starts: Vec<f64> = all.blocks.iter().map(|block| block.floor.start_all).collect();
        assert_eq!((starts, all.plan.rounds), (vec![1.0, 2.0, 3.0], 3));
        let page = markdown(&all, "cluster");
        for row in [
            "| date | 2026-01-02 03:01 UTC to 2026-01-02 03:03 UTC |",
            "| machine | 2 cores (some processor), 24 GiB, Linux 6.1.0; 2 cores (some processor), 24 GiB, Linux 6.2.0 |",
            "| load before | 0.10, 0.20, 0.30 |",
            "| rounds | 3, in 30 minutes |",
        ] {
            assert!(page.contains(row), "{row} is not in:\n{page}");
        }
    }

    #[test]
    fn results_are_replaced_when_commit_binary_upstream_or_plan_differs() {
        let changes: [fn(&mut ClusterResults); 5] = [
            |new| new.about.commit.push('0'),
            |new| new.about.binary.push('0'),
            |new| new.about.upstream.push('0'),
            |new| new.about.machine.cores += 1,
            |new| new.plan.at_once += 1,
        ];
        for change in changes {
            let mut new = round(2);
            change(&mut new);
            assert_eq!(collect(Some(round(1)), new.clone()), new);
        }
        assert_eq!(collect(None, round(1)), round(1));
    }

    #[test]
    fn results_without_a_digest_are_not_collected() {
        let without = |minute| {
            let mut results = round(minute);
            results.about.binary.clear();
            results
        };
        assert_eq!(collect(Some(without(1)), without(2)), without(2));
    }

    #[test]
    fn round_numbers_continue_after_the_stored_ones() {
        let all = collect(Some(results()), results());
        let mut numbers: Vec<u32> = all.runs.iter().map(|run| run.round).collect();
        numbers.dedup();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        assert!((all.about.seconds - 2.0 * about().seconds).abs() < 1e-9);
    }
}

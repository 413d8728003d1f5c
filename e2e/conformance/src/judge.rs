//! Compares a run with the stored lists.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::Outcome;

/// The stored results that a run of ferrolet is compared with.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// Specs that passed before.
    pub passing: BTreeSet<String>,
    /// The outcomes of the upstream kubelet.
    pub upstream: BTreeMap<String, Outcome>,
}

/// A spec that did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedSpec {
    pub name: String,
    /// `None` if it did not run at all.
    pub outcome: Option<Outcome>,
    /// The outcome of the upstream kubelet; `None` if it was not measured.
    pub upstream: Option<Outcome>,
    /// It passed before.
    pub regression: bool,
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// The specs that ran and that the upstream kubelet passes.
    pub upstream_passed: usize,
    /// Specs that failed or passed before and did not now, by name.
    pub misses: Vec<MissedSpec>,
    /// Specs that pass for the first time.
    pub new: Vec<String>,
}

impl Judgement {
    pub fn regressions(&self) -> usize {
        self.misses.iter().filter(|miss| miss.regression).count()
    }
}

/// Compares outcomes with the stored lists. With `whole`, every spec that passed before was selected, so a spec that
/// did not run is a regression.
pub fn judge(run: &BTreeMap<String, Outcome>, stored: &Stored, whole: bool) -> Judgement {
    let count = |wanted| run.values().filter(|outcome| **outcome == wanted).count();
    let upstream = |name: &String| stored.upstream.get(name).copied();
    let mut judgement = Judgement {
        passed: count(Outcome::Passed),
        failed: count(Outcome::Failed),
        skipped: count(Outcome::Skipped),
        upstream_passed: run.keys().filter(|name| upstream(name) == Some(Outcome::Passed)).count(),
        ..Judgement::default()
    };
    let not_run = stored.passing.iter().filter(|name| whole && !run.contains_key(*name));
    let names: BTreeSet<&String> = run.keys().chain(not_run).collect();
    for name in names {
        let outcome = run.get(name).copied();
        let passed_before = stored.passing.contains(name);
        match outcome {
            Some(Outcome::Passed) if !passed_before => judgement.new.push(name.clone()),
            Some(Outcome::Passed) => {}
            Some(Outcome::Skipped) if !passed_before => {}
            _ => judgement.misses.push(MissedSpec {
                name: name.clone(),
                outcome,
                upstream: upstream(name),
                regression: passed_before,
            }),
        }
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Failed, Passed, Skipped};

    fn judged(outcome: Option<Outcome>, passed_before: bool, whole: bool) -> Judgement {
        let name = "spec".to_owned();
        let run = outcome.map(|outcome| (name.clone(), outcome)).into_iter().collect();
        let passing = passed_before.then(|| name.clone()).into_iter().collect();
        let upstream = BTreeMap::from([(name, Passed)]);
        judge(&run, &Stored { passing, upstream }, whole)
    }

    #[test]
    fn spec_that_passed_before_must_pass_again() {
        // outcome, passed before, whole selection: misses, regressions, new
        let cases = [
            ((Some(Passed), false, true), (0, 0, 1)),
            ((Some(Passed), true, true), (0, 0, 0)),
            ((Some(Failed), false, true), (1, 0, 0)),
            ((Some(Failed), true, true), (1, 1, 0)),
            ((Some(Failed), true, false), (1, 1, 0)),
            ((Some(Skipped), false, true), (0, 0, 0)),
            ((Some(Skipped), true, true), (1, 1, 0)),
            ((None, true, true), (1, 1, 0)),
            ((None, true, false), (0, 0, 0)),
            ((None, false, true), (0, 0, 0)),
        ];
        for (case, expected) in cases {
            let (outcome, passed_before, whole) = case;
            let judgement = judged(outcome, passed_before, whole);
            let result = (judgement.misses.len(), judgement.regressions(), judgement.new.len());
            assert_eq!(result, expected, "{case:?}");
        }
    }

    #[test]
    fn missed_specs_include_the_result_of_upstream() {
        let run = ["a", "b", "c"].map(|name| (name.to_owned(), Failed)).into();
        let upstream = BTreeMap::from([("a".to_owned(), Passed), ("b".to_owned(), Failed)]);
        let judgement = judge(&run, &Stored { upstream, ..Stored::default() }, true);
        let upstream: Vec<_> = judgement.misses.iter().map(|miss| miss.upstream).collect();
        assert_eq!(upstream, [Some(Passed), Some(Failed), None]);
        assert_eq!((judgement.failed, judgement.upstream_passed), (3, 1));
    }
}

//! The results of a contract's cases.

use std::fmt::Write;

/// The result of a case.
#[derive(Debug)]
pub enum Outcome {
    /// It passed.
    Kept,
    /// The harness lacks a feature.
    Skipped(&'static str),
    /// It failed.
    Broken(anyhow::Error),
}

/// The report of a case.
#[derive(Debug)]
pub struct Report {
    /// The name of the case.
    pub case: &'static str,
    /// Its result.
    pub outcome: Outcome,
}

impl Report {
    pub(super) fn of(case: &'static str, result: anyhow::Result<()>) -> Self {
        let outcome = match result {
            Ok(()) => Outcome::Kept,
            Err(error) => match error.downcast_ref() {
                Some(Impossible(what)) => Outcome::Skipped(what),
                None => Outcome::Broken(error),
            },
        };
        Self { case, outcome }
    }
}

/// The harness lacks a feature that the case needs.
#[derive(Debug)]
pub(super) struct Impossible(pub(super) &'static str);

impl std::fmt::Display for Impossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "this harness cannot {}", self.0)
    }
}

impl std::error::Error for Impossible {}

/// Panics with every failed case, and returns the skipped ones with the missing features.
pub fn assert_kept(reports: &[Report]) -> Vec<(&'static str, &'static str)> {
    let mut broken = String::new();
    let mut skipped = Vec::new();
    for report in reports {
        match &report.outcome {
            Outcome::Kept => {}
            Outcome::Skipped(missing) => skipped.push((report.case, *missing)),
            Outcome::Broken(error) => {
                let case = report.case;
                writeln!(broken, "{case}: {error:#}").expect("writing to a string succeeds");
            }
        }
    }
    assert!(broken.is_empty(), "failed cases of the contract:\n{broken}");
    skipped
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    #[should_panic(expected = "second: it rains: no umbrella")]
    fn failed_case_is_reported_with_its_cause() {
        let error = anyhow!("no umbrella").context("it rains");
        assert_kept(&[Report::of("first", Ok(())), Report::of("second", Err(error))]);
    }

    #[test]
    fn unsupported_case_is_skipped() {
        let skipped = assert_kept(&[Report::of("first", Err(Impossible("rain").into()))]);
        assert_eq!(skipped, [("first", "rain")]);
    }
}

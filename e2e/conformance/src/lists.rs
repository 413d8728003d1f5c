//! The stored lists: specs that passed with ferrolet, and the outcomes of the upstream kubelet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Result, bail};

use crate::report::Outcome;

/// Reads a list of names, one per line.
pub fn read_passing(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
}

pub fn write_passing(names: &BTreeSet<String>) -> String {
    names.iter().flat_map(|name| [name, "\n"]).collect()
}

/// Reads lines of an outcome, a tab and a name.
pub fn read_outcomes(text: &str) -> Result<BTreeMap<String, Outcome>> {
    let mut outcomes = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let outcome = match line.split_once('\t') {
            Some(("passed", _)) => Outcome::Passed,
            Some(("failed", _)) => Outcome::Failed,
            Some(("skipped", _)) => Outcome::Skipped,
            _ => bail!("not an outcome, a tab and a name: {line:?}"),
        };
        let name = line.split_once('\t').map_or("", |(_, name)| name);
        outcomes.insert(name.to_owned(), outcome);
    }
    Ok(outcomes)
}

pub fn write_outcomes(outcomes: &BTreeMap<String, Outcome>) -> String {
    let mut text = String::new();
    for (name, outcome) in outcomes {
        writeln!(text, "{}\t{name}", outcome.name()).expect("writing to a string does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        let outcomes = BTreeMap::from([
            ("a [b] c".to_owned(), Outcome::Failed),
            ("b\tc".to_owned(), Outcome::Passed),
            ("c".to_owned(), Outcome::Skipped),
        ]);
        assert_eq!(read_outcomes(&write_outcomes(&outcomes)).unwrap(), outcomes);
        let names: BTreeSet<String> = ["x y".to_owned(), "z".to_owned()].into();
        assert_eq!(write_passing(&names), "x y\nz\n");
        assert_eq!(read_passing(&write_passing(&names)), names);
    }

    #[test]
    fn line_without_an_outcome_is_refused() {
        assert!(read_outcomes("passed a\n").is_err());
        assert!(read_outcomes("flaked\ta\n").is_err());
    }
}

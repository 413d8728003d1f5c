//! The files of results: the stored lists in the source tree, and the output of failed specs in the cache.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cluster::Agent;
use crate::judge::{Judgement, Stored};
use crate::lists::{read_outcomes, read_passing, write_outcomes, write_passing};
use crate::page::{Run, with_row};
use crate::report::{Outcome, Report};

/// The directory `docs/conformance`.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn read(&self) -> Result<Stored> {
        let passing = read_passing(&read(&self.file("passing.txt"))?);
        let upstream = read_outcomes(&read(&self.file("upstream.txt"))?).context("upstream.txt")?;
        Ok(Stored { passing, upstream })
    }

    /// Adds the specs that passed to the list of the agent. The upstream kubelet's list has every outcome of the run.
    pub fn update_lists(&self, agent: Agent, mut stored: Stored, report: &Report) -> Result<()> {
        let outcomes = report.outcomes();
        match agent {
            Agent::Ferrolet => {
                let passed = outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Passed);
                stored.passing.extend(passed.map(|(name, _)| name.clone()));
                write(&self.file("passing.txt"), &write_passing(&stored.passing))
            }
            Agent::Upstream => {
                stored.upstream.extend(outcomes);
                write(&self.file("upstream.txt"), &write_outcomes(&stored.upstream))
            }
        }
    }

    /// Writes the row of a run into the table of results.
    pub fn update_page(&self, run: &Run<'_>, judgement: &Judgement) -> Result<()> {
        let page = self.file("README.md");
        write(&page, &with_row(&read(&page)?, run, judgement))
    }
}

/// An empty directory for a run, which replaces that of the previous run.
pub fn make_empty(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", directory.display()));
        }
        _ => {}
    }
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))
}

/// Writes the output of every failed spec into a separate file.
pub fn write_failures(report: &Report, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("make {}", into.display()))?;
    let failed = report.specs.iter().filter(|(_, spec)| spec.outcome == Outcome::Failed);
    for (name, spec) in failed {
        let text = format!(
            "{name}\nfailed after {} s\n\n{}\n\n{}",
            spec.seconds, spec.message, spec.output
        );
        write(&into.join(file_name(name)), &text)?;
    }
    Ok(())
}

/// A file name: the letters and digits of a spec's name. Truncated names stay distinct.
pub fn file_name(spec: &str) -> String {
    const LONGEST: usize = 120;
    let words = spec.split(|character: char| !character.is_ascii_alphanumeric());
    let mut name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    if name.len() > LONGEST {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        name.truncate(LONGEST);
        name = format!("{name}-{hash:016x}");
    }
    name + ".txt"
}

/// The content of a file; empty if it is missing.
fn read(path: &Path) -> Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("read {}", path.display())),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn spec_has_a_file_name() {
        let name = "[sig-storage] HostPath should support r/w [NodeConformance]";
        assert_eq!(file_name(name), "sig-storage-HostPath-should-support-r-w-NodeConformance.txt");
        let long = |end| file_name(&format!("{} {end}", "long ".repeat(40)));
        assert_ne!(long("one"), long("two"));
        assert!(long("one").len() < 150);
    }
}

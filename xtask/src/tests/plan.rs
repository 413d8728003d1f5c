//! The tests of a stage, and their jobs in the pool.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::TestProgram;
use super::options::Stage;
use super::times::Times;

/// How many unit tests share a process.
const BATCH: usize = 40;

/// End-to-end tests that keep more than one slot busy, by the start of their names: virtual machines compute, and a
/// benchmark runs both agents.
const HEAVY: [(&str, usize); 3] = [("tiny::", 3), ("vm::", 3), ("machine::", 3)];

/// A test of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) program: TestProgram,
    /// Its name in the program.
    pub(super) name: String,
}

impl Test {
    /// Its name among the tests of the workspace.
    pub(super) fn full_name(&self) -> String {
        full_name(&self.program, &self.name)
    }
}

pub(super) fn full_name(program: &TestProgram, test: &str) -> String {
    // Several packages have integration tests called `it`.
    let name = if program.target == "it" { &program.package } else { &program.target };
    format!("{name}::{test}")
}

/// Tests that one process runs, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) program: TestProgram,
    pub(super) tests: Vec<String>,
    /// The number of slots it takes.
    pub(super) weight: usize,
}

/// The stage that a test belongs to.
fn stage_of(program: &TestProgram, test: &str) -> Stage {
    match (program.package.as_str(), program.target.as_str(), program.is_integration) {
        ("e2e", "soak", true) => Stage::Soak,
        ("e2e", _, true) if test.split("::").any(|part| part == "soak") => Stage::Soak,
        // They compare the whole machine before and after.
        ("testbed", _, true) if test.starts_with("leaks::") => Stage::Testbed,
        ("e2e" | "vm" | "bench" | "testbed", _, true) => Stage::EndToEnd,
        ("sim", _, true) => Stage::Simulator,
        _ => Stage::Unit,
    }
}

/// The tests of a stage whose full names contain one of the filters.
pub(super) fn select(
    programs: &[TestProgram],
    stage: Stage,
    filters: &[String],
) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for program in programs {
        for name in list(program)? {
            if stage_of(program, &name) != stage {
                continue;
            }
            let test = Test { program: program.clone(), name };
            let full = test.full_name();
            if filters.is_empty() || filters.iter().any(|filter| full.contains(filter)) {
                tests.push(test);
            }
        }
    }
    Ok(tests)
}

fn list(program: &TestProgram) -> Result<Vec<String>> {
    let listed = Command::new(&program.executable)
        .args(["--list", "--format", "terse"])
        .current_dir(&program.directory)
        .output()
        .with_context(|| format!("list the tests of {}", program.executable.display()))?;
    ensure!(listed.status.success(), "{}: {}", program.executable.display(), listed.status);
    let listed = String::from_utf8(listed.stdout).context("names of tests")?;
    Ok(names(&listed))
}

/// The names in the output of `--list --format terse`.
fn names(listed: &str) -> Vec<String> {
    listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Cuts tests into jobs, the longest first.
pub(super) fn jobs(tests: Vec<Test>, stage: Stage, times: &Times, repeat: usize) -> Vec<Job> {
    let batch = if stage == Stage::Unit { BATCH } else { 1 };
    let mut jobs: Vec<Job> = Vec::new();
    for test in tests {
        match jobs.last_mut() {
            Some(job) if job.program == test.program && job.tests.len() < batch => {
                job.tests.push(test.name);
            }
            _ => {
                let weight = weight(stage, &test.full_name());
                jobs.push(Job { program: test.program, tests: vec![test.name], weight });
            }
        }
    }
    let seconds = |job: &Job| -> f64 {
        job.tests.iter().map(|test| times.expected(&full_name(&job.program, test))).sum()
    };
    jobs.sort_by(|one, other| seconds(other).total_cmp(&seconds(one)));
    (0..repeat).flat_map(|_| jobs.clone()).collect()
}

fn weight(stage: Stage, name: &str) -> usize {
    let heavy = HEAVY.into_iter().find(|(start, _)| name.starts_with(start));
    match (stage, heavy) {
        // A single history keeps all processors busy.
        (Stage::Simulator, _) => usize::MAX,
        (Stage::EndToEnd, Some((_, weight))) => weight,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, target: &str, is_integration: bool) -> TestProgram {
        TestProgram {
            package: package.to_owned(),
            target: target.to_owned(),
            is_integration,
            directory: "/w".into(),
            executable: "/t".into(),
        }
    }

    #[test]
    fn every_test_belongs_to_a_stage() {
        let cases = [
            (("gc", "gc", false), "a", Stage::Unit),
            (("gc", "images", true), "a", Stage::Unit),
            (("e2e", "e2e", false), "a", Stage::Unit),
            (("e2e", "node", true), "life::a", Stage::EndToEnd),
            (("e2e", "soak", true), "faults::a", Stage::Soak),
            (("e2e", "node", true), "soak::absence::a", Stage::Soak),
            (("e2e", "containerd", true), "gc::soak::a", Stage::Soak),
            (("e2e", "containerd", true), "gc::presoak::a", Stage::EndToEnd),
            (("vm", "machine", true), "a", Stage::EndToEnd),
            (("bench", "tiny", true), "a", Stage::EndToEnd),
            (("testbed", "testbed", false), "a", Stage::Unit),
            (("testbed", "instance", true), "leaks::a", Stage::Testbed),
            (("testbed", "instance", true), "network::a", Stage::EndToEnd),
            (("sim", "histories", true), "a", Stage::Simulator),
        ];
        for ((package, target, is_integration), test, stage) in cases {
            assert_eq!(
                stage_of(&program(package, target, is_integration), test),
                stage,
                "{target}"
            );
        }
    }

    #[test]
    fn tests_are_read_from_a_list_without_benchmarks() {
        assert_eq!(names("a::b: test\nc: benchmark\nd: test\n\n2 tests\n"), ["a::b", "d"]);
    }

    fn tests(program: &TestProgram, count: usize) -> Vec<Test> {
        let test = |number| Test { program: program.clone(), name: format!("t{number}") };
        (0..count).map(test).collect()
    }

    #[test]
    fn unit_tests_run_in_batches_and_others_alone() {
        let gc = program("gc", "gc", false);
        let sizes = |stage| {
            let jobs = jobs(tests(&gc, BATCH + 2), stage, &Times::default(), 1);
            jobs.iter().map(|job| job.tests.len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(Stage::Unit), [BATCH, 2]);
        assert_eq!(sizes(Stage::EndToEnd), vec![1; BATCH + 2]);
    }

    #[test]
    fn longest_jobs_run_first_and_repetitions_in_rounds() {
        let node = program("e2e", "node", true);
        let mut times = Times::default();
        times.set("node::t0", 1.0);
        times.set("node::t1", 9.0);
        let jobs = jobs(tests(&node, 2), Stage::EndToEnd, &times, 2);
        let names: Vec<&str> = jobs.iter().map(|job| job.tests[0].as_str()).collect();
        assert_eq!(names, ["t1", "t0", "t1", "t0"]);
    }

    #[test]
    fn heavy_tests_take_more_slots() {
        assert_eq!(weight(Stage::EndToEnd, "vm::limits::x"), 3);
        assert_eq!(weight(Stage::EndToEnd, "node::life::x"), 1);
        assert_eq!(weight(Stage::Unit, "vm::tests::x"), 1);
        assert_eq!(weight(Stage::Simulator, "histories::x"), usize::MAX);
    }
}

//! Runs jobs in a pool of slots.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::plan::{Job, full_name};

/// A job that takes longer hangs, and is killed.
const LIMIT: Duration = Duration::from_mins(15);
/// How often a running job is looked at.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Pool {
    pub(super) slots: usize,
    /// Busy processes beside the jobs.
    pub(super) load: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestResult {
    pub(super) name: String,
    pub(super) passed: bool,
    pub(super) time: Duration,
}

struct Finished {
    weight: usize,
    /// What was printed, if a test failed.
    output: Option<String>,
    results: Vec<TestResult>,
}

/// Runs all jobs; prints the output of those that fail.
pub(super) fn run(pool: &Pool, jobs: Vec<Job>) -> Result<Vec<TestResult>> {
    let _load = Load::start(pool.load)?;
    let mut queue: VecDeque<Job> = jobs.into();
    let (sender, finished) = mpsc::channel::<Result<Finished>>();
    let mut free = pool.slots;
    let mut running = 0_usize;
    let mut results = Vec::new();
    while running > 0 || !queue.is_empty() {
        while let Some(job) = next(&mut queue, free, pool.slots) {
            free -= job.weight;
            running += 1;
            start(job, sender.clone());
        }
        let done = finished.recv().context("a job was lost")??;
        free += done.weight;
        running -= 1;
        if let Some(output) = done.output {
            println!("{output}");
        }
        let alone = done.results.len() == 1;
        for result in done.results.iter().filter(|result| alone || !result.passed) {
            let outcome = if result.passed { "ok    " } else { "FAILED" };
            println!("{outcome} {:6.1} s  {}", result.time.as_secs_f64(), result.name);
        }
        results.extend(done.results);
    }
    Ok(results)
}

/// The next job, if it fits into the free slots. One that is heavier than the pool gets all of it. None overtakes it:
/// heavy jobs would be left for the end, where most slots are empty.
fn next(queue: &mut VecDeque<Job>, free: usize, slots: usize) -> Option<Job> {
    let weight = queue.front()?.weight.min(slots);
    let job = if weight <= free { queue.pop_front() } else { None };
    job.map(|job| Job { weight, ..job })
}

fn start(job: Job, sender: Sender<Result<Finished>>) {
    thread::spawn(move || {
        sender.send(run_job(&job)).ok();
    });
}

fn run_job(job: &Job) -> Result<Finished> {
    let program = job.program.executable.display();
    let mut child = Command::new(&job.program.executable)
        .args(["--test-threads=1", "--exact"])
        .args(&job.tests)
        .current_dir(&job.program.directory)
        // As cargo sets it: some tests look for files of their checkout.
        .env("CARGO_MANIFEST_DIR", &job.program.directory)
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {program}"))?;
    let begun = Instant::now();
    let stderr = child.stderr.take().context("standard error")?;
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        BufReader::new(stderr).read_to_end(&mut text).ok();
        String::from_utf8_lossy(&text).into_owned()
    });
    let stdout = child.stdout.take().context("standard output")?;
    let lines = thread::spawn(move || {
        let lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
        lines
            .map(|line| (begun.elapsed(), String::from_utf8_lossy(&line).into_owned()))
            .collect::<Vec<_>>()
    });
    let (success, end) = wait(&mut child, begun)?;
    let lines = lines.join().unwrap_or_default();
    let results = results(job, &lines, success, begun.elapsed());
    let output = (!success).then(|| {
        let mut text: String = lines.iter().flat_map(|(_, line)| [line, "\n"]).collect();
        text.push_str(&errors.join().unwrap_or_default());
        text.push_str(&end);
        text
    });
    Ok(Finished { weight: job.weight, output, results })
}

/// Waits for the end of a job; kills it when it hangs. Returns whether it succeeded, and how it ended.
fn wait(child: &mut Child, begun: Instant) -> Result<(bool, String)> {
    loop {
        if let Some(status) = child.try_wait().context("wait for a test")? {
            return Ok((status.success(), status.to_string()));
        }
        if begun.elapsed() > LIMIT {
            child.kill().context("kill a test that hangs")?;
            let status = child.wait().context("wait for a test")?;
            return Ok((false, format!("{status}: killed after {} s", LIMIT.as_secs())));
        }
        thread::sleep(PAUSE);
    }
}

/// What became of each test of a job. A process runs its tests one after the other, so each takes the time from the
/// line before to its own. Tests of a failed process that printed no result have failed.
fn results(
    job: &Job,
    lines: &[(Duration, String)],
    success: bool,
    time: Duration,
) -> Vec<TestResult> {
    let mut results = Vec::new();
    let mut before = Duration::ZERO;
    for test in &job.tests {
        let line = lines.iter().find(|(_, line)| is_of(line, test));
        let (at, passed) = match line {
            Some((at, line)) => (*at, success || line.ends_with(" ok")),
            None => (time, success),
        };
        let name = full_name(&job.program, test);
        results.push(TestResult { name, passed, time: at.saturating_sub(before) });
        before = at;
    }
    results
}

/// Whether a line is the result of a test: `test NAME ... ok`, or `test NAME - should panic ... ok`.
fn is_of(line: &str, test: &str) -> bool {
    line.strip_prefix("test ")
        .and_then(|rest| rest.strip_prefix(test))
        .is_some_and(|rest| rest.starts_with(" ... ") || rest.starts_with(" - should panic ... "))
}

/// Busy processes, ended when dropped.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Result<Self> {
        let mut load = Self(Vec::new());
        for _ in 0..count {
            let busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
            load.0.push(busy.context("start a busy process")?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::TestProgram;
    use super::*;

    fn job(tests: &[&str], weight: usize) -> Job {
        let program = TestProgram {
            package: "gc".to_owned(),
            target: "gc".to_owned(),
            is_integration: false,
            directory: "/".into(),
            executable: "/t".into(),
        };
        Job { program, tests: tests.iter().map(|test| (*test).to_owned()).collect(), weight }
    }

    #[test]
    fn heavy_job_waits_for_its_slots_and_is_not_overtaken() {
        let mut queue: VecDeque<Job> =
            [job(&["heavy"], usize::MAX), job(&["a"], 1), job(&["b"], 1)].into();
        assert_eq!(next(&mut queue, 1, 2), None);
        let first = next(&mut queue, 2, 2).unwrap();
        assert_eq!((first.tests[0].as_str(), first.weight), ("heavy", 2));
        assert_eq!(next(&mut queue, 0, 2), None);
        assert_eq!(next(&mut queue, 1, 2).unwrap().tests, ["a"]);
    }

    #[test]
    fn time_and_result_of_each_test_come_from_its_line() {
        let line = |seconds, text: &str| (Duration::from_secs(seconds), text.to_owned());
        let lines =
            [line(0, "running 3 tests"), line(2, "test a ... ok"), line(5, "test ab ... FAILED")];
        let results = results(&job(&["a", "ab", "c"], 1), &lines, false, Duration::from_secs(6));
        let seen: Vec<_> = results
            .iter()
            .map(|result| (result.name.as_str(), result.passed, result.time.as_secs()))
            .collect();
        assert_eq!(seen, [("gc::a", true, 2), ("gc::ab", false, 3), ("gc::c", false, 1)]);
    }

    #[test]
    fn result_of_a_test_that_should_panic_is_found() {
        assert!(is_of("test a::b - should panic ... ok", "a::b"));
        assert!(!is_of("test a::bc ... ok", "a::b"));
    }
}

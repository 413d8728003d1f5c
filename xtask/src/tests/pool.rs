//! Runs jobs in a pool of slots.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::plan::{Job, full_name};

/// How long the output of a job may stay open after its end, by a process that it left behind.
const OUTPUT: Duration = Duration::from_secs(5);
/// How libtest begins the line with its totals.
const TOTALS: &str = "test result:";
/// How often a running job is looked at.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Pool {
    pub(super) slots: usize,
    /// A job that takes longer counts as hanging, and is killed.
    pub(super) limit: Duration,
    /// Busy processes that run during the jobs.
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
    /// The output, if a test failed.
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
            start(job, pool.limit, sender.clone());
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

/// The next job, if it fits into the free slots. A job that is heavier than the pool gets all slots. No job overtakes
/// it: otherwise heavy jobs would run at the end, when most slots are empty.
fn next(queue: &mut VecDeque<Job>, free: usize, slots: usize) -> Option<Job> {
    let weight = queue.front()?.weight.min(slots);
    let job = if weight <= free { queue.pop_front() } else { None };
    job.map(|job| Job { weight, ..job })
}

fn start(job: Job, limit: Duration, sender: Sender<Result<Finished>>) {
    thread::spawn(move || {
        let done = std::panic::catch_unwind(|| run_job(&job, limit));
        sender.send(done.unwrap_or_else(|_| Err(anyhow!("a job panicked")))).ok();
    });
}

fn run_job(job: &Job, limit: Duration) -> Result<Finished> {
    let program = job.program.executable.display();
    let mut child = Command::new(&job.program.executable)
        .args(["--test-threads=1", "--exact"])
        // The captured output of a killed test would be lost.
        .args((job.tests.len() == 1).then_some("--nocapture"))
        .args(&job.tests)
        .current_dir(&job.program.directory)
        // Like cargo: some tests look for files of their checkout.
        .env("CARGO_MANIFEST_DIR", &job.program.directory)
        .env("RUST_BACKTRACE", "1")
        // Backtraces only of panics.
        .env("RUST_LIB_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {program}"))?;
    let begun = Instant::now();
    let stderr = Output::read(child.stderr.take().context("standard error")?, begun);
    let stdout = Output::read(child.stdout.take().context("standard output")?, begun);
    let (success, end) = wait(&mut child, begun, limit)?;
    let lines = stdout.lines();
    let results = results(job, &lines, success, begun.elapsed());
    let output = results.iter().any(|result| !result.passed).then(|| {
        let all = lines.into_iter().chain(stderr.lines()).map(|(_, line)| line);
        // The totals of a stage are added up from lines like these.
        let mut text: Vec<String> = all.filter(|line| !line.starts_with(TOTALS)).collect();
        text.push(end);
        text.join("\n")
    });
    Ok(Finished { weight: job.weight, output, results })
}

/// Lines of a process with the time of each, read as they arrive.
struct Output {
    lines: Arc<Mutex<Vec<(Duration, String)>>>,
    /// Closed at the end of the output.
    end: Receiver<()>,
}

impl Output {
    fn read(from: impl Read + Send + 'static, begun: Instant) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (open, end) = mpsc::channel();
        let into = Arc::clone(&lines);
        thread::spawn(move || {
            let _open: Sender<()> = open;
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                into.lock().unwrap_or_else(PoisonError::into_inner).push((begun.elapsed(), line));
            }
        });
        Self { lines, end }
    }

    /// The lines of a process that has ended.
    fn lines(&self) -> Vec<(Duration, String)> {
        self.end.recv_timeout(OUTPUT).ok();
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Waits for the end of a job; kills it when it hangs. Returns whether it succeeded, and how it ended.
fn wait(child: &mut Child, begun: Instant, limit: Duration) -> Result<(bool, String)> {
    loop {
        if let Some(status) = child.try_wait().context("wait for a test")? {
            return Ok((status.success(), status.to_string()));
        }
        if begun.elapsed() > limit {
            child.kill().context("kill a test that hangs")?;
            let status = child.wait().context("wait for a test")?;
            return Ok((false, format!("{status}: killed after {} s", limit.as_secs())));
        }
        thread::sleep(PAUSE);
    }
}

/// The result of each test of a job. A process runs its tests one after the other, so each takes the time from the
/// line before to its own. The tests of a process that fails, or that does not count all of them as passed, have passed
/// only if their lines say so; if all say so, the last one has failed.
fn results(
    job: &Job,
    lines: &[(Duration, String)],
    success: bool,
    time: Duration,
) -> Vec<TestResult> {
    let totals = format!("{TOTALS} ok. {} passed; 0 failed;", job.tests.len());
    let all_passed = success && lines.iter().any(|(_, line)| line.starts_with(&totals));
    let mut results = Vec::new();
    let mut before = Duration::ZERO;
    for test in &job.tests {
        let line = lines.iter().find(|(_, line)| is_of(line, test));
        let (at, passed) = match line {
            // The output of a single test begins on the line of its result.
            Some(_) if job.tests.len() == 1 => (time, all_passed),
            Some((at, line)) => (*at, all_passed || line.ends_with(" ok")),
            None => (time, all_passed),
        };
        let name = full_name(&job.program, test);
        results.push(TestResult { name, passed, time: at.saturating_sub(before) });
        before = at;
    }
    if !all_passed && results.iter().all(|result| result.passed) {
        results.iter_mut().next_back().into_iter().for_each(|last| last.passed = false);
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
            let busy = Command::new("sh").args(["-c", "while kill -0 $PPID; do :; done"]).spawn();
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

    fn outcome(tests: &[&str], lines: &[&str], success: bool) -> Vec<bool> {
        let lines: Vec<_> = lines.iter().map(|line| (Duration::ZERO, (*line).to_owned())).collect();
        let results = results(&job(tests, 1), &lines, success, Duration::ZERO);
        results.iter().map(|result| result.passed).collect()
    }

    #[test]
    fn time_of_each_test_comes_from_its_line() {
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
    fn test_passes_only_if_its_process_succeeds_and_counts_it() {
        let [a, b] = ["test a ... ok", "test b ... ok"];
        let totals = "test result: ok. 2 passed; 0 failed; 0 ignored";
        assert_eq!(outcome(&["a", "b"], &[a, b, totals], true), [true, true]);
        assert_eq!(outcome(&["a", "b"], &[a, b, totals], false), [true, false], "it was killed");
        assert_eq!(outcome(&["a", "b"], &[a], true), [true, false], "it ended early");
        let ignored = "test result: ok. 1 passed; 0 failed; 1 ignored";
        assert_eq!(outcome(&["a", "b"], &[a, "test b ... ignored", ignored], true), [true, false]);
        let printed = ["test a ... some output", "ok", "test result: ok. 1 passed; 0 failed; 0"];
        assert_eq!(outcome(&["a"], &printed, true), [true]);
    }

    fn shell_job(script: &str) -> Job {
        let directory = tempfile::tempdir().unwrap().keep();
        let executable = directory.join("test");
        std::fs::write(&executable, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&executable, mode).unwrap();
        let job = job(&["a"], 1);
        let program = TestProgram { directory, executable, ..job.program };
        Job { program, ..job }
    }

    #[test]
    fn job_that_hangs_is_killed_and_its_output_shown() {
        let done = run_job(&shell_job("echo begun; exec sleep 60"), Duration::from_millis(300));
        let done = done.unwrap();
        assert!(!done.results[0].passed);
        let output = done.output.unwrap();
        assert!(output.starts_with("begun\n") && output.contains("killed after"), "{output}");
    }

    #[test]
    fn process_left_behind_does_not_hold_up_the_pool() {
        let script = "sleep 30 & echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        let begun = Instant::now();
        let done = run_job(&shell_job(script), Duration::from_mins(1)).unwrap();
        assert!(done.results[0].passed && done.output.is_none());
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn result_of_a_test_that_should_panic_is_found() {
        assert!(is_of("test a::b - should panic ... ok", "a::b"));
        assert!(!is_of("test a::bc ... ok", "a::b"));
    }
}

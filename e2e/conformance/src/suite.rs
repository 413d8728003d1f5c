//! One run of upstream's suite inside a cluster.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::{Cache, Command, Process, ProcessError, Signal};

use crate::cluster::{Cluster, ROOT_DIR};
use crate::progress::Progress;
use crate::report::Report;
use crate::selection::Selection;

/// The pause between two checks of the run.
const LOOK: Duration = Duration::from_secs(1);
/// How often progress is printed.
const PRINT: Duration = Duration::from_secs(15);
/// How long ginkgo may take to write its report after its own time limit, in which it cleans up.
const GRACE: Duration = Duration::from_mins(3);
/// How long ginkgo may take to end after an interrupt.
const END: Duration = Duration::from_secs(15);

/// The suite's parameters.
#[derive(Debug)]
pub struct Suite<'a> {
    pub selection: &'a Selection,
    pub processes: u32,
    /// The time limit of the specs.
    pub minutes: u64,
    /// The directory of ginkgo's report and output.
    pub results: &'a Path,
}

impl Suite<'_> {
    /// Runs the suite and reads its report. `on_step` fails when the run should end.
    pub fn run(&self, cluster: &Cluster, on_step: &impl Fn(&str) -> Result<()>) -> Result<Report> {
        let command = self.command(cluster)?;
        let ginkgo = cluster.instance().spawn("ginkgo", &command).context("start ginkgo")?;
        let followed = self.follow(cluster, &ginkgo, on_step);
        if followed.is_err() {
            end(&ginkgo);
        }
        followed?;
        let path = self.results.join("report.json");
        let json = fs::read(&path)
            .with_context(|| format!("ginkgo has written no {}: see ginkgo.log", path.display()))?;
        let report = Report::parse(&json).with_context(|| format!("read {}", path.display()))?;
        ensure!(
            !report.specs.is_empty() || !report.suite_failures.is_empty(),
            "the selection matches no spec"
        );
        Ok(report)
    }

    fn command(&self, cluster: &Cluster) -> Result<Command> {
        let parts = Cache::from_env()?.parts();
        let suite = parts.conformance();
        for program in ["ginkgo", "e2e.test"] {
            let path = suite.join(program);
            ensure!(path.is_file(), "{} is missing: run `make conformance`", path.display());
        }
        let text = |path: &Path| path.display().to_string();
        Ok(Command::new(text(&suite.join("ginkgo")))
            .args(["--no-color", "--silence-skips", "--poll-progress-after=0"])
            .arg(format!("--procs={}", self.processes))
            .arg(format!("--timeout={}m", self.minutes))
            .args(self.selection.flags())
            .arg(format!("--output-dir={}", text(self.results)))
            .arg("--json-report=report.json")
            .arg(text(&suite.join("e2e.test")))
            .arg("--")
            .args(["--kubeconfig", &text(cluster.kubeconfig())])
            .args(["--provider=skeleton", "--disable-log-dump", "--node-schedulable-timeout=1m"])
            .arg(format!("--kubectl-path={}", text(&parts.program("kubectl"))))
            .arg(format!("--kubelet-root-dir={ROOT_DIR}"))
            .arg(format!("--e2e-output-dir={}", text(cluster.instance().dir()))))
    }

    /// Waits for ginkgo's end and prints its progress.
    fn follow(
        &self,
        cluster: &Cluster,
        ginkgo: &Process,
        on_step: &impl Fn(&str) -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        let limit = Duration::from_secs(60 * self.minutes) + GRACE;
        let (mut printed, mut shown) = (Instant::now(), Progress::default());
        loop {
            match ginkgo.wait(LOOK) {
                Err(ProcessError::StillRunning { .. }) => {}
                // The exit code and the report both show whether specs failed.
                ended => {
                    ended?;
                    print(&Progress::of(&ginkgo.log()), &mut shown, begun.elapsed());
                    return Ok(());
                }
            }
            on_step("")?;
            cluster.check_agent()?;
            if begun.elapsed() > limit {
                bail!("ginkgo has not ended {} min after its time limit", GRACE.as_secs() / 60);
            }
            if printed.elapsed() > PRINT {
                print(&Progress::of(&ginkgo.log()), &mut shown, begun.elapsed());
                printed = Instant::now();
            }
        }
    }
}

/// Prints the progress, and new failures.
fn print(now: &Progress, shown: &mut Progress, time: Duration) {
    for name in &now.failed[shown.failed.len().min(now.failed.len())..] {
        println!("        failed: {name}");
    }
    println!("{}", now.line(time.as_secs()));
    shown.clone_from(now);
}

/// Interrupts ginkgo and its processes. The others end with the instance.
fn end(ginkgo: &Process) {
    if ginkgo.signal_group(Signal::Term).is_ok() {
        ginkgo.wait(END).ok();
    }
}

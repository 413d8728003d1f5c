//! `make cluster`, as users run it: it starts, answers commands, and leaves nothing.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::node::program;
use rustix::process::{Pid, Signal, kill_process_group};
use testbed::wait;

/// The timeout of its start, and of its end.
const UP: Duration = Duration::from_mins(3);
const GONE: Duration = Duration::from_mins(1);
/// Each check starts a program.
const PAUSE: Duration = Duration::from_millis(500);

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands of `make cluster`, one on each line.
fn recipe() -> Result<Vec<String>> {
    let mut make = Command::new("make");
    // A `make` around the test passes its flags to its children.
    make.args(["--dry-run", "--no-print-directory", "cluster"]).current_dir(tree());
    for inherited in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        make.env_remove(inherited);
    }
    let output = make.output().context("run make")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.lines().map(ToOwned::to_owned).collect())
}

/// The sample cluster: the last command of the recipe, on the programs that were built with this test.
struct Sample {
    /// In its own process group, as a shell would start it.
    child: Child,
    directory: tempfile::TempDir,
    programs: PathBuf,
    over: bool,
}

impl Sample {
    fn start(command: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let ferrolet = program("ferrolet")?;
        let programs = ferrolet.parent().context("programs lie in a directory")?.to_owned();
        ensure!(program("testbed")?.parent() == Some(programs.as_path()), "{}", programs.display());
        let said = File::create(directory.path().join("said"))?;
        let child = Command::new("bash")
            .args(["-c", &format!("exec {command}")])
            .current_dir(tree())
            .env("FERROLET_PROGRAMS", &programs)
            .env("FERROLET_NOTE", directory.path().join("note"))
            .stdout(said.try_clone()?)
            .stderr(said)
            .process_group(0)
            .spawn()
            .context("start the sample cluster")?;
        Ok(Self { child, directory, programs, over: false })
    }

    /// Its output so far.
    fn output(&self) -> String {
        fs::read_to_string(self.directory.path().join("said")).unwrap_or_default()
    }

    fn note(&self) -> PathBuf {
        self.directory.path().join("note")
    }

    /// The output of a script, or its error.
    fn run_script(&self, script: &str, args: &[&str]) -> Result<Result<String, String>> {
        let output = Command::new(format!("scripts/{script}.sh"))
            .args(args)
            .current_dir(tree())
            .env("FERROLET_PROGRAMS", &self.programs)
            .env("FERROLET_NOTE", self.note())
            .output()
            .with_context(|| format!("run scripts/{script}.sh"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let answer = text(&output.stdout);
        Ok(if output.status.success() { Ok(answer) } else { Err(text(&output.stderr)) })
    }

    /// Runs a script until its output is right.
    fn wait_for(&mut self, script: &str, args: &[&str], right: fn(&str) -> bool) -> Result<String> {
        wait::every(PAUSE, &format!("{script} {args:?}"), UP, || {
            if let Some(status) = self.child.try_wait()? {
                self.over = true;
                bail!("it ended, {status}: {}", self.output());
            }
            let answer = self.run_script(script, args)?;
            Ok(match answer {
                Ok(answer) if right(&answer) => Ok(answer),
                Ok(answer) | Err(answer) => Err(format!("{answer}\n{}", self.output())),
            })
        })
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let group = Pid::from_raw(self.child.id().cast_signed()).context("a process has a pid")?;
        kill_process_group(group, signal).context("signal the sample cluster")
    }

    /// Stops it as ^C does.
    fn interrupt(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::INT)?;
        let status = wait::until("it exits", GONE, || {
            Ok(self.child.try_wait()?.ok_or_else(|| self.output()))
        })?;
        self.over = true;
        Ok(status)
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        if !self.over {
            self.signal(Signal::KILL).ok();
            self.child.wait().ok();
        }
    }
}

/// The processes with a path in their command line.
fn processes_with(path: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // A process may end meanwhile.
        let words = fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        if words.contains(path) {
            found.push(words);
        }
    }
    Ok(found)
}

#[test]
fn make_cluster_runs_its_deployment_serves_scripts_and_leaves_nothing() -> Result<()> {
    let recipe = recipe()?;
    let [parts, images, run] = recipe.as_slice() else { bail!("{recipe:#?}") };
    ensure!(parts.starts_with("e2e/parts/build.sh ") && images.starts_with("e2e/build-images.sh "));
    let mut sample = Sample::start(run)?;
    let ready = ["get", "deployment", "hello", "-o", "jsonpath={.status.readyReplicas}"];
    sample.wait_for("kubectl", &ready, |replicas| replicas == "3")?;
    let nodes = sample.wait_for("kubectl", &["get", "nodes"], |nodes| nodes.contains(" Ready "))?;
    ensure!(nodes.lines().count() == 2, "one node, below the head: {nodes}");
    let pods = sample.wait_for("ask", &["get", "pods"], |pods| pods.contains("Running"))?;
    ensure!(pods.matches("hello-").count() == 3, "{pods}");
    let greeting = ["exec", "deployment/shared", "-c", "reader", "--", "/workload", "cat"];
    let greeting = [&greeting[..], &["/etc/greeting/text"]].concat();
    sample.wait_for("kubectl", &greeting, |text| text == "hello")?;

    let root = fs::read_to_string(sample.note())?;
    let instance = Path::new(root.trim()).parent().context("the node has a place")?.to_owned();
    ensure!(instance.exists(), "{}", instance.display());
    let status = sample.interrupt()?;
    ensure!(status.success(), "{status}: {}", sample.output());
    ensure!(!sample.note().exists(), "{}", sample.output());
    ensure!(!instance.exists(), "{} is left: {}", instance.display(), sample.output());
    let left = processes_with(&instance.display().to_string())?;
    ensure!(left.is_empty(), "{left:#?}");
    let requested = sample.run_script("kubectl", &["get", "nodes"])?;
    ensure!(requested == Err("make cluster is not running\n".to_owned()), "{requested:?}");
    Ok(())
}

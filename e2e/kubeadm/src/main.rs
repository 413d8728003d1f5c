//! The program `kubeadm` of the tests. See the library.
#![allow(clippy::disallowed_methods, reason = "a test tool works on real files and time")]

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use kubeadm::cluster::Cluster;
use kubeadm::page::{with_results, word};
use kubeadm::steps::{self, Done, Outcome, STEPS};
use lexopt::{Arg::Long, ValueExt as _};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const USAGE: &str = "\
usage: kubeadm --docs DIR --results DIR --ferrolet DIR [--commit ID] [--date DATE]
  Sets up a cluster of two nodes with upstream's kubeadm, and ferrolet as their kubelet. Needs root, and what
  `make kubeadm` builds. Prints the result of every step, writes them into DIR/kubeadm/README.md, and keeps all logs
  in the results directory. Ends with code 1 when a step failed, and with code 2 when the machines did not start.

  --docs DIR        the directory of the documentation
  --ferrolet DIR    the directory of ferrolet
  --commit, --date  for the table of results";

/// The arguments of the command line.
#[derive(Debug)]
struct Settings {
    docs: PathBuf,
    results: PathBuf,
    ferrolet: PathBuf,
    commit: String,
    date: String,
}

fn main() -> ExitCode {
    match settings(std::env::args_os().skip(1)).and_then(|settings| run(&settings)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kubeadm: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn settings(args: impl Iterator<Item = OsString>) -> Result<Settings> {
    let (mut docs, mut results, mut ferrolet) = (None, None, None);
    let (mut commit, mut date) = (String::new(), String::new());
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("docs") => docs = Some(parser.value()?.into()),
            Long("results") => results = Some(parser.value()?.into()),
            Long("ferrolet") => ferrolet = Some(PathBuf::from(parser.value()?)),
            Long("commit") => commit = parser.value()?.string()?,
            Long("date") => date = parser.value()?.string()?,
            other => return Err(other.unexpected()).context(USAGE),
        }
    }
    Ok(Settings {
        docs: docs.context(USAGE)?,
        results: results.context(USAGE)?,
        ferrolet: fs::canonicalize(ferrolet.context(USAGE)?).context("find ferrolet")?,
        commit,
        date,
    })
}

/// Runs all steps; returns whether all passed.
fn run(settings: &Settings) -> Result<bool> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("catch signals")?;
    }
    let install_page = read(&settings.docs.join("install.md"))?;
    make_empty(&settings.results)?;
    println!("logs: {}", settings.results.display());
    println!("starting two machines");
    let flag = Arc::clone(&interrupted);
    let cluster = Cluster::start(settings.ferrolet.clone(), install_page, flag)?;
    let all = steps::run(&cluster, &STEPS, print);
    let copied = cluster.copy_logs(&settings.results);
    cluster.stop().context("stop the machines")?;
    copied?;
    ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
    let page = settings.docs.join("kubeadm/README.md");
    let text = with_results(&read(&page)?, &all, &settings.commit, &settings.date);
    fs::write(&page, text).with_context(|| format!("write {}", page.display()))?;
    let passed = all.iter().filter(|done| done.outcome == Outcome::Passed).count();
    println!("{passed} of {} steps passed", all.len());
    Ok(passed == all.len())
}

fn print(done: &Done) {
    println!("{:7} {:3} s  {}", word(&done.outcome), done.seconds, done.name);
    if let Outcome::Failed(error) = &done.outcome {
        println!("  {}", error.replace('\n', "\n  "));
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// An empty directory for a run, which replaces that of the previous run.
fn make_empty(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", directory.display()));
        }
        _ => {}
    }
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))
}

//! The testbed's program. `testbed run` is for users; the other commands are internal.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use testbed::Command;

const USAGE: &str = "\
usage: testbed run [--control-plane] [--] COMMAND [ARGUMENT...]
  Runs COMMAND in an isolated instance with containerd, and removes the instance when it ends.
  COMMAND finds FERROLET_TESTBED_SOCKET, FERROLET_TESTBED_DIR, FERROLET_TESTBED_NODE_IP and
  FERROLET_TESTBED_POD_CIDR in its environment. Needs root, and the parts that `make testbed` builds.
  With a control plane, KUBECONFIG is that of an administrator and kubectl is in PATH;
  FERROLET_TESTBED_NODE_KUBECONFIG is that of a node by the name of FERROLET_TESTBED_NODE.
  FERROLET_KEEP=1 keeps the instance's files.";

fn main() -> ExitCode {
    match dispatch() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("testbed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch() -> Result<ExitCode> {
    let mut args: Vec<String> = env::args_os()
        .skip(1)
        .map(|arg| {
            arg.into_string().map_err(|arg| anyhow::anyhow!("{} is not UTF-8", arg.display()))
        })
        .collect::<Result<_>>()?;
    if args.is_empty() {
        bail!("{USAGE}");
    }
    let rest = args.split_off(1);
    match args[0].as_str() {
        "run" => run(rest),
        "supervise" => Ok(testbed::supervise()),
        "enter" => enter(&rest),
        "init" => init(&rest),
        "follow" => follow(&rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => bail!("there is no command {other}\n{USAGE}"),
    }
}

fn run(mut args: Vec<String>) -> Result<ExitCode> {
    let mut take_first = |wanted: &str| {
        let first = args.first().is_some_and(|arg| arg == wanted);
        first.then(|| args.remove(0)).is_some()
    };
    let control_plane = take_first("--control-plane");
    take_first("--");
    let mut args = args.into_iter();
    let program = args.next().context(USAGE)?;
    let code = testbed::run(Command::new(program).args(args), control_plane)?;
    Ok(ExitCode::from(code))
}

/// `enter CGROUP... -- PROGRAM ARGUMENT...`
fn enter(args: &[String]) -> Result<ExitCode> {
    let at = args.iter().position(|arg| arg == "--").context("a program is needed")?;
    let cgroups: Vec<PathBuf> = args[..at].iter().map(PathBuf::from).collect();
    let (program, args) = args[at + 1..].split_first().context("a program is needed")?;
    Err(testbed::enter(&cgroups, program, args).into())
}

/// `follow PARENT -- PROGRAM ARGUMENT...`
fn follow(args: &[String]) -> Result<ExitCode> {
    let [parent, dashes, program, args @ ..] = args else {
        bail!("a parent and a program are needed")
    };
    if dashes != "--" {
        bail!("a program is needed after --");
    }
    let parent = parent.parse().context("the parent is a number")?;
    Err(testbed::follow(parent, program, args).into())
}

/// `init SLOT DIRECTORY`
fn init(args: &[String]) -> Result<ExitCode> {
    let [slot, dir] = args else { bail!("a slot and a directory are needed") };
    Ok(testbed::init(slot.parse().context("the slot is a number")?, dir.into()))
}

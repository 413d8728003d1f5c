//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::{klog, run};

/// A Kubernetes node agent.
#[derive(Debug, Parser)]
#[command(name = "ferrolet", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the node agent: keep the pods of this machine as their manifests say.
    Run(RunArgs),
}

/// Flags of `ferrolet run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// File with a `KubeletConfiguration`.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Directory for the agent's files.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub(crate) root_dir: PathBuf,
    /// Name of this node instead of the machine's host name.
    #[arg(long, value_name = "NAME")]
    pub(crate) hostname_override: Option<String>,
    /// How much to log: 0 and 1 what changes, 2 and 3 what is observed, 4 and 5 decisions, more for calls.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub(crate) verbosity: u8,
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let Command::Run(args) = Cli::parse().command;
    klog::init(args.verbosity);
    match run::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ferrolet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

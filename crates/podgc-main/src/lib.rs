//! The Pod GC program, `ferrolet pod-gc`: the Pod GC controller of a cluster as a process.
//!
//! Inputs: the flags, the API server, and signals. Outputs: deletions of pods, a journal of them in the state directory,
//! events, and an HTTPS port with health, metrics and settings.
//!
//! ```text
//!  flags ──> connection ──> HTTPS port ──> API server is healthy ──> lease ──> controller (crate `podgc`)
//!                                                                     └ lost: ends with code 1
//! ```
//!
//! Invariants:
//! - this crate only wires: the controller decides in `podgc`;
//! - no pod is deleted before the lease is held or after it is lost;
//! - a signal stops the controller first; then events are written and the lease is released.

mod configz;
#[cfg(test)]
mod deploy_tests;
mod health;
mod help;
mod pages;
mod parts;
mod run;

use std::ffi::OsString;
use std::io::{self, Write as _};

use anyhow::{Result, anyhow};
use config::pod_gc::{Invocation, parse};
use process::{klog, version};

pub use parts::journal_dir;

/// Runs the controller with the arguments after `pod-gc`, or prints help or the version.
pub fn dispatch(args: &[OsString]) -> Result<()> {
    let texts = args.iter().map(|arg| {
        arg.to_str()
            .map(str::to_owned)
            .ok_or_else(|| anyhow!("argument {} is not UTF-8", arg.display()))
    });
    let text = match parse(texts.collect::<Result<Vec<_>>>()?)? {
        Invocation::Run(args) => {
            let format = if args.json_logs { klog::Format::Json } else { klog::Format::Text };
            let _verbosity = klog::init(format, args.verbosity, None);
            return run::run(&args);
        }
        Invocation::Help => help::help(),
        Invocation::Version => version::text(),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

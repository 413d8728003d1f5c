//! `ferrolet pod-gc`: the Pod GC controller, and queries about its deletions.

use std::ffi::OsString;

use anyhow::Result;
use clap::{CommandFactory as _, Parser as _};

use super::{UsageError, pod_gc_why as why};

/// Runs the command with the arguments after `pod-gc`.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    if args.first().is_some_and(|first| first == "why") {
        return why::run(&why::Args::parse_from(args));
    }
    if let Some(arg) = args.iter().find(|arg| arg.to_str().is_none()) {
        return Err(UsageError(format!("argument {} is not UTF-8", arg.display())).into());
    }
    podgc_main::dispatch(args)
}

/// The command `pod-gc why`.
pub(crate) fn why_command() -> clap::Command {
    why::Args::command()
}

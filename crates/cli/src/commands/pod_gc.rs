//! `ferrolet pod-gc`: the Pod GC controller, and queries about its deletions.

use std::ffi::OsString;

use anyhow::Result;
use clap::Parser as _;

use super::pod_gc_why as why;

/// Runs the command with the arguments after `pod-gc`.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    if args.first().is_some_and(|first| first == "why") {
        return why::run(&why::Args::parse_from(args));
    }
    podgc_main::dispatch(args)
}

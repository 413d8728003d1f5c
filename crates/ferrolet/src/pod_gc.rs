//! `ferrolet pod-gc`: the Pod GC controller of a cluster.

mod configz;
#[cfg(test)]
mod deploy_tests;
mod health;
mod help;
mod pages;
mod parts;
mod run;
pub(crate) mod why;

use std::ffi::OsString;
use std::io::{self, Write as _};

use anyhow::{Result, anyhow};
use clap::Parser as _;
use config::pod_gc::{Asked, parse};
use process::{klog, version};

/// Does what the arguments behind `pod-gc` say.
pub(crate) fn dispatch(args: &[OsString]) -> Result<()> {
    if args.first().is_some_and(|first| first == "why") {
        return why::run(&why::Args::parse_from(args));
    }
    let texts = args.iter().map(|arg| {
        arg.to_str()
            .map(str::to_owned)
            .ok_or_else(|| anyhow!("argument {} is not UTF-8", arg.display()))
    });
    let told = match parse(texts.collect::<Result<Vec<_>>>()?)? {
        Asked::Run(args) => {
            let format = if args.json_logs { klog::Format::Json } else { klog::Format::Text };
            let _verbosity = klog::init(format, args.verbosity, None);
            return run::run(&args);
        }
        Asked::Help => help::help(),
        Asked::Version => version::text(),
    };
    Ok(io::stdout().write_all(told.as_bytes())?)
}

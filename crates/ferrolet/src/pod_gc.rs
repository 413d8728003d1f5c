//! `ferrolet pod-gc`: the Pod GC controller of a cluster.

mod configz;
#[cfg(test)]
mod deploy_tests;
mod health;
mod help;
mod pages;
mod parts;
mod run;

pub use parts::journal_dir;

use std::ffi::OsString;
use std::io::{self, Write as _};

use anyhow::{Result, anyhow};
use config::pod_gc::{Asked, parse};
use process::{klog, version};

/// Runs the controller with the arguments behind `pod-gc`, or prints help or the version.
pub fn dispatch(args: &[OsString]) -> Result<()> {
    let texts = args.iter().map(|arg| {
        arg.to_str()
            .map(str::to_owned)
            .ok_or_else(|| anyhow!("argument {} is not UTF-8", arg.display()))
    });
    let text = match parse(texts.collect::<Result<Vec<_>>>()?)? {
        Asked::Run(args) => {
            let format = if args.json_logs { klog::Format::Json } else { klog::Format::Text };
            let _verbosity = klog::init(format, args.verbosity, None);
            return run::run(&args);
        }
        Asked::Help => help::help(),
        Asked::Version => version::text(),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

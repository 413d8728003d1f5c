//! The first program of a test's virtual machine, which serves the test's requests.
//!
//! It is one static executable, twice: as pid 1 it converts the initial root to a node's root, loads kernel modules,
//! and then adopts orphans or becomes another pid 1; as `guest serve` it answers the test.
//!
//! - Input: a list of modules, the kernel's parameters, and requests over a virtual serial port.
//! - Output: answers over the same port; errors before the port is open go to the console.
//! - Invariant: the machine powers off when the test ends, and when pid 1 cannot go on.
#![allow(
    clippy::disallowed_methods,
    reason = "a program of its own, run for its effect in a machine of its own; nothing of the node agent is in it"
)]

mod boot;
mod programs;
mod serve;

use std::process::{self, ExitCode};

use rustix::system::{RebootCommand, reboot};

fn main() -> ExitCode {
    let first = process::id() == 1;
    if !first && std::env::args().nth(1).as_deref() != Some("serve") {
        eprintln!("guest: this is pid 1 of a virtual machine, or `guest serve` in one");
        return ExitCode::FAILURE;
    }
    let ended = if first { boot::run() } else { serve::run() };
    if let Err(error) = ended {
        eprintln!("guest: {error:#}");
    }
    power_off()
}

/// Nothing in the machine needs to be saved.
fn power_off() -> ExitCode {
    match reboot(RebootCommand::PowerOff) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest: cannot switch the machine off: {error}");
            ExitCode::FAILURE
        }
    }
}

//! A program that ends with the process that started it, without an instance around it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Why the program was not started.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The kernel refuses the parent-death signal.
    #[error("cannot set the signal for the end of the parent")]
    Ask(#[source] io::Error),
    /// The parent ended before the signal was set.
    #[error("process {0} has ended")]
    Gone(i32),
    /// The program does not start.
    #[error("cannot run {program}")]
    Exec {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Becomes `program`, which is killed when the thread ends that started this process, or all of
/// process `parent`. Returns only when that fails.
pub fn follow(parent: i32, program: &str, args: &[String]) -> FollowError {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return FollowError::Ask(error.into());
    }
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return FollowError::Gone(parent);
    }
    let source = Command::new(program).args(args).exec();
    FollowError::Exec { program: program.to_owned(), source }
}

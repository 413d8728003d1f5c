//! The step between supervisor and pid 1: a process that joins the instance's cgroups and becomes
//! the program that makes the namespaces. The supervisor stays outside.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cgroup;
use crate::error::PathError;

/// Why the program inside the cgroups was not started.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    #[error("cannot join the cgroup")]
    Join(#[source] PathError),
    #[error("cannot run {program}")]
    Exec {
        program: String,
        #[source]
        source: io::Error,
    },
}

/// Joins the cgroups at `dirs` and becomes `program`. Returns only when that fails.
pub fn enter(dirs: &[PathBuf], program: &str, args: &[String]) -> EnterError {
    for dir in dirs {
        if let Err(error) = cgroup::join(Path::new(dir), 0) {
            return EnterError::Join(error);
        }
    }
    let source = Command::new(program).args(args).exec();
    EnterError::Exec { program: program.to_owned(), source }
}

//! Errors of the holder of an instance.

use std::io;
use std::path::{Path, PathBuf};

use crate::{
    CacheError, ContainerdError, ControlPlaneError, NetworkError, ProcessError, SupervisorError,
};

/// Why an instance could not be started, used or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the testbed makes namespaces, cgroups and network links and needs root: run it as root or with sudo"
    )]
    NotRoot,
    #[error("cannot use the cache directory")]
    Cache(#[source] CacheError),
    #[error("the supervisor of the instance failed")]
    Supervisor(#[source] SupervisorError),
    #[error("containerd did not come up")]
    Containerd(#[source] ContainerdError),
    #[error("the control plane did not come up")]
    ControlPlane(#[source] ControlPlaneError),
    #[error("cannot run a program inside the instance")]
    Process(#[source] ProcessError),
    #[error("cannot connect the instance to another")]
    Network(#[source] NetworkError),
    #[error("cannot reach the files of the instance")]
    Files(#[source] io::Error),
    #[error("cannot prepare a log file")]
    Log(#[source] PathError),
    #[error("cannot take signals")]
    Signals(#[source] io::Error),
    #[error("there is no current directory")]
    CurrentDir(#[source] io::Error),
}

/// One failed operation on one file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct PathError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Adds the file to an error of an operation.
pub(crate) trait AtPath<T> {
    fn at(self, action: &'static str, path: impl AsRef<Path>) -> Result<T, PathError>;
}

impl<T, E: Into<io::Error>> AtPath<T> for Result<T, E> {
    fn at(self, action: &'static str, path: impl AsRef<Path>) -> Result<T, PathError> {
        self.map_err(|source| PathError {
            action,
            path: path.as_ref().to_owned(),
            source: source.into(),
        })
    }
}

/// The error and its causes in one line, for where it leaves the process as text.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

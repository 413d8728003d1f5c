//! Calls to the file system, on threads of their own and with a limit.

use std::io;
use std::path::Path;
use std::time::Duration;

use blocking::{Call, Pool, Size};
use model::ports::files::FileError;

use crate::Host;

/// How many operations on files are under way at a time. Without a bound of ours a thousand pods that start together
/// make hundreds of threads, each of which leaves memory behind. The spare ones start in the place of operations
/// that do not return.
const FILES: Size = Size { threads: 16, spare: 48 };

/// How long an operation may take. A disk that is busy answers within seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// How long the removal of a directory may take, with the millions of files that a pod may leave.
pub(crate) const REMOVAL: Duration = Duration::from_mins(10);

/// The threads for files.
pub(crate) fn pool() -> Pool {
    Pool::new("files", FILES)
}

impl Host {
    /// Runs an operation that blocks.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &Path,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileError> {
        call(self.pool(), operation, path, work).await
    }

    /// The same, with another limit.
    pub(crate) async fn call_within<T: Send + 'static>(
        &self,
        limit: Duration,
        operation: &'static str,
        path: &Path,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileError> {
        within(self.pool(), Call { operation, subject: path, limit }, work).await
    }
}

/// Runs an operation that blocks, and names it if it fails.
pub(crate) async fn call<T: Send + 'static>(
    pool: &Pool,
    operation: &'static str,
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, FileError> {
    within(pool, Call { operation, subject: path, limit: LIMIT }, work).await
}

pub(crate) async fn within<T: Send + 'static>(
    pool: &Pool,
    call: Call<'_>,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, FileError> {
    let Call { operation, subject, .. } = call;
    let owned = subject.to_owned();
    let done = pool.run(call, move || work(&owned)).await;
    let result = done.unwrap_or_else(|error| Err(error.into()));
    result.map_err(|source| FileError { operation, path: subject.to_owned(), source })
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;

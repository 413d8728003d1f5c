//! File system calls on their own threads, with a timeout.

use std::io;
use std::path::Path;
use std::time::Duration;

use blocking::{Call, Pool, Size};
use model::ports::files::FileError;

use crate::Host;

/// The limit of concurrent file operations. Without it, a thousand pods that start together create hundreds of
/// threads, each of which keeps memory. The spare threads replace hanging ones.
const FILES: Size = Size { threads: 16, spare: 48 };

/// The timeout of an operation. A busy disk answers within seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// The timeout of a directory removal: a pod may leave millions of files.
pub(crate) const REMOVAL: Duration = Duration::from_mins(10);

/// The threads for file operations.
pub(crate) fn pool() -> Pool {
    Pool::new("files", FILES)
}

impl Host {
    /// Runs a blocking operation.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &Path,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileError> {
        call(self.pool(), operation, path, work).await
    }

    /// Runs a blocking operation with another timeout.
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

/// Runs a blocking operation; its error names the operation and path.
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

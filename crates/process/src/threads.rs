//! The threads of a program: one for all async work, and some for calls that block.

use std::io;
use std::time::Duration;

/// The maximum number of threads for calls that block. This is more than all pools of such calls use together (files
/// 64, cgroups 16, programs 4, the journal 5, names 8 for each resolver, credentials 2), so that an exhausted pool
/// takes no thread of another. Few of them ever start.
const BLOCKING_THREADS: usize = 160;

/// How long the end of the program waits for calls that block: one that hangs must not prevent it.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Runs the async part of a program on this thread until it returns.
pub fn run_async<T>(program: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()?;
    let result = runtime.block_on(program);
    runtime.shutdown_timeout(SHUTDOWN);
    Ok(result)
}

//! Holding a sandbox open.

use std::io;

use rustix::process::{WaitOptions, wait};
use signal_hook::consts::signal::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Sleeps, and collects the children that other processes of the sandbox left to it.
///
/// It needs no time limit and therefore no second thread: there is one of these for every pod.
pub(crate) fn run() -> io::Result<i32> {
    let mut signals = Signals::new([SIGCHLD, SIGINT, SIGTERM])?;
    // A child may have ended before there was a handler to say so.
    reap();
    for signal in signals.forever() {
        match signal {
            SIGCHLD => reap(),
            _ => break,
        }
    }
    Ok(0)
}

/// Reaps every child that has ended. One signal may stand for several of them.
fn reap() {
    // An error means that there are no children at all, which is as good as none that ended.
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

//! The size of the terminal.

use std::io::{self, Read as _, Write as _};
use std::process::exit;
use std::thread;

use rustix::termios::tcgetwinsize;
use signal_hook::consts::signal::{SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

/// Prints the size now and after every change, until standard input ends.
pub(crate) fn run() -> io::Result<i32> {
    // Signals are caught before the first size is read, so that no change is missed.
    let mut signals = Signals::new([SIGWINCH, SIGTERM, SIGINT])?;
    thread::spawn(|| {
        let ended = io::stdin().lock().read_to_end(&mut Vec::new());
        exit(i32::from(ended.is_err()));
    });
    print_size()?;
    for signal in signals.forever() {
        match signal {
            SIGWINCH => print_size()?,
            other => return Ok(128 + other),
        }
    }
    Ok(0)
}

fn print_size() -> io::Result<()> {
    let size = tcgetwinsize(io::stdin())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} rows, {} columns", size.ws_row, size.ws_col)?;
    out.flush()
}

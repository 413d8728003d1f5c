//! The local terminal of a command in a container.

use std::io;
use std::os::fd::AsFd as _;

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// Puts the terminal into raw mode. Dropping it restores the previous mode.
#[derive(Debug)]
pub(crate) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Puts the terminal of standard input into raw mode; `None` if it is not a terminal.
    pub(crate) fn new() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !isatty(stdin.as_fd()) {
            return Ok(None);
        }
        let before = tcgetattr(stdin.as_fd())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw)?;
        Ok(Some(Self { before }))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // An error cannot be reported in a drop.
        tcsetattr(io::stdin().as_fd(), OptionalActions::Flush, &self.before).ok();
    }
}

/// The size of the terminal as a message of the resize channel; `None` if standard output is not a terminal.
pub(crate) fn size_message() -> Option<String> {
    let size = tcgetwinsize(io::stdout().as_fd()).ok()?;
    Some(format!(r#"{{"Width":{},"Height":{}}}"#, size.ws_col, size.ws_row))
}

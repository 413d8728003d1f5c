//! The terminal of a command that runs elsewhere.

use std::io;
use std::os::fd::AsFd as _;

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// A terminal that passes every key on. It becomes as it was when this is dropped.
#[derive(Debug)]
pub(crate) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Makes the terminal of standard input a raw one; `None` if it is no terminal.
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
        // There is no one left to report to.
        tcsetattr(io::stdin().as_fd(), OptionalActions::Flush, &self.before).ok();
    }
}

/// The size of the terminal as the resize channel has it; `None` if standard output is no terminal.
pub(crate) fn size_message() -> Option<String> {
    let size = tcgetwinsize(io::stdout().as_fd()).ok()?;
    Some(format!(r#"{{"Width":{},"Height":{}}}"#, size.ws_col, size.ws_row))
}

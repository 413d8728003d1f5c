//! `make run` in a terminal, with all its screens.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The timeout of each step.
const PATIENCE: Duration = Duration::from_mins(5);
/// The timeout of its end after a failure.
const GOODBYE: Duration = Duration::from_mins(1);
/// Output within this time is one frame.
const TOGETHER: Duration = Duration::from_millis(60);

/// A screen, and how long it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) rows: Vec<String>,
    /// What was typed in another terminal so far.
    pub(super) typed: Vec<String>,
    pub(super) time: Duration,
}

/// A running session.
pub(super) struct Session {
    child: Child,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    typed: Vec<String>,
    frames: Vec<Frame>,
    changed: Instant,
}

impl Session {
    /// Starts the session. The programs must be built before: the build is not shown.
    pub(super) fn start(root: &Path, columns: u16, rows: u16) -> Result<Self> {
        let line = format!("stty cols {columns} rows {rows}; exec make --no-print-directory run");
        // script(1) provides the terminal and passes input on.
        let mut child = Command::new("script")
            .args(["-q", "-e", "-f", "-c", &line, "/dev/null"])
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start script(1)")?;
        let keys = child.stdin.take().context("take its input")?;
        let mut stdout = child.stdout.take().context("take its output")?;
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let size = |cells| NonZeroU16::new(cells).context("a terminal has cells");
        let screen = vt100::Parser::new(size(rows)?, size(columns)?, 0);
        let (typed, frames, changed) = (Vec::new(), Vec::new(), Instant::now());
        Ok(Self { child, keys, output, screen, typed, frames, changed })
    }

    /// Waits until the screen is as wanted.
    pub(super) fn wait_for(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !wanted(&self.text()) {
            if Instant::now() > end || !self.take(TOGETHER) {
                bail!("{what}: not in time; the screen shows:\n{}", self.text());
            }
        }
        Ok(())
    }

    /// Lets some time pass.
    pub(super) fn look(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.take(TOGETHER);
        }
    }

    /// Types something in another terminal.
    pub(super) fn typed(&mut self, line: &str) {
        self.typed.push(line.to_owned());
        self.frame();
    }

    /// Presses ^C.
    pub(super) fn interrupt(&mut self) -> Result<()> {
        self.keys.write_all(b"\x03").and_then(|()| self.keys.flush()).context("press ^C")
    }

    /// Waits for the end.
    pub(super) fn end(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.take(TOGETHER) {
            if Instant::now() > end {
                bail!("it does not end; the screen shows:\n{}", self.text());
            }
        }
        self.child.wait().context("wait for its end")?;
        self.frame();
        Ok(())
    }

    /// Reads output; returns whether there may be more.
    fn take(&mut self, time: Duration) -> bool {
        match self.output.recv_timeout(time) {
            Ok(bytes) => {
                self.screen.process(&bytes);
                // A screen that is being drawn is not recorded.
                while let Ok(bytes) = self.output.recv_timeout(TOGETHER / 3) {
                    self.screen.process(&bytes);
                }
                self.frame();
                true
            }
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Records the current screen, if it is different.
    fn frame(&mut self) {
        let columns = self.screen.screen().size().1;
        let rows: Vec<String> = self.screen.screen().rows(0, columns.get()).collect();
        let time = self.changed.elapsed();
        if let Some(last) = self.frames.last_mut() {
            last.time = time;
            if last.rows == rows && last.typed == self.typed {
                return;
            }
        }
        self.changed = Instant::now();
        self.frames.push(Frame { rows, typed: self.typed.clone(), time: Duration::ZERO });
    }

    /// The frames from the first table on, without build output, and with some texts replaced.
    pub(super) fn frames(&self, replacements: &[(String, String)]) -> Vec<Frame> {
        let replaced = |text: &String| {
            let with = |text: String, (from, to): &(String, String)| text.replace(from, to);
            replacements.iter().fold(text.trim_end().to_owned(), with)
        };
        let is_begun = |frame: &&Frame| frame.rows.iter().any(|row| row.contains("LAST EVENT"));
        let begun = self.frames.iter().position(|frame| is_begun(&frame)).unwrap_or(0);
        let shown = self.frames[begun..].iter().map(|frame| {
            let first = frame.rows.iter().position(|row| row.starts_with("The pods of"));
            let rows = frame.rows[first.unwrap_or(0)..].iter().map(replaced).collect();
            Frame { rows, ..frame.clone() }
        });
        shown.collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Interrupted as by a user, it leaves nothing behind. It is killed only if that does not end it.
        self.interrupt().ok();
        let end = Instant::now() + GOODBYE;
        while Instant::now() < end && self.take(TOGETHER) {}
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

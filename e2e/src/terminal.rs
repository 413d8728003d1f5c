//! A terminal with a program in it, which can be resized.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use testbed::wait;

use crate::node::PATIENCE;
use crate::node_api::Running;

/// A terminal, from the side of its user.
#[derive(Debug)]
pub struct Terminal {
    program: Running,
    master: File,
    /// What the program has printed so far.
    printed: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts a program with a terminal of this size as its controlling one.
    pub fn start(words: &[String], rows: u16, columns: u16) -> Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let slave = File::options().read(true).write(true).open(path).context("open a terminal")?;
        let master = File::from(master);
        let program = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .args(words)
            .stdin(slave.try_clone()?)
            .stdout(slave.try_clone()?)
            .stderr(slave)
            .spawn()
            .context("start a program in a terminal")?;
        let terminal = Self { program: Running(program), master, printed: Arc::default() };
        terminal.resize(rows, columns)?;
        terminal.follow()?;
        Ok(terminal)
    }

    fn follow(&self) -> Result<()> {
        let (mut master, printed) = (self.master.try_clone()?, Arc::clone(&self.printed));
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            // A read error means the end of the output: no program has the terminal open.
            while let Ok(count) = master.read(&mut chunk) {
                let text = String::from_utf8_lossy(&chunk[..count]);
                printed.lock().expect("no thread panics").push_str(&text);
            }
        });
        Ok(())
    }

    /// Changes its size.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).context("resize a terminal")
    }

    /// Types something.
    pub fn write(&mut self, text: &str) -> Result<()> {
        self.master.write_all(text.as_bytes()).context("type")
    }

    /// Waits until the program has printed a text.
    pub fn wait_for(&self, text: &str) -> Result<()> {
        wait::until(&format!("the terminal shows {text:?}"), PATIENCE, || {
            let printed = self.printed.lock().expect("no thread panics").clone();
            Ok(if printed.contains(text) { Ok(()) } else { Err(printed) })
        })
    }

    /// Waits for the end of the program.
    pub fn wait_end(&mut self) -> Result<ExitStatus> {
        wait::until("the program has ended", PATIENCE, || {
            Ok(self.program.0.try_wait()?.ok_or_else(|| "it runs".to_owned()))
        })
    }
}

//! Commands that wait for time to pass or a signal to arrive.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::command::Trap;
use crate::signal::{ENDING, Inbox, Signal};

/// Waits for a time, or for ever, and returns `code`; a terminating signal ends the wait.
pub(crate) fn sleep(time: Option<Duration>, code: i32) -> io::Result<i32> {
    let inbox = Inbox::catching(&BTreeSet::from(ENDING))?;
    let ended_by = inbox.next(time.and_then(after));
    Ok(ended_by.map_or(code, Signal::exit_code))
}

/// Takes memory, reports it and sleeps for ever; a terminating signal ends the wait.
pub(crate) fn hold(mebibytes: usize) -> io::Result<i32> {
    // Pages of zeros would not be taken before they are written.
    let held = vec![1_u8; mebibytes << 20];
    say(&format!("holding {} MiB", std::hint::black_box(&held).len() >> 20))?;
    let code = sleep(None, 0)?;
    drop(std::hint::black_box(held));
    Ok(code)
}

/// Writes a file of this size, reports it and sleeps for ever; a terminating signal ends the wait.
pub(crate) fn fill(file: &Path, mebibytes: usize) -> io::Result<i32> {
    let mut written = File::create(file)?;
    let block = vec![1_u8; 1 << 20];
    for _ in 0..mebibytes {
        written.write_all(&block)?;
    }
    written.sync_all()?;
    say(&format!("filled {mebibytes} MiB"))?;
    sleep(None, 0)
}

/// Waits for one of the trapped signals, prints it, and waits again for the delay.
pub(crate) fn trap(trap: &Trap) -> io::Result<i32> {
    let inbox = Inbox::catching(&ENDING.into_iter().chain(trap.signals.clone()).collect())?;
    say(&format!("trapping {}", listed(&trap.signals)))?;
    let mut deadline = None;
    while let Some(signal) = inbox.next(deadline) {
        if !trap.signals.contains(&signal) {
            return Ok(signal.exit_code());
        }
        say(&format!("received {signal}"))?;
        if deadline.is_none() {
            deadline = Some(after(trap.delay).unwrap_or_else(Instant::now));
        }
    }
    Ok(trap.code.into())
}

/// Sleeps for ever, despite the ignored signals.
pub(crate) fn ignore(ignored: &BTreeSet<Signal>) -> io::Result<i32> {
    let inbox = Inbox::catching(&ENDING.into_iter().chain(ignored.clone()).collect())?;
    say(&format!("ignoring {}", listed(ignored)))?;
    loop {
        match inbox.next(None) {
            Some(signal) if !ignored.contains(&signal) => return Ok(signal.exit_code()),
            _ => {}
        }
    }
}

/// The moment that far ahead; nothing when it is further than the clock reaches, which is for ever.
pub(crate) fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// Prints a line and flushes it, so that readers of the log see it before the process can end.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn listed(signals: &BTreeSet<Signal>) -> String {
    signals.iter().map(Signal::to_string).collect::<Vec<_>>().join(" ")
}

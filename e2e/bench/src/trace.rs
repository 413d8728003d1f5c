//! The system calls of a process that name files below a directory, counted by `strace`.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;

/// The time limit for `strace` to attach to all threads.
const ATTACH: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// Counts the calls within a time whose file name argument is below a directory.
pub(crate) fn file_calls(place: &Place, pid: i32, below: &str, time: Duration) -> Result<u64> {
    let output = place.file("file-calls.txt");
    let child = Command::new("strace")
        // `-y` prints the names of open directories, to which file names may be relative.
        .args(["-f", "-y", "-s", "4096", "-e", "trace=%file", "-e", "signal=none"])
        .args(["-p", &pid.to_string(), "-o"])
        .arg(&output)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start strace, which this part needs")?;
    let mut strace = Strace(child);
    strace.attached(pid)?;
    thread::sleep(time);
    strace.end()?;
    let text = fs::read_to_string(&output).context("read the output of strace")?;
    fs::remove_file(&output).context("remove the output of strace")?;
    Ok(count(&text, below))
}

/// A call that another thread interrupts in the output has a second line, without the file name.
fn count(text: &str, below: &str) -> u64 {
    text.lines().filter(|line| line.contains(below)).count() as u64
}

/// The process, which is killed on drop.
struct Strace(Child);

impl Strace {
    /// Waits until every thread of the process is traced.
    fn attached(&mut self, pid: i32) -> Result<()> {
        let end = Instant::now() + ATTACH;
        loop {
            ensure!(self.0.try_wait()?.is_none(), "strace has ended");
            if all_threads_are_traced(pid)? {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("strace did not attach to {pid} in {ATTACH:?}");
            }
            thread::sleep(PAUSE);
        }
    }

    /// Interrupts it, so that it detaches and writes its output.
    fn end(mut self) -> Result<()> {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::INT).context("interrupt strace")?;
        self.0.wait().context("wait for strace").map(drop)
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn all_threads_are_traced(pid: i32) -> Result<bool> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).context("list threads")?;
    let mut statuses =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let is_traced = |status: String| {
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    };
    Ok(statuses.all(is_traced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_below_a_directory_are_counted_once() {
        let text = "\
            7 openat(AT_FDCWD</>, \"/proc/self/stat\", O_RDONLY) = 5</proc/7/stat>\n\
            8 newfstatat(AT_FDCWD</>, \"/var/log/pods/a/main/0.log\", {st_size=7}, 0) = 0\n\
            8 statx(9</var/log/pods/a/main>, \"0.log\", AT_STATX_SYNC_AS_STAT <unfinished ...>\n\
            7 <... openat resumed>) = 6</proc>\n\
            8 <... statx resumed>, STATX_SIZE, {stx_size=7}) = 0\n";
        assert_eq!(count(text, "/var/log/pods/"), 2);
        assert_eq!(count("", "/var/log/pods/"), 0);
    }
}

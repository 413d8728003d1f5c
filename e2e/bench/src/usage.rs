//! The cost of a process, from the kernel.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::time::TimeValLike as _;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use crate::results::{Asleep, Memory};

/// How long a process may take to appear.
const APPEARS: Duration = Duration::from_secs(10);

/// Finds the host's pid of a process by its pid in an instance of the testbed.
pub fn host_pid(slot: u8, pid: i32) -> Result<i32> {
    let marker = format!("{}={slot}", testbed::MARKER);
    let found = || {
        find(|candidate| {
            let inside = namespace_pids(candidate);
            // Two pids, the host's and the instance's: processes with more are in containers.
            inside.len() == 2 && inside[1] == pid && environment(candidate).any(|var| var == marker)
        })
    };
    // During `execve` a process has no environment for a moment.
    let end = Instant::now() + APPEARS;
    loop {
        match found() {
            Some(pid) => return Ok(pid),
            None if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            None => bail!("process {pid} of instance {slot} was not found"),
        }
    }
}

/// Finds the first process of a container, by the name of its cgroup.
pub fn container_pid(container: &str) -> Result<i32> {
    find(|candidate| {
        let cgroup = fs::read_to_string(format!("/proc/{candidate}/cgroup")).unwrap_or_default();
        let inside = cgroup.lines().any(|line| line.ends_with(container));
        inside && namespace_pids(candidate).last() == Some(&1)
    })
    .with_context(|| format!("container {container} has no process"))
}

fn find(wanted: impl Fn(i32) -> bool) -> Option<i32> {
    let entries = fs::read_dir("/proc").ok()?;
    let mut pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.find(|pid| wanted(*pid))
}

/// The pids of a process, from the host's to that in its own namespace.
fn namespace_pids(pid: i32) -> Vec<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn environment(pid: i32) -> impl Iterator<Item = String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let vars: Vec<String> =
        bytes.split(|byte| *byte == 0).map(|var| String::from_utf8_lossy(var).into()).collect();
    vars.into_iter()
}

/// CPU time of a process so far: all its threads, also those that ended, and the children it has
/// waited for.
pub fn cpu(pid: i32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid));
    let own = clock.and_then(clock_gettime).with_context(|| format!("CPU time of {pid}"))?;
    let own = Duration::from_nanos(u64::try_from(own.num_nanoseconds())?);
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    Ok(own + children(&stat).with_context(|| format!("understand {path}"))?)
}

/// CPU time of ended children, in the sixteenth and seventeenth column.
fn children(stat: &str) -> Option<Duration> {
    // The second column is a name in brackets, which may contain any character.
    let (_, columns) = stat.rsplit_once(") ")?;
    let mut columns = columns.split(' ').skip(13);
    let mut ticks = || columns.next()?.parse::<u64>().ok();
    let all = ticks()? + ticks()?;
    Some(Duration::from_secs(all) / u32::try_from(rustix::param::clock_ticks_per_second()).ok()?)
}

/// Memory of a process now.
pub fn memory(pid: i32) -> Result<Memory> {
    let read = |name: &str| {
        let path = format!("/proc/{pid}/{name}");
        fs::read_to_string(&path).with_context(|| format!("read {path}"))
    };
    let (rollup, status) = (read("smaps_rollup")?, read("status")?);
    let kibibytes = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        number.map(|number| number * 1024).with_context(|| format!("process {pid} has no {name}"))
    };
    let memory = Memory {
        rss_bytes: kibibytes(&rollup, "Rss")?,
        pss_bytes: kibibytes(&rollup, "Pss")?,
        anonymous_bytes: kibibytes(&rollup, "Anonymous")?,
        peak_rss_bytes: kibibytes(&status, "VmHWM")?,
    };
    ensure!(memory.rss_bytes > 0, "process {pid} has no memory: it ended");
    Ok(memory)
}

/// A process that only sleeps: its usage is the floor of an agent's.
#[derive(Debug)]
pub struct Sleeper(Child);

impl Sleeper {
    /// Starts one, before a warm-up so that its start is not measured. It exits after that time.
    pub fn start(time: Duration) -> Result<Self> {
        let child = Command::new("sleep")
            .arg((time.as_secs() + 60).to_string())
            .stdin(Stdio::null())
            .spawn()
            .context("start a process that sleeps")?;
        Ok(Self(child))
    }

    fn pid(&self) -> Result<i32> {
        i32::try_from(self.0.id()).context("a process has a number")
    }

    /// CPU time so far.
    pub fn cpu(&self) -> Result<Duration> {
        cpu(self.pid()?)
    }

    /// Its usage since this CPU time.
    pub fn since(&self, before: Duration) -> Result<Asleep> {
        let cpu_seconds = self.cpu()?.saturating_sub(before).as_secs_f64();
        Ok(Asleep { cpu_seconds, rss_bytes: memory(self.pid()?)?.rss_bytes })
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_ended_children_is_read_for_any_program_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 2 0 0 11 22 150 50 20 0 1 0 5 6 7";
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(children(stat), Some(Duration::from_secs(200) / u32::try_from(ticks).unwrap()));
        assert_eq!(children("7 (a"), None);
    }

    #[test]
    fn usage_of_this_process_has_cpu_and_memory() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        assert!(cpu(pid).unwrap() > Duration::ZERO);
        let memory = memory(pid).unwrap();
        assert!(memory.pss_bytes <= memory.rss_bytes);
        assert!(memory.rss_bytes <= memory.peak_rss_bytes + (4 << 20), "{memory:?}");
        assert_eq!(namespace_pids(pid).first(), Some(&pid));
    }

    #[test]
    fn sleeping_process_uses_little_cpu() {
        let sleeper = Sleeper::start(Duration::ZERO).unwrap();
        let asleep = sleeper.since(Duration::ZERO).unwrap();
        assert!(asleep.cpu_seconds < 1.0 && asleep.rss_bytes > 0, "{asleep:?}");
    }
}

//! Facts of the machine that the results depend on.

use std::fs;
use std::thread::{available_parallelism, sleep};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;

use crate::judge::QUIET_LOAD;
use crate::results::{Machine, RoundStart};

/// How long a round waits for a quiet machine. A round on a busy one is marked by its load.
pub const PATIENCE: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_secs(5);

/// This machine, now.
pub fn machine() -> Result<Machine> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("read {path}"));
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    Ok(Machine {
        cores: available_parallelism().context("count the cores")?.get(),
        processor: value(&read("/proc/cpuinfo")?, "model name").unwrap_or("unknown").to_owned(),
        kernel,
        memory_bytes: memory(&read("/proc/meminfo")?).context("understand /proc/meminfo")?,
        load_before: load()?,
    })
}

/// The load average of one minute.
fn load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("read /proc/loadavg")?;
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.context("understand /proc/loadavg")
}

/// Waits until the machine is quiet, at most for that long; returns the time and the machine at the start of a round.
pub fn round_start(patience: Duration) -> Result<RoundStart> {
    let load_before = await_quiet(patience, load, sleep)?;
    Ok(RoundStart { date: date(), machine: Machine { load_before, ..machine()? } })
}

/// Waits until the load is low; returns the last one.
fn await_quiet(
    patience: Duration,
    mut load: impl FnMut() -> Result<f64>,
    mut rest: impl FnMut(Duration),
) -> Result<f64> {
    let mut waited = Duration::ZERO;
    loop {
        let now = load()?;
        if now < QUIET_LOAD || waited >= patience {
            return Ok(now);
        }
        if waited.is_zero() {
            eprintln!("waiting for a load below {QUIET_LOAD}, it is {now:.2}");
        }
        rest(PAUSE);
        waited += PAUSE;
    }
}

/// The time now, in UTC, to the minute.
pub fn date() -> String {
    Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

fn memory(meminfo: &str) -> Option<u64> {
    let number = value(meminfo, "MemTotal")?.strip_suffix(" kB")?;
    Some(number.parse::<u64>().ok()? * 1024)
}

/// The value of the first line with a name.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_waits_a_limited_time_for_a_quiet_machine() {
        let waits = |loads: &[f64], patience| {
            let (mut rests, mut loads) = (0, loads.iter().copied().cycle());
            let load = await_quiet(patience, || Ok(loads.next().unwrap()), |_| rests += 1).unwrap();
            (load.to_string(), rests)
        };
        assert_eq!(waits(&[0.99], PATIENCE), ("0.99".to_owned(), 0));
        assert_eq!(waits(&[3.0, 1.0, 0.5], PATIENCE), ("0.5".to_owned(), 2));
        assert_eq!(waits(&[3.5], PATIENCE), ("3.5".to_owned(), 60));
        assert_eq!(waits(&[3.5], Duration::ZERO), ("3.5".to_owned(), 0));
    }

    #[test]
    fn values_are_found_by_their_names() {
        assert_eq!(memory("MemFree:  1 kB\nMemTotal:       2048 kB\n"), Some(2048 * 1024));
        assert_eq!(value("a\nmodel name\t: X  Y\nmodel name\t: Z", "model name"), Some("X  Y"));
        let machine = machine().unwrap();
        assert!(machine.cores > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}

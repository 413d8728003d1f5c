//! Facts of the machine that the numbers depend on.

use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use jiff::Timestamp;

use crate::results::{Machine, RoundStart};

/// This machine, now.
pub fn machine() -> Result<Machine> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| format!("read {path}"));
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let load = read("/proc/loadavg")?;
    Ok(Machine {
        cores: available_parallelism().context("count the cores")?.get(),
        processor: value(&read("/proc/cpuinfo")?, "model name").unwrap_or("unknown").to_owned(),
        kernel,
        memory_bytes: memory(&read("/proc/meminfo")?).context("understand /proc/meminfo")?,
        load_before: load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default(),
    })
}

/// The time and this machine, at the start of a round.
pub fn round_start() -> Result<RoundStart> {
    Ok(RoundStart { date: date(), machine: machine()? })
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
    fn values_are_found_by_their_names() {
        assert_eq!(memory("MemFree:  1 kB\nMemTotal:       2048 kB\n"), Some(2048 * 1024));
        assert_eq!(value("a\nmodel name\t: X  Y\nmodel name\t: Z", "model name"), Some("X  Y"));
        let machine = machine().unwrap();
        assert!(machine.cores > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}

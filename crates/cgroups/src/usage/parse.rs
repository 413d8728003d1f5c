//! The formats of control files. Pure functions; lines in another format are skipped.

use std::collections::BTreeMap;

use model::cgroup::usage::DeviceIo;
use model::stats::{PsiShare, PsiStats};

/// Limits from here on mean no limit: cgroup v1 reports the largest number of pages.
const UNLIMITED: u64 = 1 << 62;

/// Ticks of the kernel per second, in which v1 counts user and system time.
const TICKS: u64 = 100;

/// Lines of a name and a number.
pub(super) fn table(text: &str) -> BTreeMap<&str, u64> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(name, value)| Some((name, value.trim().parse().ok()?))).collect()
}

/// A limit; `None` if it is a word, or too large to be one.
pub(super) fn limit(value: Option<u64>) -> Option<u64> {
    value.filter(|limit| *limit <= UNLIMITED)
}

/// Nanoseconds of a time in ticks.
pub(super) fn ticks(value: u64) -> u64 {
    value.saturating_mul(1_000_000_000 / TICKS)
}

/// A pressure file. Older kernels have no line `full` for CPU.
pub(super) fn pressure(text: &str) -> Option<PsiStats> {
    let share = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        let value = |key: &str| {
            line.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
        };
        let average = |key| value(key).and_then(|value| value.parse().ok()).unwrap_or_default();
        Some(PsiShare {
            total: value("total")?.parse().ok()?,
            avg10: average("avg10"),
            avg60: average("avg60"),
            avg300: average("avg300"),
        })
    };
    Some(PsiStats { full: share("full").unwrap_or_default(), some: share("some")? })
}

/// The quota and the period of `cpu.max`, in microseconds; no quota without a limit.
pub(super) fn cpu_max(text: &str) -> (Option<u64>, Option<u64>) {
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    (fields.next().flatten(), fields.next().flatten())
}

fn device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `io.stat` of v2.
pub(super) fn io_stat(text: &str) -> Vec<DeviceIo> {
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let mut io = DeviceIo { device: device(fields.next()?)?, ..DeviceIo::default() };
        for (key, value) in fields.filter_map(|field| field.split_once('=')) {
            let Ok(value) = value.parse() else { continue };
            match key {
                "rbytes" => io.read_bytes = value,
                "wbytes" => io.written_bytes = value,
                "rios" => io.reads = value,
                "wios" => io.writes = value,
                _ => {}
            }
        }
        Some(io)
    };
    text.lines().filter_map(line).collect()
}

/// The two files of v1: bytes, and operations.
pub(super) fn blkio(bytes: &str, operations: &str) -> Vec<DeviceIo> {
    let mut devices: BTreeMap<(u32, u32), DeviceIo> = BTreeMap::new();
    let mut add = |text: &str, set: fn(&mut DeviceIo, &str, u64)| {
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [number, operation, value] = fields[..] else { continue };
            let (Some(device), Ok(value)) = (device(number), value.parse()) else { continue };
            let io = devices.entry(device).or_insert(DeviceIo { device, ..DeviceIo::default() });
            set(io, operation, value);
        }
    };
    add(bytes, |io, operation, value| match operation {
        "Read" => io.read_bytes = value,
        "Write" => io.written_bytes = value,
        _ => {}
    });
    add(operations, |io, operation, value| match operation {
        "Read" => io.reads = value,
        "Write" => io.writes = value,
        _ => {}
    });
    devices.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_with_and_without_full() {
        let some = "some avg10=1.50 avg60=0.25 avg300=0.00 total=4711\n";
        let share = PsiShare { total: 4711, avg10: 1.5, avg60: 0.25, avg300: 0.0 };
        let without = PsiStats { full: PsiShare::default(), some: share };
        assert_eq!(pressure(some), Some(without));
        let full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        let with = PsiStats { full: PsiShare { total: 9, ..PsiShare::default() }, some: share };
        assert_eq!(pressure(&format!("{some}{full}")), Some(with));
        assert_eq!(pressure(""), None, "the kernel can switch it off");
    }

    #[test]
    fn io_of_devices_is_read_from_either_version() {
        let both = [
            DeviceIo { device: (8, 0), read_bytes: 4096, written_bytes: 512, reads: 3, writes: 1 },
            DeviceIo { device: (253, 1), written_bytes: 7, ..DeviceIo::default() },
        ];
        let v2 =
            "8:0 rbytes=4096 wbytes=512 rios=3 wios=1 dbytes=0 dios=0\n253:1 wbytes=7\nnew 1\n";
        assert_eq!(io_stat(v2), both);
        let bytes =
            "8:0 Read 4096\n8:0 Write 512\n8:0 Sync 0\n8:0 Total 4608\n253:1 Write 7\nTotal 4615\n";
        let operations = "8:0 Read 3\n8:0 Write 1\nTotal 4\n";
        assert_eq!(blkio(bytes, operations), both);
    }

    #[test]
    fn words_and_huge_numbers_are_no_limits() {
        assert_eq!(cpu_max("max 100000\n"), (None, Some(100_000)));
        assert_eq!(cpu_max("50000 100000\n"), (Some(50_000), Some(100_000)));
        assert_eq!(limit(Some(9_223_372_036_854_771_712)), None);
        assert_eq!(limit(Some(64 << 20)), Some(64 << 20));
        assert_eq!(table("anon 1\nfile x\nkernel 3\n"), [("anon", 1), ("kernel", 3)].into());
    }
}

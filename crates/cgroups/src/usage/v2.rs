//! The control files of cgroup v2.

use std::collections::BTreeMap;

use model::cgroup::cpu::shares_of_weight;
use model::cgroup::usage::{
    CgroupSample, CpuLimits, CpuSample, IoSample, MemorySample, SwapSample, Throttling,
};
use model::ports::cgroup_usage::Detail;
use model::stats::PsiStats;

use super::files::Files;
use super::parse::{cpu_max, io_stat, limit, pressure, table};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";

pub(super) fn fill(sample: &mut CgroupSample, files: &mut Files<'_>, detail: Detail) {
    sample.cpu = cpu(files, detail);
    sample.memory = memory(files, detail);
    sample.processes = files.processes(detail);
    let psi = psi(files, "io.pressure");
    let devices = match detail {
        Detail::All => files.text("io", "io.stat").map(|text| io_stat(&text)),
        Detail::CpuAndMemory => None,
    };
    if psi.is_some() || devices.is_some() {
        sample.io = Some(IoSample { devices: devices.unwrap_or_default(), psi });
    }
}

fn psi(files: &mut Files<'_>, file: &str) -> Option<PsiStats> {
    pressure(&files.text(CPU, file)?)
}

fn cpu(files: &mut Files<'_>, detail: Detail) -> Option<CpuSample> {
    let text = files.text(CPU, "cpu.stat")?;
    let stat = table(&text);
    let nanoseconds = |name| stat.get(name).map(|microseconds: &u64| microseconds * 1000);
    let mut cpu = CpuSample {
        usage: nanoseconds("usage_usec")?,
        user: nanoseconds("user_usec").unwrap_or_default(),
        system: nanoseconds("system_usec").unwrap_or_default(),
        throttling: stat.get("nr_periods").map(|count| Throttling {
            periods: *count,
            throttled_periods: stat.get("nr_throttled").copied().unwrap_or_default(),
            throttled: nanoseconds("throttled_usec").unwrap_or_default(),
        }),
        psi: psi(files, "cpu.pressure"),
        ..CpuSample::default()
    };
    if detail == Detail::All {
        let most = files.text(CPU, "cpu.max").unwrap_or_default();
        let (quota, period) = cpu_max(&most);
        let shares = files.number(CPU, "cpu.weight").map(shares_of_weight);
        cpu.limits = CpuLimits { shares, quota, period };
    }
    Some(cpu)
}

fn memory(files: &mut Files<'_>, detail: Detail) -> Option<MemorySample> {
    let usage = files.number(MEMORY, "memory.current")?;
    let text = files.text(MEMORY, "memory.stat")?;
    // Like upstream, 0 if the kernel does not account swap.
    let swap = SwapSample {
        usage: files.number(MEMORY, "memory.swap.current").unwrap_or_default(),
        limit: limit(files.number(MEMORY, "memory.swap.max")),
    };
    let mut memory = MemorySample {
        limit: limit(files.number(MEMORY, "memory.max")),
        swap: Some(swap),
        psi: psi(files, "memory.pressure"),
        ..of_stat(usage, &table(&text))
    };
    if detail == Detail::All {
        memory.max_usage = files.number(MEMORY, "memory.peak");
        memory.soft_limit = limit(files.number(MEMORY, "memory.min"));
        let events = files.text(MEMORY, "memory.events").unwrap_or_default();
        let events = table(&events);
        memory.fail_count = events.get("max").copied();
        let own = files.text(MEMORY, "memory.events.local").unwrap_or_default();
        memory.oom_kills = table(&own).get("oom_kill").or_else(|| events.get("oom_kill")).copied();
    }
    Some(memory)
}

fn of_stat(usage: u64, stat: &BTreeMap<&str, u64>) -> MemorySample {
    let of = |name| stat.get(name).copied().unwrap_or_default();
    MemorySample {
        usage,
        rss: of("anon"),
        cache: of("file"),
        mapped_file: of("file_mapped"),
        inactive_file: of("inactive_file"),
        active_file: of("active_file"),
        kernel: of("kernel"),
        page_faults: stat.get("pgfault").copied(),
        major_page_faults: stat.get("pgmajfault").copied(),
        ..MemorySample::default()
    }
}

/// The memory of the root cgroup, which has no file with its usage: anonymous memory and file pages, as cgroup v1
/// counts them.
pub(super) fn root_memory(files: &mut Files<'_>, meminfo: &str) -> Option<MemorySample> {
    let text = files.text(MEMORY, "memory.stat")?;
    let stat = table(&text);
    let usage = stat.get("anon")? + stat.get("file")?;
    let kilobytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let swap = kilobytes("SwapTotal").zip(kilobytes("SwapFree"));
    let swap = swap
        .map(|(total, free)| SwapSample { usage: total.saturating_sub(free) << 10, limit: None });
    Some(MemorySample { swap, psi: psi(files, "memory.pressure"), ..of_stat(usage, &stat) })
}

//! The control files of cgroup v1.

use model::cgroup::usage::{
    CgroupSample, CpuLimits, CpuSample, IoSample, MemorySample, SwapSample, Throttling,
};
use model::ports::cgroup_usage::Detail;

use super::files::Files;
use super::parse::{blkio, limit, table, ticks};

pub(super) fn fill(sample: &mut CgroupSample, files: &mut Files<'_>, detail: Detail) {
    sample.cpu = cpu(files, detail);
    sample.memory = memory(files, detail);
    sample.processes = files.processes(detail);
    if detail == Detail::All {
        sample.io = io(files);
    }
}

fn cpu(files: &mut Files<'_>, detail: Detail) -> Option<CpuSample> {
    let mut cpu =
        CpuSample { usage: files.number("cpuacct", "cpuacct.usage")?, ..CpuSample::default() };
    if detail != Detail::All {
        return Some(cpu);
    }
    let parts = files.text("cpuacct", "cpuacct.stat").unwrap_or_default();
    let parts = table(&parts);
    let part = |name| ticks(parts.get(name).copied().unwrap_or_default());
    (cpu.user, cpu.system) = (part("user"), part("system"));
    let periods = files.text("cpu", "cpu.stat").unwrap_or_default();
    let periods = table(&periods);
    cpu.throttling = periods.get("nr_periods").map(|count| Throttling {
        periods: *count,
        throttled_periods: periods.get("nr_throttled").copied().unwrap_or_default(),
        throttled: periods.get("throttled_time").copied().unwrap_or_default(),
    });
    cpu.limits = CpuLimits {
        shares: files.number("cpu", "cpu.shares"),
        // No limit is -1.
        quota: files.number("cpu", "cpu.cfs_quota_us"),
        period: files.number("cpu", "cpu.cfs_period_us"),
    };
    Some(cpu)
}

fn memory(files: &mut Files<'_>, detail: Detail) -> Option<MemorySample> {
    const MEMORY: &str = "memory";
    let usage = files.number(MEMORY, "memory.usage_in_bytes")?;
    let text = files.text(MEMORY, "memory.stat")?;
    let stat = table(&text);
    let of = |name| stat.get(name).copied().unwrap_or_default();
    let most = limit(files.number(MEMORY, "memory.limit_in_bytes"));
    // The limit of both includes memory.
    let both = limit(files.number(MEMORY, "memory.memsw.limit_in_bytes"));
    // Like upstream, 0 if the kernel does not account swap.
    let swap = SwapSample {
        usage: of("total_swap"),
        limit: both.zip(most).map(|(both, memory)| both.saturating_sub(memory)),
    };
    let mut memory = MemorySample {
        usage,
        limit: most,
        rss: of("total_rss"),
        cache: of("total_cache"),
        mapped_file: of("total_mapped_file"),
        inactive_file: of("total_inactive_file"),
        active_file: of("total_active_file"),
        page_faults: stat.get("pgfault").copied(),
        major_page_faults: stat.get("pgmajfault").copied(),
        swap: Some(swap),
        ..MemorySample::default()
    };
    if detail == Detail::All {
        memory.max_usage = files.number(MEMORY, "memory.max_usage_in_bytes");
        memory.soft_limit = limit(files.number(MEMORY, "memory.soft_limit_in_bytes"));
        memory.kernel = files.number(MEMORY, "memory.kmem.usage_in_bytes").unwrap_or_default();
        memory.fail_count = files.number(MEMORY, "memory.failcnt");
        let control = files.text(MEMORY, "memory.oom_control").unwrap_or_default();
        memory.oom_kills = table(&control).get("oom_kill").copied();
    }
    Some(memory)
}

fn io(files: &mut Files<'_>) -> Option<IoSample> {
    let mut either = |name: &str| {
        let whole = files.text("blkio", &format!("blkio.throttle.{name}_recursive"));
        whole.or_else(|| files.text("blkio", &format!("blkio.throttle.{name}")))
    };
    let (bytes, operations) = (either("io_service_bytes")?, either("io_serviced")?);
    Some(IoSample { devices: blkio(&bytes, &operations), psi: None })
}

//! Measurements of cgroups in the format of the Summary API.

use jiff::Timestamp;
use model::cgroup::usage::CgroupSample;
use model::ports::node_usage::InterfaceCounters;
use model::stats::{
    CpuStats, InterfaceStats, IoStats, MemoryStats, NetworkStats, ProcessStats, SwapStats,
};

/// The interface that the Summary API shows as a pod's.
const DEFAULT_INTERFACE: &str = "eth0";

/// Interfaces that upstream does not report: those of the host to pods, and the loopback.
const IGNORED: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// CPU, with the rate since an earlier measurement.
pub fn cpu(sample: &CgroupSample, rate: Option<u64>) -> Option<CpuStats> {
    let cpu = sample.cpu.as_ref()?;
    Some(CpuStats {
        time: sample.time,
        usage_nano_cores: rate,
        usage_core_nano_seconds: Some(cpu.usage),
        psi: cpu.psi,
    })
}

/// Memory. `machine` is the limit of the root cgroup, which has none itself.
pub fn memory(sample: &CgroupSample, machine: Option<u64>) -> Option<MemoryStats> {
    let memory = sample.memory.as_ref()?;
    let working_set = memory.working_set();
    let limit = machine.or(memory.limit);
    Some(MemoryStats {
        time: sample.time,
        available_bytes: limit.map(|limit| limit.saturating_sub(working_set)),
        usage_bytes: Some(memory.usage),
        working_set_bytes: Some(working_set),
        rss_bytes: Some(memory.rss),
        page_faults: memory.page_faults,
        major_page_faults: memory.major_page_faults,
        psi: memory.psi,
    })
}

/// Swap.
pub fn swap(sample: &CgroupSample) -> Option<SwapStats> {
    let swap = sample.memory.as_ref()?.swap?;
    Some(SwapStats {
        time: sample.time,
        swap_available_bytes: swap.limit.map(|limit| limit.saturating_sub(swap.usage)),
        swap_usage_bytes: Some(swap.usage),
    })
}

/// Pressure of disk I/O, where the kernel measures it.
pub fn io(sample: &CgroupSample) -> Option<IoStats> {
    let psi = sample.io.as_ref()?.psi?;
    Some(IoStats { time: sample.time, psi: Some(psi) })
}

/// The sum of the processes of containers; `None` if none was counted.
pub fn processes<'a>(containers: impl Iterator<Item = &'a CgroupSample>) -> Option<ProcessStats> {
    let counts: Vec<u64> =
        containers.filter_map(|sample| sample.processes.map(|found| found.count)).collect();
    (!counts.is_empty()).then(|| ProcessStats { count: Some(counts.iter().sum()) })
}

/// The interfaces that are reported.
pub fn reported_interfaces(
    all: &[InterfaceCounters],
) -> impl Iterator<Item = &InterfaceCounters> + Clone {
    all.iter().filter(|one| !IGNORED.iter().any(|prefix| one.name.starts_with(prefix)))
}

/// Traffic of a network namespace.
pub fn network(time: Timestamp, interfaces: &[InterfaceCounters]) -> NetworkStats {
    let stats = |one: &InterfaceCounters| InterfaceStats {
        name: one.name.clone(),
        rx_bytes: Some(one.received.bytes),
        rx_errors: Some(one.received.errors),
        tx_bytes: Some(one.sent.bytes),
        tx_errors: Some(one.sent.errors),
    };
    let interfaces: Vec<_> = reported_interfaces(interfaces).map(stats).collect();
    let default = interfaces.iter().find(|one| one.name == DEFAULT_INTERFACE).cloned();
    NetworkStats { time, default: default.unwrap_or_default(), interfaces }
}

#[cfg(test)]
mod tests {
    use model::cgroup::usage::{MemorySample, SwapSample};
    use model::ports::node_usage::TrafficCounters;

    use super::*;

    fn sample(memory: MemorySample) -> CgroupSample {
        CgroupSample { memory: Some(memory), ..CgroupSample::default() }
    }

    // behaviour: STA-1
    #[test]
    fn available_memory_is_the_limit_less_the_working_set() {
        // usage, inactive file pages, limit, machine; working set, available
        let rows = [
            (100, 30, Some(200), None, 70, Some(130)),
            (100, 30, None, None, 70, None),
            (100, 130, Some(200), None, 0, Some(200)),
            (300, 0, Some(200), None, 300, Some(0)),
            (100, 30, None, Some(1000), 70, Some(930)),
        ];
        for (usage, inactive_file, limit, machine, working_set, available) in rows {
            let measured = MemorySample { usage, inactive_file, limit, ..MemorySample::default() };
            let found = memory(&sample(measured), machine).unwrap();
            assert_eq!(found.working_set_bytes, Some(working_set));
            assert_eq!(found.available_bytes, available);
        }
    }

    #[test]
    fn swap_is_available_up_to_its_limit() {
        let of = |limit| {
            let swap_sample = Some(SwapSample { usage: 3, limit });
            swap(&sample(MemorySample { swap: swap_sample, ..MemorySample::default() })).unwrap()
        };
        assert_eq!((of(None).swap_usage_bytes, of(None).swap_available_bytes), (Some(3), None));
        assert_eq!(of(Some(10)).swap_available_bytes, Some(7));
    }

    #[test]
    fn default_interface_is_eth0() {
        let interface = |name: &str, bytes| InterfaceCounters {
            name: name.to_owned(),
            received: TrafficCounters { bytes, ..TrafficCounters::default() },
            ..InterfaceCounters::default()
        };
        let all =
            [interface("lo", 1), interface("net1", 2), interface("eth0", 3), interface("veth7", 4)];
        let found = network(Timestamp::UNIX_EPOCH, &all);
        assert_eq!((found.default.name.as_str(), found.default.rx_bytes), ("eth0", Some(3)));
        let names: Vec<_> = found.interfaces.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["net1", "eth0"]);
        assert_eq!(network(Timestamp::UNIX_EPOCH, &all[..2]).default, InterfaceStats::default());
    }
}

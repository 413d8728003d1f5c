//! The series of one cgroup in `/metrics/cadvisor`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::cgroup::usage::{CgroupSample, CpuSample, MemorySample, ProcessSample};
use model::ports::node_usage::InterfaceCounters;
use model::stats::PsiStats;

use super::cadvisor::Owner;
use super::text::{Kind, Metric, Page, seconds};
use super::usage::reported_interfaces;

pub(super) const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, help }
}

pub(super) const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, help }
}

/// Adds series of one cgroup with its labels and time.
struct Series<'a, 'b> {
    page: &'a mut Page,
    owner: &'a Owner<'b>,
    time: Timestamp,
}

impl<'b> Series<'_, 'b> {
    fn add(&mut self, metric: Metric, value: u64) {
        self.page.add(metric, &self.owner.labels(&[]), value, Some(self.time));
    }

    fn maybe(&mut self, metric: Metric, value: Option<u64>) {
        if let Some(value) = value {
            self.add(metric, value);
        }
    }

    fn seconds(&mut self, metric: Metric, nanoseconds: u64) {
        let labels = self.owner.labels(&[]);
        self.page.add_number(metric, &labels, seconds(nanoseconds), Some(self.time));
    }

    fn labelled(&mut self, metric: Metric, more: &[(&'b str, &'b str)], value: u64) {
        self.page.add(metric, &self.owner.labels(more), value, Some(self.time));
    }

    /// A property, which has no time.
    fn property(&mut self, metric: Metric, value: u64) {
        self.page.add(metric, &self.owner.labels(&[]), value, None);
    }
}

/// Adds CPU, memory, processes and limits of a cgroup. `machine` is the memory limit of the root.
pub(super) fn add_cgroup(
    page: &mut Page,
    owner: &Owner<'_>,
    sample: &CgroupSample,
    machine: Option<u64>,
) {
    let mut series = Series { page, owner, time: sample.time };
    if let Some(created) = sample.created {
        let metric = gauge("container_start_time_seconds", "Creation of the cgroup in Unix time.");
        series.property(metric, u64::try_from(created.as_second()).unwrap_or_default());
    }
    if let Some(cpu) = &sample.cpu {
        add_cpu(&mut series, cpu);
    }
    if let Some(memory) = &sample.memory {
        add_memory(&mut series, memory, machine);
    }
    if let Some(processes) = sample.processes {
        add_processes(&mut series, processes);
    }
    let io_psi = sample.io.as_ref().and_then(|io| io.psi);
    add_pressure(&mut series, io_psi, IO_PRESSURE);
}

fn add_cpu(series: &mut Series<'_, '_>, cpu: &CpuSample) {
    let name = "container_cpu_usage_seconds_total";
    let labels = series.owner.labels(&[("cpu", "total")]);
    let usage = counter(name, "CPU time used.");
    series.page.add_number(usage, &labels, seconds(cpu.usage), Some(series.time));
    let user = counter("container_cpu_user_seconds_total", "CPU time used in user mode.");
    series.seconds(user, cpu.user);
    let system = counter("container_cpu_system_seconds_total", "CPU time used in kernel mode.");
    series.seconds(system, cpu.system);
    if let Some(throttling) = cpu.throttling.filter(|_| cpu.limits.quota.is_some()) {
        let help = "Periods of the CPU quota in which processes ran.";
        series.add(counter("container_cpu_cfs_periods_total", help), throttling.periods);
        let help = "Periods in which the CPU quota was used up.";
        let periods = counter("container_cpu_cfs_throttled_periods_total", help);
        series.add(periods, throttling.throttled_periods);
        let help = "Time for which the CPU quota stopped processes.";
        let throttled = counter("container_cpu_cfs_throttled_seconds_total", help);
        series.seconds(throttled, throttling.throttled);
    }
    let limits = [
        (gauge("container_spec_cpu_shares", "CPU shares."), cpu.limits.shares),
        (gauge("container_spec_cpu_quota", "CPU quota in microseconds."), cpu.limits.quota),
        (gauge("container_spec_cpu_period", "CPU period in microseconds."), cpu.limits.period),
    ];
    for (metric, value) in limits {
        if let Some(value) = value {
            series.property(metric, value);
        }
    }
    add_pressure(series, cpu.psi, CPU_PRESSURE);
}

fn add_memory(series: &mut Series<'_, '_>, memory: &MemorySample, machine: Option<u64>) {
    let swap = memory.swap.unwrap_or_default();
    let gauges = [
        (gauge("container_memory_usage_bytes", "Memory with caches."), memory.usage),
        (
            gauge("container_memory_working_set_bytes", "Memory without inactive file pages."),
            memory.working_set(),
        ),
        (gauge("container_memory_rss", "Anonymous memory in bytes."), memory.rss),
        (gauge("container_memory_cache", "File pages in bytes."), memory.cache),
        (gauge("container_memory_mapped_file", "Mapped file pages in bytes."), memory.mapped_file),
        (
            gauge("container_memory_total_active_file_bytes", "Active file pages."),
            memory.active_file,
        ),
        (
            gauge("container_memory_total_inactive_file_bytes", "Inactive file pages."),
            memory.inactive_file,
        ),
        (gauge("container_memory_kernel_usage", "Memory of the kernel in bytes."), memory.kernel),
        (gauge("container_memory_swap", "Swap in bytes."), swap.usage),
    ];
    for (metric, value) in gauges {
        series.add(metric, value);
    }
    let most = gauge("container_memory_max_usage_bytes", "The largest memory usage so far.");
    series.maybe(most, memory.max_usage);
    let failures = counter("container_memory_failcnt", "How often the memory limit was reached.");
    series.maybe(failures, memory.fail_count);
    let kills = counter("container_oom_events_total", "Processes killed at the memory limit.");
    series.maybe(kills, memory.oom_kills);
    let faults = counter("container_memory_failures_total", "Page faults.");
    for (kind, value) in [("pgfault", memory.page_faults), ("pgmajfault", memory.major_page_faults)]
    {
        // The kernel has one number, which upstream shows in both scopes.
        for scope in ["container", "hierarchy"] {
            if let Some(value) = value {
                series.labelled(faults, &[("failure_type", kind), ("scope", scope)], value);
            }
        }
    }
    let limit = machine.or(memory.limit);
    let limits = [
        (gauge("container_spec_memory_limit_bytes", "Memory limit; 0 for none."), limit),
        (gauge("container_spec_memory_swap_limit_bytes", "Swap limit; 0 for none."), swap.limit),
        (
            gauge("container_spec_memory_reservation_limit_bytes", "Protected memory; 0 for none."),
            memory.soft_limit,
        ),
    ];
    for (metric, value) in limits {
        series.property(metric, value.unwrap_or_default());
    }
    add_pressure(series, memory.psi, MEMORY_PRESSURE);
}

fn add_processes(series: &mut Series<'_, '_>, processes: ProcessSample) {
    series.add(gauge("container_processes", "Processes."), processes.count);
    series.maybe(gauge("container_threads", "Threads."), processes.threads);
    let most = gauge("container_threads_max", "The largest number of threads; 0 for no limit.");
    if processes.threads.is_some() {
        series.add(most, processes.max_threads.unwrap_or_default());
    }
}

/// The two series of a pressure file.
#[derive(Clone, Copy)]
struct Pressure {
    stalled: Metric,
    waiting: Metric,
}

const STALLED: &str = "Time in which no task could run.";
const WAITING: &str = "Time in which a task waited.";
const CPU_PRESSURE: Pressure = Pressure {
    stalled: counter("container_pressure_cpu_stalled_seconds_total", STALLED),
    waiting: counter("container_pressure_cpu_waiting_seconds_total", WAITING),
};
const MEMORY_PRESSURE: Pressure = Pressure {
    stalled: counter("container_pressure_memory_stalled_seconds_total", STALLED),
    waiting: counter("container_pressure_memory_waiting_seconds_total", WAITING),
};
const IO_PRESSURE: Pressure = Pressure {
    stalled: counter("container_pressure_io_stalled_seconds_total", STALLED),
    waiting: counter("container_pressure_io_waiting_seconds_total", WAITING),
};

fn add_pressure(series: &mut Series<'_, '_>, psi: Option<PsiStats>, metrics: Pressure) {
    let Some(psi) = psi else { return };
    // The kernel counts microseconds.
    series.seconds(metrics.stalled, psi.full.total.saturating_mul(1000));
    series.seconds(metrics.waiting, psi.some.total.saturating_mul(1000));
}

/// Adds disk I/O, by device. A device without a name has an empty label, like upstream.
pub(super) fn add_io(
    page: &mut Page,
    owner: &Owner<'_>,
    sample: &CgroupSample,
    devices: &BTreeMap<(u32, u32), String>,
) {
    let Some(io) = &sample.io else { return };
    let usage = counter("container_blkio_device_usage_total", "Bytes read and written.");
    for one in &io.devices {
        let device = devices.get(&one.device).map(String::as_str).unwrap_or_default();
        let (major, minor) = (one.device.0.to_string(), one.device.1.to_string());
        for (operation, value) in [("Read", one.read_bytes), ("Write", one.written_bytes)] {
            let more = [
                ("device", device),
                ("major", major.as_str()),
                ("minor", minor.as_str()),
                ("operation", operation),
            ];
            page.add(usage, &owner.labels(&more), value, Some(sample.time));
        }
        let labels = owner.labels(&[("device", device)]);
        let values = [
            (counter("container_fs_reads_bytes_total", "Bytes read."), one.read_bytes),
            (counter("container_fs_writes_bytes_total", "Bytes written."), one.written_bytes),
            (counter("container_fs_reads_total", "Read operations."), one.reads),
            (counter("container_fs_writes_total", "Write operations."), one.writes),
        ];
        for (metric, value) in values {
            page.add(metric, &labels, value, Some(sample.time));
        }
    }
}

/// Adds network traffic, by interface.
pub(super) fn add_network(
    page: &mut Page,
    owner: &Owner<'_>,
    time: Timestamp,
    interfaces: &[InterfaceCounters],
) {
    const ERRORS: &str = "Errors of an interface.";
    const DROPPED: &str = "Packets that an interface dropped.";
    for interface in reported_interfaces(interfaces) {
        let labels = owner.labels(&[("interface", interface.name.as_str())]);
        let (received, sent) = (interface.received, interface.sent);
        let values = [
            (counter("container_network_receive_bytes_total", "Bytes received."), received.bytes),
            (
                counter("container_network_receive_packets_total", "Packets received."),
                received.packets,
            ),
            (counter("container_network_receive_errors_total", ERRORS), received.errors),
            (counter("container_network_receive_packets_dropped_total", DROPPED), received.dropped),
            (counter("container_network_transmit_bytes_total", "Bytes sent."), sent.bytes),
            (counter("container_network_transmit_packets_total", "Packets sent."), sent.packets),
            (counter("container_network_transmit_errors_total", ERRORS), sent.errors),
            (counter("container_network_transmit_packets_dropped_total", DROPPED), sent.dropped),
        ];
        for (metric, value) in values {
            page.add(metric, &labels, value, Some(time));
        }
    }
}

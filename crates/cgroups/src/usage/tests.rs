//! Recorded control files of both versions.

use std::fs;
use std::path::Path;

use model::cgroup::usage::{
    CgroupSample, CpuLimits, DeviceIo, MemorySample, ProcessSample, SwapSample, Throttling,
};

use super::*;
use crate::fake;

const POD: &str = "kubepods/burstable/poduid";

fn write(root: &Path, files: &[(&str, &str)]) {
    for (file, content) in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn v1(root: &Path) -> UsageReader {
    let tree = fake::v1(root);
    let (cpu, memory) = (format!("cpu,cpuacct/{POD}"), format!("memory/{POD}"));
    let files = [
        (&cpu, "cpuacct.usage", "123456789\n"),
        (&cpu, "cpuacct.stat", "user 7\nsystem 5\n"),
        (&cpu, "cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 900\n"),
        (&cpu, "cpu.shares", "512\n"),
        (&cpu, "cpu.cfs_quota_us", "20000\n"),
        (&cpu, "cpu.cfs_period_us", "100000\n"),
        (&memory, "memory.usage_in_bytes", "70000000\n"),
        (&memory, "memory.limit_in_bytes", "100000000\n"),
        (&memory, "memory.max_usage_in_bytes", "80000000\n"),
        (&memory, "memory.soft_limit_in_bytes", "9223372036854771712\n"),
        (&memory, "memory.failcnt", "2\n"),
        (&memory, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
        (
            &memory,
            "memory.stat",
            "cache 1\nrss 2\npgfault 30\npgmajfault 3\ntotal_cache 5000000\ntotal_rss 64000000\n\
             total_mapped_file 1000\ntotal_swap 0\ntotal_inactive_file 4000000\ntotal_active_file 1000000\n",
        ),
        (&memory, "cgroup.procs", "0\n41\n42\n"),
    ];
    for (directory, file, content) in files {
        write(root, &[(&format!("{directory}/{file}"), content)]);
    }
    UsageReader::new(tree)
}

fn v2(root: &Path) -> UsageReader {
    let hierarchy = root.join("unified");
    fs::create_dir(&hierarchy).unwrap();
    let tree = fake::v2(&hierarchy, "cpu io memory pids\n");
    let psi = "some avg10=0.50 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
    let files = [
        (
            "cpu.stat",
            "usage_usec 123456\nuser_usec 70000\nsystem_usec 53456\nnr_periods 10\nnr_throttled 4\nthrottled_usec 9\n",
        ),
        ("cpu.max", "20000 100000\n"),
        ("cpu.weight", "100\n"),
        ("cpu.pressure", psi),
        ("memory.current", "70000000\n"),
        ("memory.max", "max\n"),
        ("memory.peak", "80000000\n"),
        ("memory.swap.current", "4096\n"),
        ("memory.swap.max", "8192\n"),
        ("memory.events", "low 0\nhigh 0\nmax 2\noom 1\noom_kill 1\n"),
        (
            "memory.stat",
            "anon 64000000\nfile 5000000\nkernel 900\nfile_mapped 1000\ninactive_file 80000000\nactive_file 7\npgfault 30\npgmajfault 3\n",
        ),
        ("io.stat", "8:0 rbytes=4096 wbytes=512 rios=3 wios=1\n"),
        ("io.pressure", psi),
        ("pids.current", "3\n"),
        ("pids.max", "max\n"),
        ("cgroup.procs", "41\n"),
    ];
    for (file, content) in files {
        write(&hierarchy, &[(&format!("{POD}/{file}"), content)]);
    }
    write(&hierarchy, &[("memory.stat", "anon 100\nfile 50\ninactive_file 20\n")]);
    write(root, &[("meminfo", "MemTotal: 99 kB\nSwapTotal:     10 kB\nSwapFree:       4 kB\n")]);
    UsageReader::with_meminfo(tree, root.join("meminfo"))
}

async fn pod(reader: &UsageReader, detail: Detail) -> CgroupSample {
    let selection = Selection { alone: vec![format!("/{POD}")], ..Selection::default() };
    let mut found = reader.measure(&selection, detail).await.unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[tokio::test]
async fn v1_control_files_are_read() {
    let root = tempfile::tempdir().unwrap();
    let found = pod(&v1(root.path()), Detail::All).await;
    assert_eq!(found.path, format!("/{POD}"));
    let cpu = found.cpu.unwrap();
    assert_eq!((cpu.usage, cpu.user, cpu.system), (123_456_789, 70_000_000, 50_000_000));
    let throttling = Throttling { periods: 10, throttled_periods: 4, throttled: 900 };
    assert_eq!(cpu.throttling, Some(throttling));
    let limits = CpuLimits { shares: Some(512), quota: Some(20_000), period: Some(100_000) };
    assert_eq!(cpu.limits, limits);
    let memory = found.memory.unwrap();
    assert_eq!(memory.working_set(), 66_000_000);
    let expected = MemorySample {
        usage: 70_000_000,
        max_usage: Some(80_000_000),
        limit: Some(100_000_000),
        rss: 64_000_000,
        cache: 5_000_000,
        mapped_file: 1000,
        inactive_file: 4_000_000,
        active_file: 1_000_000,
        page_faults: Some(30),
        major_page_faults: Some(3),
        fail_count: Some(2),
        oom_kills: Some(1),
        swap: Some(SwapSample { usage: 0, limit: None }),
        ..MemorySample::default()
    };
    assert_eq!(memory, expected);
    let processes = ProcessSample { count: 3, first: Some(41), threads: None, max_threads: None };
    assert_eq!(found.processes, Some(processes));
}

#[tokio::test]
async fn v2_control_files_are_read() {
    let root = tempfile::tempdir().unwrap();
    let found = pod(&v2(root.path()), Detail::All).await;
    let cpu = found.cpu.unwrap();
    assert_eq!((cpu.usage, cpu.user, cpu.system), (123_456_000, 70_000_000, 53_456_000));
    let throttling = Throttling { periods: 10, throttled_periods: 4, throttled: 9000 };
    assert_eq!(cpu.throttling, Some(throttling));
    assert_eq!((cpu.limits.quota, cpu.limits.period), (Some(20_000), Some(100_000)));
    assert_eq!(cpu.psi.map(|psi| (psi.some.total, psi.full.total)), Some((77, 7)));
    let memory = found.memory.unwrap();
    assert_eq!(memory.working_set(), 0, "never below zero");
    assert_eq!((memory.limit, memory.max_usage), (None, Some(80_000_000)));
    assert_eq!(memory.swap, Some(SwapSample { usage: 4096, limit: Some(8192) }));
    assert_eq!((memory.fail_count, memory.oom_kills), (Some(2), Some(1)));
    let io = found.io.unwrap();
    let disk =
        DeviceIo { device: (8, 0), read_bytes: 4096, written_bytes: 512, reads: 3, writes: 1 };
    assert_eq!((io.devices, io.psi.is_some()), (vec![disk], true));
    let processes =
        ProcessSample { count: 1, first: Some(41), threads: Some(3), max_threads: None };
    assert_eq!(found.processes, Some(processes));
}

#[tokio::test]
async fn limits_and_io_are_not_read_without_need() {
    let root = tempfile::tempdir().unwrap();
    let found = pod(&v1(root.path()), Detail::CpuAndMemory).await;
    assert_eq!(found.io, None);
    assert_eq!(found.cpu.unwrap().limits, CpuLimits::default());
    assert_eq!(found.memory.unwrap().limit, Some(100_000_000), "availableBytes depends on it");
}

#[tokio::test]
async fn v2_root_has_the_memory_of_the_machine() {
    let root = tempfile::tempdir().unwrap();
    let reader = v2(root.path());
    let selection = Selection { alone: vec!["/".to_owned()], ..Selection::default() };
    let found = reader.measure(&selection, Detail::CpuAndMemory).await.unwrap();
    let memory = found[0].memory.clone().unwrap();
    assert_eq!((memory.usage, memory.working_set()), (150, 130));
    assert_eq!(memory.swap, Some(SwapSample { usage: 6 << 10, limit: None }));
}

#[tokio::test]
async fn cgroups_below_are_measured_and_missing_ones_skipped() {
    let root = tempfile::tempdir().unwrap();
    for reader in [v1(root.path()), v2(root.path())] {
        let selection = Selection {
            alone: vec!["/nowhere".to_owned()],
            with_children: vec!["/kubepods".to_owned(), "/../etc".to_owned()],
        };
        let found = reader.measure(&selection, Detail::CpuAndMemory).await.unwrap();
        let paths: Vec<_> = found.iter().map(|sample| sample.path.as_str()).collect();
        let below = format!("/{POD}");
        assert_eq!(paths, ["/kubepods", "/kubepods/burstable", &below]);
    }
}

//! Network traffic, tasks and devices of this machine, from the kernel's files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use jiff::Timestamp;
use model::ports::files::FileError;
use model::ports::node_usage::{InterfaceCounters, NodeUsage, TaskCounts, TrafficCounters};

use crate::Host;
use crate::text::read_text;

/// The usage of this machine.
#[derive(Debug, Clone)]
pub struct HostUsage {
    host: Host,
    root: PathBuf,
}

impl HostUsage {
    /// Reads on the threads of the host's files.
    pub fn new(host: Host) -> Self {
        Self { host, root: "/".into() }
    }

    async fn read<T: Send + 'static>(
        &self,
        path: &str,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileError> {
        self.host.call("read", &self.root.join(path), work).await
    }
}

#[async_trait]
impl NodeUsage for HostUsage {
    async fn interfaces(
        &self,
        processes: &[i32],
    ) -> Result<BTreeMap<i32, Vec<InterfaceCounters>>, FileError> {
        let processes = processes.to_vec();
        self.read("proc", move |proc| {
            let found = processes.into_iter().filter_map(|process| {
                let text = read_text(proc.join(process.to_string()).join("net/dev")).ok()?;
                Some((process, counters(&text)))
            });
            Ok(found.collect())
        })
        .await
    }

    async fn tasks(&self) -> Result<TaskCounts, FileError> {
        self.read("proc", |proc| {
            let running = running_tasks(&read_text(proc.join("loadavg"))?);
            let limits = ["sys/kernel/pid_max", "sys/kernel/threads-max"];
            let limits = limits.iter().filter_map(|file| read_text(proc.join(file)).ok());
            let maximum = limits.filter_map(|text| text.trim().parse().ok()).min();
            Ok(TaskCounts { running, maximum })
        })
        .await
    }

    async fn devices(
        &self,
        numbers: &[(u32, u32)],
    ) -> Result<BTreeMap<(u32, u32), String>, FileError> {
        let numbers = numbers.to_vec();
        self.read("sys/dev/block", move |devices| {
            let found = numbers.into_iter().filter_map(|number| {
                let directory = format!("{}:{}", number.0, number.1);
                let text = read_text(devices.join(directory).join("uevent")).ok()?;
                let name = text.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
                Some((number, format!("/dev/{name}")))
            });
            Ok(found.collect())
        })
        .await
    }

    async fn booted_at(&self) -> Result<Timestamp, FileError> {
        self.read("proc/stat", |stat| {
            let text = read_text(stat)?;
            let seconds = text.lines().find_map(|line| line.strip_prefix("btime "));
            let seconds = seconds.and_then(|seconds| seconds.trim().parse().ok());
            let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
            time.ok_or_else(|| io::Error::other("it has no boot time"))
        })
        .await
    }
}

/// The tasks of `1.36 3.49 4.53 2/3518 3715089`.
fn running_tasks(loadavg: &str) -> Option<i64> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// The table of `/proc/PID/net/dev`, behind two lines of headings.
fn counters(text: &str) -> Vec<InterfaceCounters> {
    let interface = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> =
            numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let traffic = |at: usize| {
            let &[bytes, packets, errors, dropped] = numbers.get(at..at + 4)? else { return None };
            Some(TrafficCounters { bytes, packets, errors, dropped })
        };
        Some(InterfaceCounters {
            name: name.trim().to_owned(),
            received: traffic(0)?,
            sent: traffic(8)?,
        })
    };
    text.lines().skip(2).filter_map(interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       5       1    0    0    0     0          0         0        5       1    0    0    0     0       0          0
  eth0: 1234567      89    2    3    0     0          0         0     4321      21    1    4    0     0       0          0
";

    fn on(files: &[(&str, &str)]) -> (tempfile::TempDir, HostUsage) {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let usage = HostUsage { host: Host::default(), root: root.path().to_owned() };
        (root, usage)
    }

    #[tokio::test]
    async fn interfaces_of_ended_processes_are_missing() {
        let (_root, usage) = on(&[("proc/7/net/dev", NET)]);
        let found = usage.interfaces(&[7, 8]).await.unwrap();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [7]);
        let expected = InterfaceCounters {
            name: "eth0".to_owned(),
            received: TrafficCounters { bytes: 1_234_567, packets: 89, errors: 2, dropped: 3 },
            sent: TrafficCounters { bytes: 4321, packets: 21, errors: 1, dropped: 4 },
        };
        assert_eq!(found[&7][1], expected);
    }

    #[tokio::test]
    async fn smaller_of_both_task_limits_counts() {
        let (_root, usage) = on(&[
            ("proc/loadavg", "1.36 3.49 4.53 2/3518 3715089\n"),
            ("proc/sys/kernel/pid_max", "4194304\n"),
            ("proc/sys/kernel/threads-max", "127000\n"),
            ("proc/stat", "cpu 1 2\nbtime 1700000000\n"),
            ("sys/dev/block/8:0/uevent", "MAJOR=8\nMINOR=0\nDEVNAME=sda\nDEVTYPE=disk\n"),
        ]);
        let found = usage.tasks().await.unwrap();
        assert_eq!(found, TaskCounts { running: Some(3518), maximum: Some(127_000) });
        assert_eq!(usage.booted_at().await.unwrap().as_second(), 1_700_000_000);
        let devices = usage.devices(&[(8, 0), (9, 9)]).await.unwrap();
        assert_eq!(devices, [((8, 0), "/dev/sda".to_owned())].into());
    }
}

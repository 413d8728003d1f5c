//! What was observed of each signal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::quantity::Quantity;
use model::stats::{FsStats, MemoryStats, NodeStats};

use super::signal::{Resource, Signal};

/// The group of system processes whose memory is that of all pods.
const ALL_PODS: &str = "pods";

/// A measurement of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// What is available: bytes, inodes or process ids.
    pub available: i64,
    /// The capacity.
    pub capacity: i64,
    /// When it was measured.
    pub at: Timestamp,
}

/// The observed signals. A signal that could not be measured is absent.
pub type Observations = BTreeMap<Signal, Observed>;

/// The memory that a signal measures.
pub(crate) fn memory_stats(signal: Signal, node: &NodeStats) -> Option<&MemoryStats> {
    match signal {
        Signal::MemoryAvailable => node.memory.as_ref(),
        Signal::AllocatableMemoryAvailable => {
            let pods = node.system_containers.iter().find(|group| group.name == ALL_PODS);
            pods?.memory.as_ref()
        }
        _ => None,
    }
}

/// The signals of the node's usage.
pub fn observations(node: &NodeStats) -> Observations {
    let mut all = Observations::new();
    for signal in [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable] {
        all.extend(memory(signal, memory_stats(signal, node)));
    }
    let of_runtime = node.runtime.as_ref();
    let file_systems = [
        (Signal::NodeFsAvailable, Signal::NodeFsInodesFree, node.fs.as_ref()),
        (
            Signal::ImageFsAvailable,
            Signal::ImageFsInodesFree,
            of_runtime.and_then(|runtime| runtime.image_fs.as_ref()),
        ),
        (
            Signal::ContainerFsAvailable,
            Signal::ContainerFsInodesFree,
            of_runtime.and_then(|runtime| runtime.container_fs.as_ref()),
        ),
    ];
    for (space, inodes, fs) in file_systems {
        let Some(FsStats {
            time,
            available_bytes,
            capacity_bytes,
            inodes_free,
            inodes: all_inodes,
            ..
        }) = fs
        else {
            continue;
        };
        all.extend(observed(*available_bytes, *capacity_bytes, *time).map(|seen| (space, seen)));
        all.extend(observed(*inodes_free, *all_inodes, *time).map(|seen| (inodes, seen)));
    }
    if let Some(limits) = &node.rlimit
        && let (Some(most), Some(running)) = (limits.maxpid, limits.running)
    {
        let available = most.saturating_sub(running);
        all.insert(Signal::PidAvailable, Observed { available, capacity: most, at: limits.time });
    }
    all
}

fn memory(signal: Signal, stats: Option<&MemoryStats>) -> Option<(Signal, Observed)> {
    let stats = stats?;
    let (available, used) = (stats.available_bytes?, stats.working_set_bytes?);
    let seen = observed(Some(available), Some(available.saturating_add(used)), stats.time)?;
    Some((signal, seen))
}

fn observed(available: Option<u64>, capacity: Option<u64>, at: Timestamp) -> Option<Observed> {
    Some(Observed { available: number(available?), capacity: number(capacity?), at })
}

/// A measured number, saturating.
pub(crate) fn number(measured: u64) -> i64 {
    i64::try_from(measured).unwrap_or(i64::MAX)
}

/// A number of bytes as the API writes it: `1234Ki`.
pub fn bytes(number: i64) -> Quantity {
    count(number).in_binary()
}

/// A number as the API writes it: `12k`.
pub fn count(number: i64) -> Quantity {
    number.to_string().parse().unwrap_or(Quantity::ZERO)
}

/// What is available of a signal, as messages write it.
pub fn available(signal: Signal, observed: &Observed) -> Quantity {
    match Resource::of(signal) {
        Resource::Memory | Resource::EphemeralStorage => bytes(observed.available),
        Resource::Inodes | Resource::Pids => count(observed.available),
    }
}

#[cfg(test)]
mod tests {
    use model::stats::{ContainerStats, RlimitStats, RuntimeFsStats};

    use super::*;

    fn fs(available: u64, capacity: u64) -> FsStats {
        FsStats {
            available_bytes: Some(available),
            capacity_bytes: Some(capacity),
            inodes_free: Some(available / 10),
            inodes: Some(capacity / 10),
            ..FsStats::default()
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the fields are optional")]
    fn memory_of(available: u64, used: u64) -> Option<MemoryStats> {
        Some(MemoryStats {
            available_bytes: Some(available),
            working_set_bytes: Some(used),
            ..MemoryStats::default()
        })
    }

    // behaviour: EVI-1
    #[test]
    fn signals_are_derived_from_the_usage_of_the_node() {
        let node = NodeStats {
            memory: memory_of(30, 70),
            system_containers: vec![
                ContainerStats { name: "kubelet".to_owned(), ..ContainerStats::default() },
                ContainerStats {
                    name: "pods".to_owned(),
                    memory: memory_of(5, 45),
                    ..ContainerStats::default()
                },
            ],
            fs: Some(fs(200, 1000)),
            runtime: Some(RuntimeFsStats {
                image_fs: Some(fs(300, 2000)),
                container_fs: Some(fs(400, 3000)),
            }),
            rlimit: Some(RlimitStats {
                maxpid: Some(100),
                running: Some(60),
                ..RlimitStats::default()
            }),
            ..NodeStats::default()
        };
        let found = observations(&node);
        let expected = [
            (Signal::MemoryAvailable, 30, 100),
            (Signal::NodeFsAvailable, 200, 1000),
            (Signal::NodeFsInodesFree, 20, 100),
            (Signal::ImageFsAvailable, 300, 2000),
            (Signal::ImageFsInodesFree, 30, 200),
            (Signal::ContainerFsAvailable, 400, 3000),
            (Signal::ContainerFsInodesFree, 40, 300),
            (Signal::AllocatableMemoryAvailable, 5, 50),
            (Signal::PidAvailable, 40, 100),
        ];
        let found: Vec<_> =
            found.iter().map(|(signal, seen)| (*signal, seen.available, seen.capacity)).collect();
        assert_eq!(found, expected);
    }

    // behaviour: EVI-2
    #[test]
    fn signal_without_a_measurement_is_absent() {
        assert_eq!(observations(&NodeStats::default()), Observations::new());
        let half = NodeStats {
            memory: Some(MemoryStats { available_bytes: Some(1), ..MemoryStats::default() }),
            fs: Some(FsStats { inodes_free: None, ..fs(1, 1) }),
            rlimit: Some(RlimitStats { maxpid: Some(1), ..RlimitStats::default() }),
            ..NodeStats::default()
        };
        let found: Vec<_> = observations(&half).into_keys().collect();
        assert_eq!(found, [Signal::NodeFsAvailable]);
    }

    // behaviour: EVI-30
    #[test]
    fn amounts_are_written_as_the_api_writes_them() {
        let rows = [
            (Signal::MemoryAvailable, 100 << 20, "100Mi"),
            (Signal::NodeFsAvailable, 1_234_567, "1234567"),
            (Signal::NodeFsAvailable, 1_263_616, "1234Ki"),
            (Signal::NodeFsAvailable, 0, "0"),
            (Signal::NodeFsInodesFree, 12_000, "12k"),
            (Signal::PidAvailable, 4096, "4096"),
        ];
        for (signal, number, expected) in rows {
            let seen = Observed { available: number, capacity: number, at: Timestamp::UNIX_EPOCH };
            assert_eq!(available(signal, &seen).to_string(), expected);
        }
    }
}

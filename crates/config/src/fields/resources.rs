//! Cgroups, reservations, CPU, memory and NUMA.

use std::collections::BTreeMap;

use crate::as_written::CanonicalQuantity;
use crate::setting::{settings, words};

words! {
    /// The driver that creates cgroups.
    pub enum CgroupDriver {
        /// The agent and the runtime, as directories.
        Cgroupfs = "cgroupfs",
        /// systemd, as slices and scopes.
        Systemd = "systemd",
    }
}

words! {
    /// A limit that is written to cgroups.
    pub enum NodeAllocatableEnforcement {
        /// No limit; cannot be combined.
        None = "none",
        /// The limit of all pods.
        Pods = "pods",
        /// The reservation for the system.
        SystemReserved = "system-reserved",
        /// Like the previous value, but only for CPU.
        SystemReservedCompressible = "system-reserved-compressible",
        /// The reservation for Kubernetes.
        KubeReserved = "kube-reserved",
        /// Like the previous value, but only for CPU.
        KubeReservedCompressible = "kube-reserved-compressible",
    }
}

words! {
    /// A resource that can be reserved.
    pub enum ReservedResource {
        /// Cores.
        Cpu = "cpu",
        /// Bytes of memory.
        Memory = "memory",
        /// Bytes of local disk.
        EphemeralStorage = "ephemeral-storage",
        /// Process numbers.
        Pid = "pid",
    }
}

words! {
    /// A resource that can be reserved for pods of higher quality of service.
    pub enum QosReservedResource {
        /// Bytes of memory.
        Memory = "memory",
    }
}

words! {
    /// Whether containers can have exclusive CPUs.
    pub enum CpuManagerPolicy {
        /// All containers share all CPUs.
        None = "none",
        /// Guaranteed containers with whole CPUs have exclusive ones.
        Static = "static",
    }
}

words! {
    /// Whether containers can have the memory of one NUMA node.
    pub enum MemoryManagerPolicy {
        /// No.
        None = "None",
        /// Guaranteed containers.
        Static = "Static",
    }
}

words! {
    /// Whether requested memory is protected.
    pub enum MemoryReservationPolicy {
        /// No.
        None = "None",
        /// Hard for guaranteed pods, soft for burstable ones.
        TieredReservation = "TieredReservation",
    }
}

words! {
    /// How strictly the resources of a pod are aligned to NUMA nodes.
    pub enum TopologyManagerPolicy {
        /// Not at all.
        None = "none",
        /// If possible.
        BestEffort = "best-effort",
        /// Alignment is required: the pod is rejected if the node cannot provide it.
        Restricted = "restricted",
        /// On one NUMA node, or the pod is rejected.
        SingleNumaNode = "single-numa-node",
    }
}

words! {
    /// The scope of the alignment.
    pub enum TopologyManagerScope {
        /// The resources of each container.
        Container = "container",
        /// The resources of the pod.
        Pod = "pod",
    }
}

settings! {
    /// Swap of pods.
    pub struct MemorySwap {
        /// The rule; `None` for `NoSwap`.
        swap_behavior: Option<SwapBehavior> = "swapBehavior", unset(None);
    }
}

words! {
    /// Which pods may use swap.
    pub enum SwapBehavior {
        /// No pod.
        NoSwap = "NoSwap",
        /// Burstable pods, in proportion to their memory request.
        LimitedSwap = "LimitedSwap",
    }
}

settings! {
    /// Memory reserved on one NUMA node.
    pub struct MemoryReservation {
        /// Number of the node.
        numa_node: i32 = "numaNode", absent(0);
        /// The amounts, by `memory` or `hugepages-<size>`.
        limits: MemoryLimits = "limits", absent(MemoryLimits::default());
    }
}

/// Amounts by `memory` or `hugepages-<size>`.
pub type MemoryLimits = BTreeMap<String, CanonicalQuantity>;

//! Resources that a node is short of.

/// Resources under pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// Memory.
    pub memory: bool,
    /// Disk space.
    pub disk: bool,
    /// Process ids.
    pub pid: bool,
}

impl Pressure {
    /// The node conditions that are true.
    pub fn conditions(self) -> Vec<&'static str> {
        let all = [
            (self.memory, "MemoryPressure"),
            (self.disk, "DiskPressure"),
            (self.pid, "PIDPressure"),
        ];
        all.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name).collect()
    }
}

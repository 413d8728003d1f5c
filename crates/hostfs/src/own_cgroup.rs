//! The cgroup of this process.

use std::path::{Component, Path, PathBuf};

use crate::text::read_text;

/// The cgroup of the agent; `None` if it is in the root, in another namespace, or not in one for CPU and memory.
pub fn own_cgroup() -> Option<PathBuf> {
    of_table(&read_text("/proc/self/cgroup").ok()?)
}

fn of_table(text: &str) -> Option<PathBuf> {
    let of = |controller: &str| {
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        })
    };
    // Version 2 has one line without controllers.
    let path = match (of("cpu"), of("memory")) {
        (None, None) => of("")?,
        (cpu, memory) => cpu.filter(|cpu| Some(*cpu) == memory)?,
    };
    let is_inside = Path::new(path).components().all(|part| part != Component::ParentDir);
    (is_inside && path != "/").then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_cgroup_is_one_for_cpu_and_memory() {
        let rows = [
            ("0::/system.slice/kubelet.service\n", Some("/system.slice/kubelet.service")),
            ("0::/\n", None),
            ("0::/../other\n", None),
            ("5:memory:/agent\n3:cpu,cpuacct:/agent\n1:name=systemd:/x\n0::/\n", Some("/agent")),
            ("5:memory:/one\n3:cpu,cpuacct:/other\n", None),
            ("5:memory:/one\n", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(of_table(text).as_deref(), expected.map(Path::new), "{text}");
        }
    }
}

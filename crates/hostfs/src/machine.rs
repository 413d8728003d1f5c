//! Machine info from kernel files.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use model::machine::{Cgroups, HugePages, Machine};

use crate::text::read_text;

/// The file system type of cgroup v2.
const CGROUP2_MAGIC: rustix::fs::FsWord = 0x6367_7270;

/// Reads the info of this machine.
pub fn machine() -> io::Result<Machine> {
    let cgroups = match rustix::fs::statfs("/sys/fs/cgroup") {
        Ok(found) if found.f_type == CGROUP2_MAGIC => Cgroups::V2,
        _ => Cgroups::V1,
    };
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    read(Path::new("/"), cgroups, &release)
}

/// Whether the kernel can limit the CPU time of processes.
pub fn limits_processors(cgroups: Cgroups) -> bool {
    can_limit_processors(Path::new("/"), cgroups)
}

fn can_limit_processors(root: &Path, cgroups: Cgroups) -> bool {
    let controller = root.join("sys/fs/cgroup/cpu");
    let has = |file: &str| controller.join(file).exists();
    // With v2, it always can. Other mount points are not searched.
    cgroups == Cgroups::V2
        || !controller.exists()
        || (has("cpu.cfs_quota_us") && has("cpu.cfs_period_us"))
}

/// The size of the disk of a path in bytes.
pub fn disk_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_frsize.saturating_mul(found.f_blocks))
}

/// Reads the info of the machine with this root directory.
fn read(root: &Path, cgroups: Cgroups, release: &str) -> io::Result<Machine> {
    let text = |path: &str| read_text(root.join(path)).unwrap_or_default();
    let memory = read_text(root.join("proc/meminfo"))?;
    let memory = meminfo_bytes(&memory, "MemTotal:").ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "no MemTotal in /proc/meminfo")
    })?;
    let swaps = match read_text(root.join("proc/swaps")) {
        // A kernel without swap.
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let cpu_set = text("sys/devices/system/cpu/online").trim().to_owned();
    let online = cpu_list(&cpu_set);
    let limits = ["pid_max", "threads-max"].map(|file| text(&format!("proc/sys/kernel/{file}")));
    let throttle = cpu_list(&text("sys/devices/system/cpu/possible"))
        .into_iter()
        .map(|cpu| PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle")));
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let throttle = throttle.filter(|path| below(path).exists());
    let apparmor = root.join("sys/kernel/security/apparmor").exists()
        && text("sys/module/apparmor/parameters/enabled").starts_with('Y');
    // Without a policy, every process has the label of the kernel.
    let label = text("proc/self/attr/current");
    let selinux = root.join("sys/fs/selinux/enforce").exists()
        && label.trim_end_matches(['\0', '\n']) != "kernel";
    Ok(Machine {
        memory,
        cpus: u32::try_from(online.len()).unwrap_or(u32::MAX).max(1),
        cpu_set,
        most_pids: limits.iter().filter_map(|limit| limit.trim().parse().ok()).min(),
        kernel: kernel_version(release),
        huge_pages: huge_pages(&root.join("sys/kernel/mm/hugepages")),
        thermal_throttle: throttle.map(|path| path.to_string_lossy().into_owned()).collect(),
        cgroups,
        swap: is_swap_on(&swaps),
        swap_controller: swap_file(
            cgroups,
            &fs::read(root.join("proc/self/cgroup")).unwrap_or_default(),
        )
        .is_some_and(|file| below(&file).exists()),
        apparmor,
        selinux,
    })
}

/// A field of `/proc/meminfo`.
pub(crate) fn meminfo_bytes(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// A kernel list such as `0-3,8`. The numbers are limited to supported CPU counts.
fn cpu_list(text: &str) -> Vec<u32> {
    const MOST: usize = 8192;
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    ranges.flatten().take(MOST).collect()
}

/// The first two numbers of `6.1.0-13-amd64`.
fn kernel_version(release: &str) -> (u32, u32) {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0);
    (next(), next())
}

fn huge_pages(directory: &Path) -> Vec<HugePages> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut all: Vec<HugePages> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?;
            let count = read_text(entry.path().join("nr_hugepages")).unwrap_or_default();
            let count = count.trim().parse().unwrap_or(0);
            Some(HugePages { size: size.saturating_mul(1024), count })
        })
        .collect();
    all.sort_by_key(|pages| pages.size);
    all
}

/// The first line is the table header.
fn is_swap_on(swaps: &str) -> bool {
    swaps.trim().lines().count() > 1
}

/// The file that limits swap, if the kernel supports that.
fn swap_file(cgroups: Cgroups, own_cgroup: &[u8]) -> Option<PathBuf> {
    match cgroups {
        Cgroups::V1 => Some("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes".into()),
        Cgroups::V2 => {
            // The root cgroup has no such file.
            let mut lines = own_cgroup.split(|byte| *byte == b'\n');
            let own = lines.find_map(|line| line.strip_prefix(b"0::"))?;
            let directory = [b"/sys/fs/cgroup".as_slice(), own].concat();
            Some(PathBuf::from(OsString::from_vec(directory)).join("memory.swap.max"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn machine_info_is_read_from_kernel_files() {
        let root = written(&[
            ("proc/meminfo", "MemTotal:       16316412 kB\nMemFree: 1 kB\n"),
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("sys/fs/cgroup/user.slice/memory.swap.max", "max\n"),
            ("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/swap.img\tfile\t4096\t0\t-2\n"),
            ("proc/sys/kernel/pid_max", "4194304\n"),
            ("proc/sys/kernel/threads-max", "127000\n"),
            ("sys/devices/system/cpu/online", "0-2,5\n"),
            ("sys/devices/system/cpu/possible", "0-7\n"),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/count", "0"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "7\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
            ("sys/kernel/security/apparmor/profiles", ""),
            ("sys/module/apparmor/parameters/enabled", "Y\n"),
            ("sys/fs/selinux/enforce", "1"),
            ("proc/self/attr/current", "system_u:system_r:kubelet_t:s0\0"),
        ]);
        let machine = read(root.path(), Cgroups::V2, "6.1.0-13-amd64").unwrap();
        let expected = Machine {
            memory: 16_316_412 * 1024,
            cpus: 4,
            cpu_set: "0-2,5".to_owned(),
            most_pids: Some(127_000),
            kernel: (6, 1),
            huge_pages: vec![
                HugePages { size: 2 << 20, count: 7 },
                HugePages { size: 1 << 30, count: 0 },
            ],
            thermal_throttle: vec!["/sys/devices/system/cpu/cpu1/thermal_throttle".to_owned()],
            cgroups: Cgroups::V2,
            swap: true,
            swap_controller: true,
            apparmor: true,
            selinux: true,
        };
        assert_eq!(machine, expected);
        let (enforce, label) = ("sys/fs/selinux/enforce", "proc/self/attr/current");
        let memory = ("proc/meminfo", "MemTotal: 4 kB\n");
        for without in
            [vec![memory, (label, "user_t")], vec![memory, (enforce, "0"), (label, "kernel\0")]]
        {
            assert!(!read(written(&without).path(), Cgroups::V2, "6.1").unwrap().selinux);
        }
    }

    #[test]
    fn missing_kernel_files_leave_machine_values_empty() {
        let root = written(&[("proc/meminfo", "MemTotal: 4 kB\n")]);
        let machine = read(root.path(), Cgroups::V1, "4.19").unwrap();
        let expected = Machine {
            memory: 4096,
            cpus: 1,
            kernel: (4, 19),
            cgroups: Cgroups::V1,
            ..Machine::default()
        };
        assert_eq!(machine, expected);
        assert!(read(written(&[]).path(), Cgroups::V1, "4.19").is_err());
    }

    // behaviour: NODE-52
    #[test]
    fn cpu_limit_support_is_detected_by_files() {
        let (period, quota) =
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "sys/fs/cgroup/cpu/cpu.cfs_quota_us");
        let shares = "sys/fs/cgroup/cpu/cpu.shares";
        let rows: [(&[&str], bool); 4] =
            [(&[period, quota, shares], true), (&[shares], false), (&[period], false), (&[], true)];
        for (files, expected) in rows {
            let files: Vec<(&str, &str)> = files.iter().map(|file| (*file, "0\n")).collect();
            let root = written(&files);
            assert_eq!(can_limit_processors(root.path(), Cgroups::V1), expected, "{files:?}");
            assert!(can_limit_processors(root.path(), Cgroups::V2), "{files:?}");
        }
    }

    #[test]
    fn swap_is_on_if_the_kernel_lists_devices() {
        for (swaps, expected) in [("", false), ("Filename\tType\n", false), ("F\n/dev/b\n", true)] {
            assert_eq!(is_swap_on(swaps), expected, "{swaps:?}");
        }
    }

    #[test]
    fn non_utf8_names_hide_no_machine_values() {
        let root = written(&[("proc/meminfo", "MemTotal: 4 kB\n")]);
        let own = Path::new("sys/fs/cgroup").join(OsString::from_vec(b"a\xff".to_vec()));
        fs::create_dir_all(root.path().join(&own)).unwrap();
        fs::write(root.path().join(own).join("memory.swap.max"), "max\n").unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/cgroup"), b"0::/a\xff\n").unwrap();
        fs::write(root.path().join("proc/swaps"), b"Filename\tType\n/\xff\tfile\n").unwrap();
        let machine = read(root.path(), Cgroups::V2, "6.1").unwrap();
        assert!(machine.swap && machine.swap_controller, "{machine:?}");
    }

    #[test]
    fn local_machine_is_read() {
        let machine = machine().unwrap();
        assert!(machine.memory > 1 << 20 && machine.cpus > 0 && machine.kernel.0 > 0);
        assert!(disk_bytes(Path::new("/")).unwrap() > 0);
    }
}

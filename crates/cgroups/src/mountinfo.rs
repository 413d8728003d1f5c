//! Reads mounted hierarchies from `/proc/self/mountinfo`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use model::mountinfo::unescaped;

/// Mount options of a v1 hierarchy that are not controllers.
const OPTIONS: [&str; 7] =
    ["rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods"];

/// The mounted v1 hierarchies with their controllers. For a controller mounted twice, the shorter path is used.
/// A hierarchy without controllers has its name instead.
pub(crate) fn hierarchies(mountinfo: &[u8]) -> Vec<(PathBuf, Vec<String>)> {
    let mut mounts: BTreeMap<String, PathBuf> = BTreeMap::new();
    let lines = mountinfo.split(|byte| *byte == b'\n');
    for (path, options) in lines.filter_map(cgroup_mount) {
        for controller in options.split(',').filter_map(controller) {
            let known = mounts.entry(controller.to_owned()).or_insert_with(|| path.clone());
            if path.as_os_str().len() < known.as_os_str().len() {
                known.clone_from(&path);
            }
        }
    }
    let mut hierarchies: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for (controller, path) in mounts {
        hierarchies.entry(path).or_default().push(controller);
    }
    hierarchies.into_iter().collect()
}

/// The mount point and options of a v1 hierarchy. Paths are bytes; lines with non-UTF-8 options are not such
/// hierarchies.
fn cgroup_mount(line: &[u8]) -> Option<(PathBuf, &str)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = fields.by_ref().nth(4)?;
    // Optional fields precede this one.
    fields.by_ref().find(|field| *field == b"-")?;
    if fields.next() != Some(b"cgroup") {
        return None;
    }
    let options = std::str::from_utf8(fields.nth(1)?).ok()?;
    Some((PathBuf::from(OsString::from_vec(unescaped(point))), options))
}

fn controller(option: &str) -> Option<&str> {
    if OPTIONS.contains(&option) || option.starts_with("release_agent=") {
        return None;
    }
    Some(option.strip_prefix("name=").unwrap_or(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_read_with_their_controllers() {
        let text = "\
25 30 0:23 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
26 25 0:24 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw
27 25 0:25 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,release_agent=/x,name=systemd
28 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
29 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
30 25 0:27 / /elsewhere/with\\040blank/memory rw - cgroup cgroup rw,memory
31 25 0:28 / /a\\040b rw - cgroup cgroup rw,pids
";
        let found = hierarchies(text.as_bytes());
        let hierarchies: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|(path, names)| {
                (path.to_str().unwrap(), names.iter().map(String::as_str).collect())
            })
            .collect();
        assert_eq!(
            hierarchies,
            [
                ("/a b", vec!["pids"]),
                ("/sys/fs/cgroup/cpu,cpuacct", vec!["cpu", "cpuacct"]),
                ("/sys/fs/cgroup/memory", vec!["memory"]),
                ("/sys/fs/cgroup/systemd", vec!["systemd"]),
            ]
        );
    }

    #[test]
    fn mount_point_that_is_not_utf8_hides_no_hierarchy() {
        let text = b"21 1 0:9 / /mnt/\xff rw - tmpfs \xfe rw\n\
                     29 25 0:27 / /sys/\xff\\040x rw shared:1 - cgroup cgroup rw,memory\n";
        let path = PathBuf::from(OsString::from_vec(b"/sys/\xff x".to_vec()));
        assert_eq!(hierarchies(text), [(path, vec!["memory".to_owned()])]);
    }
}

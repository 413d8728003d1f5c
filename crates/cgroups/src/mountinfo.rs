//! Where hierarchies are mounted, from `/proc/self/mountinfo`.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of a hierarchy of the first version that name no controller.
const OPTIONS: [&str; 7] =
    ["rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods"];

/// The mounted hierarchies of the first version, each with its controllers; of a controller that is
/// mounted twice the shorter path counts. A hierarchy without controllers has its own name for one.
pub(crate) fn hierarchies(mountinfo: &str) -> Vec<(PathBuf, Vec<String>)> {
    let mut mounts: BTreeMap<String, String> = BTreeMap::new();
    for (path, options) in mountinfo.lines().filter_map(cgroup_mount) {
        for controller in options.split(',').filter_map(controller) {
            let known = mounts.entry(controller.to_owned()).or_insert_with(|| path.clone());
            if path.len() < known.len() {
                known.clone_from(&path);
            }
        }
    }
    let mut hierarchies: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for (controller, path) in mounts {
        hierarchies.entry(path.into()).or_default().push(controller);
    }
    hierarchies.into_iter().collect()
}

/// Mount point and options of a line that tells of a hierarchy of the first version.
fn cgroup_mount(line: &str) -> Option<(String, &str)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    if system.next() != Some("cgroup") {
        return None;
    }
    let point = mount.split(' ').nth(4)?;
    Some((unescaped(point), system.nth(1)?))
}

fn controller(option: &str) -> Option<&str> {
    if OPTIONS.contains(&option) || option.starts_with("release_agent=") {
        return None;
    }
    Some(option.strip_prefix("name=").unwrap_or(option))
}

/// Blanks and the like are written as octal numbers.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let number = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = number {
            plain.push(byte.into());
            rest = &after[3..];
        } else {
            plain.push('\\');
            rest = after;
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_with_their_controllers() {
        let text = "\
25 30 0:23 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
26 25 0:24 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw
27 25 0:25 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,release_agent=/x,name=systemd
28 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
29 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
30 25 0:27 / /elsewhere/with\\040blank/memory rw - cgroup cgroup rw,memory
31 25 0:28 / /a\\040b rw - cgroup cgroup rw,pids
";
        let found = hierarchies(text);
        let told: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|(path, names)| {
                (path.to_str().unwrap(), names.iter().map(String::as_str).collect())
            })
            .collect();
        assert_eq!(
            told,
            [
                ("/a b", vec!["pids"]),
                ("/sys/fs/cgroup/cpu,cpuacct", vec!["cpu", "cpuacct"]),
                ("/sys/fs/cgroup/memory", vec!["memory"]),
                ("/sys/fs/cgroup/systemd", vec!["systemd"]),
            ]
        );
    }
}

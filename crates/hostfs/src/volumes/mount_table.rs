//! The mounts of this process, from `/proc/self/mountinfo`.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use model::mountinfo::unescaped;
use model::ports::volumes::MountPoint;

/// A line of the table.
#[derive(Debug, Clone)]
pub(super) struct Line {
    id: u64,
    parent: u64,
    pub(super) is_shared: bool,
    pub(super) mount: MountPoint,
}

/// All mounts, in order of their creation.
#[derive(Debug)]
pub(super) struct MountTable {
    lines: Vec<Line>,
}

impl MountTable {
    pub(super) fn read() -> io::Result<Self> {
        Ok(Self::parsed(&std::fs::read("/proc/self/mountinfo")?))
    }

    fn parsed(table: &[u8]) -> Self {
        Self { lines: table.split(|byte| *byte == b'\n').filter_map(line).collect() }
    }

    /// The reachable mounts on a directory and below it.
    pub(super) fn within(&self, directory: &Path) -> Vec<&Line> {
        let mounts: HashMap<u64, &Line> = self.lines.iter().map(|line| (line.id, line)).collect();
        let children: HashSet<(u64, &Path)> =
            self.lines.iter().map(|line| (line.parent, &*line.mount.path)).collect();
        let within = self.lines.iter().filter(|line| line.mount.path.starts_with(directory));
        within.filter(|line| is_reachable(line, &mounts, &children)).collect()
    }

    /// The mount on exactly this directory; the topmost if there are several.
    pub(super) fn at(&self, directory: &Path) -> Option<&Line> {
        self.within(directory).into_iter().rfind(|line| line.mount.path == directory)
    }

    /// The mount that contains a directory.
    pub(super) fn containing(&self, directory: &Path) -> Option<&Line> {
        directory.ancestors().find_map(|ancestor| self.at(ancestor))
    }

    /// Whether a mount was made directly on another.
    pub(super) fn is_child(child: &Line, parent: &Line) -> bool {
        child.parent == parent.id && child.id != parent.id
    }
}

/// Whether no other mount covers it. A directory that was bind-mounted on itself hides its earlier mounts,
/// which are still in the table.
fn is_reachable(
    line: &Line,
    mounts: &HashMap<u64, &Line>,
    children: &HashSet<(u64, &Path)>,
) -> bool {
    let (mut here, mut steps) = (line, 0);
    // Walks up the mounts: a nearer mount in between covers it.
    while let Some(parent) = mounts.get(&here.parent).filter(|parent| parent.id != here.id) {
        let is_nearer = |path| children.contains(&(parent.id, path));
        steps += 1;
        if here.mount.path.ancestors().skip(1).any(is_nearer) || steps > mounts.len() {
            return false;
        }
        here = parent;
    }
    true
}

/// `36 35 98:0 /root /place rw,noatime shared:1 - ext4 /dev/root rw`: the optional fields end with a dash.
fn line(line: &[u8]) -> Option<Line> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let number = |position: usize| std::str::from_utf8(fields.get(position)?).ok()?.parse().ok();
    let path =
        |position: usize| Some(PathBuf::from(OsString::from_vec(unescaped(fields.get(position)?))));
    let text = |position: usize| Some(String::from_utf8_lossy(fields.get(position)?).into_owned());
    let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
    let optional = fields.get(6..dash)?;
    Some(Line {
        id: number(0)?,
        parent: number(1)?,
        is_shared: optional.iter().any(|field| field.starts_with(b"shared:")),
        mount: MountPoint {
            path: path(4)?,
            fs_type: text(dash + 1)?,
            root: path(3)?,
            options: format!("{},{}", text(5)?, text(dash + 3)?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(lines: &[&Line]) -> Vec<String> {
        lines.iter().map(|line| line.mount.path.display().to_string()).collect()
    }

    #[test]
    fn lines_are_read_with_optional_fields_and_escapes() {
        let table = MountTable::parsed(
            b"21 1 0:1 / / rw shared:1 - ext4 /dev/sda rw\n\
              22 21 0:2 / /pods/u/a\\040b rw,nosuid - tmpfs tmpfs rw,size=64k\n\
              23 21 0:1 /data /pods/u/c ro shared:4 master:2 - ext4 /dev/sda rw\n\
              24 21 0:3 / /podsx rw - tmpfs tmpfs rw\n",
        );
        let found = table.within(Path::new("/pods"));
        assert_eq!(paths(&found), ["/pods/u/a b", "/pods/u/c"]);
        assert_eq!(found[0].mount.options, "rw,nosuid,rw,size=64k");
        assert_eq!((&*found[0].mount.fs_type, found[0].is_shared), ("tmpfs", false));
        assert_eq!((found[1].mount.root.to_str(), found[1].is_shared), (Some("/data"), true));
        let outer = table.containing(Path::new("/pods/u")).unwrap();
        assert!(outer.is_shared && outer.mount.path == Path::new("/"));
    }

    #[test]
    fn covered_mounts_are_left_out() {
        // The root directory was mounted on itself: 22 is hidden, and 24 is its copy.
        let table = MountTable::parsed(
            b"21 1 0:1 / / rw - ext4 /dev/sda rw\n\
              22 21 0:2 / /var/pods/u rw - tmpfs tmpfs rw\n\
              23 21 0:1 /var /var rw - ext4 /dev/sda rw\n\
              24 23 0:2 / /var/pods/u rw - tmpfs tmpfs rw\n\
              25 24 0:3 / /var/pods/u rw - tmpfs stacked rw\n",
        );
        let found = table.within(Path::new("/var/pods"));
        assert_eq!(found.iter().map(|line| line.id).collect::<Vec<_>>(), [24, 25]);
        assert_eq!(table.at(Path::new("/var/pods/u")).unwrap().id, 25);
    }
}

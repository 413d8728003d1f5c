//! Mounts in the tree behind the files in memory.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::ports::volumes::MountPoint;

use super::tree::{Node, Placed, Tree};

/// The mode of the root of a file system in memory.
const MEMORY_MODE: u32 = 0o1777;

/// A mount.
#[derive(Debug, Clone)]
pub(crate) struct MemoryMount {
    pub(crate) mount: MountPoint,
    /// The bind-mounted path; `None` for a separate file system.
    pub(crate) source: Option<PathBuf>,
    /// The covered nodes by path.
    covered: Vec<(PathBuf, Placed)>,
}

impl Tree {
    /// The path under which the node of a path is stored: a bind mount shows the node of its
    /// source.
    pub(crate) fn stored<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        for mount in self.mounts.iter().rev() {
            let Some(source) = &mount.source else { continue };
            if let Ok(below) = path.strip_prefix(&mount.mount.path) {
                let is_root = below.as_os_str().is_empty();
                return Cow::Owned(if is_root { source.clone() } else { source.join(below) });
            }
        }
        Cow::Borrowed(path)
    }

    /// A node with its history.
    pub(crate) fn placed(&self, path: &Path) -> Option<&Placed> {
        self.nodes.get(&*self.stored(path))
    }

    /// Like `placed`, mutable.
    pub(crate) fn placed_mut(&mut self, path: &Path) -> Option<&mut Placed> {
        let path = self.stored(path).into_owned();
        self.nodes.get_mut(&path)
    }

    /// The paths of the entries of a directory.
    pub(crate) fn children(&self, directory: &Path) -> impl Iterator<Item = &PathBuf> {
        let directory = self.stored(directory).into_owned();
        self.nodes.keys().filter(move |path| path.parent() == Some(&*directory))
    }

    /// The top mount on exactly this path.
    pub(crate) fn mount_at(&self, path: &Path) -> Option<&MemoryMount> {
        self.mounts.iter().rfind(|mount| mount.mount.path == path)
    }

    /// Whether there is a mount on a path or below it.
    pub(crate) fn has_mounts(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| mount.mount.path.starts_with(path))
    }

    /// Mounts an empty file system on a directory.
    pub(crate) fn mount_empty(&mut self, mount: MountPoint) {
        let place = self.stored(&mount.path).into_owned();
        let covered = self.nodes.extract_if(.., |path, _| path.starts_with(&place)).collect();
        self.insert(&place, Node::Directory { mode: MEMORY_MODE });
        self.mounts.push(MemoryMount { mount, source: None, covered });
    }

    /// Bind-mounts a path at a mount point.
    pub(crate) fn mount_bound(&mut self, mount: MountPoint, source: &Path) {
        let source = Some(self.stored(source).into_owned());
        self.mounts.push(MemoryMount { mount, source, covered: Vec::new() });
    }

    /// Unmounts a path and everything below it, the latest first.
    pub(crate) fn end_mounts(&mut self, path: &Path) {
        while let Some(last) =
            self.mounts.iter().rposition(|mount| mount.mount.path.starts_with(path))
        {
            let ended = self.mounts.remove(last);
            if ended.source.is_none() {
                let place = self.stored(&ended.mount.path).into_owned();
                self.nodes.retain(|path, _| !path.starts_with(&place));
                self.nodes.extend(ended.covered);
            }
        }
    }

    /// Resolves a path below a path without links, following links.
    pub(crate) fn resolve_within(&self, root: &Path, path: &Path) -> Result<PathBuf, ErrorKind> {
        let root = self.resolve(root)?;
        let resolved = self.resolve(&root.join(path))?;
        if resolved.starts_with(&root) { Ok(resolved) } else { Err(ErrorKind::InvalidInput) }
    }
}

//! The tree behind the files in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use model::ports::files::{DirectoryChange, FileKind, FileVersion, FoundFile, Removed, draft_of};
use model::rotated_log::is_rotated_name;
use tokio::sync::mpsc;

use super::mounts::MemoryMount;

/// The number of links that Linux follows before it gives up.
const MOST_LINKS: usize = 40;
/// The error of a path that leaves its root, as on Linux.
const OUTSIDE: ErrorKind = ErrorKind::CrossesDevices;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Directory { mode: u32 },
    File { content: Vec<u8>, mode: u32 },
    Link(PathBuf),
    Special,
}

/// A node with its history.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) node: Node,
    /// The number of the change that created it.
    pub(crate) inode: u64,
    /// The number of the last change to it.
    changed: u64,
    /// Its user and group.
    pub(crate) owner: u32,
    pub(crate) group: u32,
}

#[derive(Debug)]
pub(crate) struct Tree {
    /// By path, without links and bind mounts.
    pub(crate) nodes: BTreeMap<PathBuf, Placed>,
    /// In the order of their creation.
    pub(crate) mounts: Vec<MemoryMount>,
    /// Paths that fail even if they exist.
    pub(crate) broken: BTreeMap<PathBuf, ErrorKind>,
    /// Directories that can be used, but not listed.
    pub(crate) unlisted: BTreeMap<PathBuf, ErrorKind>,
    /// The number of reads by file.
    pub(crate) reads: BTreeMap<PathBuf, usize>,
    /// The error of watching directories, if set.
    pub(crate) no_watches: Option<ErrorKind>,
    /// Whether no change events are sent.
    pub(crate) is_silent: bool,
    /// The number of size checks of log files.
    pub(crate) log_looks: usize,
    /// Whether compressions of logs fail for lack of space.
    pub(crate) is_full: bool,
    changes: u64,
    /// Watches by directory.
    listeners: Vec<(PathBuf, mpsc::UnboundedSender<DirectoryChange>)>,
}

/// Where path resolution begins, and whether it may leave that place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start<'a> {
    Root,
    /// Below a path without links, which resolution must never leave.
    Within(&'a Path),
}

impl Tree {
    /// The root only.
    pub(crate) fn new() -> Self {
        let mut tree = Self {
            nodes: BTreeMap::new(),
            mounts: Vec::new(),
            broken: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            reads: BTreeMap::new(),
            no_watches: None,
            is_silent: false,
            log_looks: 0,
            is_full: false,
            changes: 0,
            listeners: Vec::new(),
        };
        tree.insert(Path::new("/"), Node::Directory { mode: 0o755 });
        tree
    }

    /// The node at exactly this path, which has no links.
    pub(crate) fn at(&self, path: &Path) -> Option<&Node> {
        self.placed(path).map(|placed| &placed.node)
    }

    /// Puts a node at a path, as a new version of the existing one if that has the same kind.
    pub(crate) fn insert(&mut self, path: &Path, node: Node) {
        self.changes += 1;
        let path = &*self.stored(path);
        let same = self
            .nodes
            .get(path)
            .filter(|before| std::mem::discriminant(&before.node) == std::mem::discriminant(&node));
        let inode = same.map_or(self.changes, |before| before.inode);
        let (owner, group) = same.map_or((0, 0), |before| (before.owner, before.group));
        if !self.nodes.contains_key(path) {
            self.entries_changed(path);
        }
        let placed = Placed { node, inode, changed: self.changes, owner, group };
        self.nodes.insert(path.to_owned(), placed);
        self.notify_watches(path);
    }

    /// Replaces the content of a file by the same number of other bytes within one clock tick.
    pub(crate) fn swap_content(&mut self, path: &Path, new: Vec<u8>) {
        match self.placed_mut(path).map(|placed| &mut placed.node) {
            Some(Node::File { content, .. }) if content.len() == new.len() => *content = new,
            other => panic!("{} is {other:?}, not a file of that size", path.display()),
        }
    }

    /// Removes the node at a path from the tree, with everything below it.
    pub(crate) fn prune(&mut self, path: &Path) {
        let path = &*self.stored(path);
        let before = self.nodes.len();
        self.nodes.retain(|node, _| !node.starts_with(path) || node == Path::new("/"));
        if self.nodes.len() < before {
            self.listeners.retain(|(directory, _)| !directory.starts_with(path));
            self.changes += 1;
            self.entries_changed(path);
            self.notify_watches(path);
        }
    }

    /// A directory gets a new version when an entry is added or removed.
    fn entries_changed(&mut self, entry: &Path) {
        let directory = entry.parent().and_then(|parent| self.nodes.get_mut(parent));
        if let Some(directory) = directory {
            directory.changed = self.changes;
        }
    }

    /// Renames a path, with everything below it, replacing the target.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) {
        self.prune(to);
        let (from, to) = (&*self.stored(from), &*self.stored(to));
        let moved: Vec<PathBuf> =
            self.nodes.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moved {
            let placed = self.nodes.remove(&path).expect("its key was just there");
            let below = path.strip_prefix(from).expect("it starts so");
            // Joining an empty path would leave a slash at the end.
            let path = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
            self.nodes.insert(path, placed);
        }
        self.listeners.retain(|(directory, _)| !directory.starts_with(from));
        self.changes += 1;
        self.entries_changed(from);
        self.entries_changed(to);
        self.notify_watches(from);
        self.notify_watches(to);
    }

    fn notify_watches(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        if self.is_silent {
            return;
        }
        let change = DirectoryChange::Names([name.to_owned()].into());
        self.listeners.retain(|(directory, listener)| {
            directory != parent || listener.send(change.clone()).is_ok()
        });
    }

    /// Watches a directory.
    pub(crate) fn listen(
        &mut self,
        directory: &Path,
    ) -> Result<mpsc::UnboundedReceiver<DirectoryChange>, ErrorKind> {
        if let Some(kind) = self.no_watches {
            return Err(kind);
        }
        let (directory, node) = self.node(directory)?;
        if !matches!(node, Node::Directory { .. }) {
            return Err(ErrorKind::NotADirectory);
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listeners.push((directory, sender));
        Ok(receiver)
    }

    pub(crate) fn found(&self, path: &Path) -> Result<FoundFile, ErrorKind> {
        let (path, node) = self.node(path)?;
        let (kind, size) = match node {
            Node::File { content, .. } => (FileKind::File, content.len()),
            Node::Directory { .. } => (FileKind::Directory, 0),
            Node::Special | Node::Link(_) => (FileKind::Special, 0),
        };
        let placed = self.placed(&path).ok_or(ErrorKind::NotFound)?;
        let changed = (0, i64::try_from(placed.changed).unwrap_or(i64::MAX));
        let size = size as u64;
        let version =
            FileVersion { device: 1, inode: placed.inode, size, modified: changed, changed };
        Ok(FoundFile { kind, version })
    }

    pub(crate) fn write_durably(&mut self, path: &Path, content: &[u8]) -> Result<(), ErrorKind> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput);
        };
        let draft = parent.join(draft_of(&name.to_string_lossy()));
        if let Some(kind) = self.broken.get(&draft) {
            return Err(*kind);
        }
        let parent = self.make_directories(Start::Root, parent, 0o700)?;
        let (draft, place) =
            (parent.join(draft.file_name().expect("a draft has a name")), parent.join(name));
        self.insert(&draft, Node::File { content: content.to_owned(), mode: 0o600 });
        if let Some(kind) = self.broken.get(path) {
            return Err(*kind);
        }
        if let Some(Node::Directory { .. }) = self.at(&place) {
            return Err(ErrorKind::IsADirectory);
        }
        self.rename(&draft, &place);
        Ok(())
    }

    pub(crate) fn overwrite(
        &mut self,
        path: &Path,
        content: &[u8],
        mode: u32,
    ) -> Result<(), ErrorKind> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput);
        };
        if let Some(kind) = self.broken.get(path) {
            return Err(*kind);
        }
        let (parent, node) = self.node(parent)?;
        if !matches!(node, Node::Directory { .. }) {
            return Err(ErrorKind::NotADirectory);
        }
        let place = parent.join(name);
        match self.at(&place) {
            Some(Node::Directory { .. }) => return Err(ErrorKind::IsADirectory),
            Some(Node::Link(_) | Node::Special) => return Err(ErrorKind::InvalidInput),
            Some(Node::File { .. }) | None => {}
        }
        self.insert(&place, Node::File { content: content.to_owned(), mode });
        Ok(())
    }

    pub(crate) fn remove_written(&mut self, path: &Path) -> Result<(), ErrorKind> {
        match self.node(path) {
            Ok((path, Node::File { .. })) => {
                self.prune(&path);
                Ok(())
            }
            Ok((_, Node::Directory { .. })) => Err(ErrorKind::IsADirectory),
            Ok(_) => Err(ErrorKind::InvalidInput),
            Err(ErrorKind::NotFound) => Ok(()),
            Err(kind) => Err(kind),
        }
    }

    /// The path without links, of an existing node.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, ErrorKind> {
        self.walk(Start::Root, path, |_| false)
    }

    /// Creates missing directories of a path and returns it without links.
    pub(crate) fn make_directories(
        &mut self,
        start: Start<'_>,
        path: &Path,
        mode: u32,
    ) -> Result<PathBuf, ErrorKind> {
        let mut absent = Vec::new();
        let resolved = self.walk(start, path, |missing| {
            absent.push(missing.to_owned());
            true
        })?;
        for path in absent {
            self.insert(&path, Node::Directory { mode });
        }
        match self.at(&resolved) {
            Some(Node::Directory { .. }) => Ok(resolved),
            _ => Err(ErrorKind::AlreadyExists),
        }
    }

    /// Resolves a path through its links. Where a component is missing, `missing` decides whether to continue
    /// as if it were a directory.
    pub(crate) fn walk(
        &self,
        start: Start<'_>,
        path: &Path,
        mut missing: impl FnMut(&Path) -> bool,
    ) -> Result<PathBuf, ErrorKind> {
        let (mut here, fence) = match start {
            Start::Root => (PathBuf::from("/"), Path::new("/")),
            Start::Within(fence) if path.is_relative() => (fence.to_owned(), fence),
            Start::Within(_) => return Err(OUTSIDE),
        };
        let mut ahead: Vec<OsString> = parts(path);
        let mut links = 0;
        let mut in_directory = true;
        while let Some(part) = ahead.pop() {
            if !in_directory {
                return Err(ErrorKind::NotADirectory);
            }
            if part == ".." {
                here.pop();
            } else {
                let next = here.join(&part);
                match self.at(&next) {
                    Some(Node::Link(target)) => {
                        links += 1;
                        if links > MOST_LINKS {
                            // Too many links; the kind for it has no stable name.
                            return Err(ErrorKind::Other);
                        }
                        if target.is_absolute() {
                            here = PathBuf::from("/");
                        }
                        ahead.extend(parts(target));
                    }
                    Some(node) => {
                        in_directory = matches!(node, Node::Directory { .. });
                        here = next;
                    }
                    None if missing(&next) => here = next,
                    None => return Err(ErrorKind::NotFound),
                }
            }
            if !here.starts_with(fence) {
                return Err(OUTSIDE);
            }
        }
        Ok(here)
    }

    pub(crate) fn node(&self, path: &Path) -> Result<(PathBuf, &Node), ErrorKind> {
        if let Some(kind) = self.broken.get(path) {
            return Err(*kind);
        }
        let resolved = self.resolve(path)?;
        let node = self.at(&resolved).ok_or(ErrorKind::NotFound)?;
        Ok((resolved, node))
    }

    pub(crate) fn list(&self, directory: &Path) -> Result<Vec<String>, ErrorKind> {
        if let Some(kind) = self.unlisted.get(directory) {
            return Err(*kind);
        }
        let (directory, node) = self.node(directory)?;
        if !matches!(node, Node::Directory { .. }) {
            return Err(ErrorKind::NotADirectory);
        }
        let names = self.children(&directory).filter_map(|path| path.file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
        names.sort();
        Ok(names)
    }

    pub(crate) fn read(&mut self, path: &Path, limit: u64) -> Result<Vec<u8>, ErrorKind> {
        *self.reads.entry(path.to_owned()).or_default() += 1;
        match self.node(path)?.1 {
            Node::File { content, .. } if content.len() as u64 <= limit => Ok(content.clone()),
            Node::File { .. } => Err(ErrorKind::FileTooLarge),
            Node::Directory { .. } => Err(ErrorKind::IsADirectory),
            Node::Special | Node::Link(_) => Err(ErrorKind::InvalidInput),
        }
    }

    pub(crate) fn link(&mut self, target: &Path, link: &Path) -> Result<(), ErrorKind> {
        if let Some(kind) = self.broken.get(link) {
            return Err(*kind);
        }
        match self.node(target) {
            Ok(_) => {}
            Err(ErrorKind::NotFound) => return Ok(()),
            Err(kind) => return Err(kind),
        }
        let (Some(parent), Some(name)) = (link.parent(), link.file_name()) else {
            return Err(ErrorKind::AlreadyExists);
        };
        let path = self.make_directories(Start::Root, parent, 0o755)?.join(name);
        match self.at(&path) {
            None | Some(Node::Link(_)) => {
                self.insert(&path, Node::Link(target.to_owned()));
                Ok(())
            }
            Some(_) => Err(ErrorKind::AlreadyExists),
        }
    }

    /// Removes the node at a path directly in `root`, if it has the expected kind.
    pub(crate) fn remove(
        &mut self,
        root: &Path,
        path: &Path,
        is_meant: fn(&Node) -> bool,
    ) -> Result<Removed, ErrorKind> {
        if let Some(kind) = self.broken.get(path) {
            return Err(*kind);
        }
        let name = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if parent == root => name,
            _ => return Err(ErrorKind::InvalidInput),
        };
        let path = match self.resolve(root) {
            Ok(root) => root.join(name),
            Err(ErrorKind::NotFound) => return Ok(Removed::Before),
            Err(kind) => return Err(kind),
        };
        match self.at(&path) {
            None => Ok(Removed::Before),
            Some(node) if is_meant(node) => {
                self.prune(&path);
                Ok(Removed::Now)
            }
            Some(_) => Err(ErrorKind::InvalidInput),
        }
    }

    /// Removes the log of a container and its rotated files, following no link below the root.
    pub(crate) fn remove_log(&mut self, root: &Path, path: &Path) -> Result<Removed, ErrorKind> {
        if let Some(kind) = self.broken.get(path) {
            return Err(*kind);
        }
        let below = path.strip_prefix(root).map_err(|_| ErrorKind::InvalidInput)?;
        let name = below.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
        if below.components().count() != 3 {
            return Err(ErrorKind::InvalidInput);
        }
        let directory = match self.beneath(root, below.parent().expect("it has three parts")) {
            Err(ErrorKind::NotFound) => return Ok(Removed::Before),
            found => found?,
        };
        let rotated = format!("{name}.");
        let log = |path: &PathBuf| {
            let entry = path.file_name().unwrap_or_default().to_string_lossy();
            path.parent() == Some(&*directory) && (entry == name || entry.starts_with(&rotated))
        };
        let logs: Vec<PathBuf> = self.nodes.keys().filter(|path| log(path)).cloned().collect();
        let removed = if logs.is_empty() { Removed::Before } else { Removed::Now };
        for log in logs {
            if let Some(Node::Directory { .. }) = self.at(&log) {
                return Err(ErrorKind::IsADirectory);
            }
            self.prune(&log);
        }
        Ok(removed)
    }

    /// Removes one rotated file of a container's log, two directories below the root.
    pub(crate) fn remove_rotated_log(
        &mut self,
        root: &Path,
        path: &Path,
    ) -> Result<Removed, ErrorKind> {
        if let Some(kind) = self.broken.get(path) {
            return Err(*kind);
        }
        let below = path.strip_prefix(root).map_err(|_| ErrorKind::InvalidInput)?;
        let name = below.file_name().ok_or(ErrorKind::InvalidInput)?;
        if below.components().count() != 3 || !name.to_str().is_some_and(is_rotated_name) {
            return Err(ErrorKind::InvalidInput);
        }
        let directory = match self.beneath(root, below.parent().expect("it has three parts")) {
            Err(ErrorKind::NotFound) => return Ok(Removed::Before),
            found => found?,
        };
        let file = directory.join(name);
        match self.at(&file) {
            None => return Ok(Removed::Before),
            Some(Node::Directory { .. }) => return Err(ErrorKind::InvalidInput),
            Some(_) => {}
        }
        self.prune(&file);
        Ok(Removed::Now)
    }

    /// A path below a root that has only plain components and no link.
    pub(crate) fn beneath(&self, root: &Path, below: &Path) -> Result<PathBuf, ErrorKind> {
        let mut here = self.resolve(root)?;
        for part in below.components() {
            let Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput) };
            here.push(name);
            match self.at(&here) {
                None => return Err(ErrorKind::NotFound),
                // The error of Linux; the kind for it has no stable name.
                Some(Node::Link(_)) => return Err(ErrorKind::Other),
                Some(_) => {}
            }
        }
        Ok(here)
    }

    pub(crate) fn create_file(
        &mut self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), ErrorKind> {
        if let Some(kind) = self.broken.get(&root.join(below)) {
            return Err(*kind);
        }
        let name = below.file_name().ok_or(ErrorKind::InvalidInput)?;
        let directory = self.beneath(root, below.parent().unwrap_or(Path::new("")))?;
        let path = directory.join(name);
        if self.at(&path).is_some() {
            return Err(ErrorKind::AlreadyExists);
        }
        self.insert(&path, Node::File { content: Vec::new(), mode });
        Ok(())
    }

    pub(crate) fn read_end(
        &mut self,
        root: &Path,
        below: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, ErrorKind> {
        let whole = root.join(below);
        *self.reads.entry(whole.clone()).or_default() += 1;
        if let Some(kind) = self.broken.get(&whole) {
            return Err(*kind);
        }
        let path = self.beneath(root, below)?;
        match self.at(&path) {
            Some(Node::File { content, .. }) => {
                let from =
                    content.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
                Ok(content[from..].to_vec())
            }
            Some(Node::Directory { .. }) => Err(ErrorKind::IsADirectory),
            _ => Err(ErrorKind::InvalidInput),
        }
    }

    pub(crate) fn create(&mut self, root: &Path, below: &Path, mode: u32) -> Result<(), ErrorKind> {
        if let Some(kind) = self.broken.get(&root.join(below)) {
            return Err(*kind);
        }
        let root = self.make_directories(Start::Root, root, mode)?;
        self.make_directories(Start::Within(&root), below, mode).map(drop)
    }
}

/// The components of a path in reverse order.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    parts.rev().collect()
}

//! Files and directories in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::ports::files::{FileError, FileKind, HostFiles};

/// As many links as Linux follows before it gives up.
const MOST_LINKS: usize = 40;
/// How a path fails that leads out of where it must stay, as on Linux.
const OUTSIDE: ErrorKind = ErrorKind::CrossesDevices;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory { mode: u32 },
    File(Vec<u8>),
    Link(PathBuf),
    Special,
}

/// A file system in memory that starts with its root alone. Paths are absolute.
#[derive(Debug)]
pub struct MemoryFiles {
    tree: Mutex<Tree>,
}

#[derive(Debug)]
struct Tree {
    /// By path, free of links.
    nodes: BTreeMap<PathBuf, Node>,
    /// What fails whatever there is.
    broken: BTreeMap<PathBuf, ErrorKind>,
}

impl MemoryFiles {
    /// An empty file system.
    pub fn new() -> Self {
        let root = Node::Directory { mode: 0o755 };
        Self {
            tree: Mutex::new(Tree {
                nodes: BTreeMap::from([(PathBuf::from("/"), root)]),
                broken: BTreeMap::new(),
            }),
        }
    }

    /// Writes a file, and its directories where there are none.
    pub fn write(&self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) {
        self.put(path.as_ref(), Node::File(content.into()));
    }

    /// Makes a link to a target, which need not exist.
    pub fn put_link(&self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.put(path.as_ref(), Node::Link(target.into()));
    }

    /// Makes something that is neither file nor directory.
    pub fn special(&self, path: impl AsRef<Path>) {
        self.put(path.as_ref(), Node::Special);
    }

    /// Removes a file, or a directory with all that is in it.
    pub fn remove(&self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        self.tree().nodes.retain(|node, _| !node.starts_with(path) || node == Path::new("/"));
    }

    /// The content of a file, if there is one; faults aside.
    pub fn content(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        match self.tree().nodes.get(path.as_ref()) {
            Some(Node::File(content)) => Some(content.clone()),
            _ => None,
        }
    }

    /// The mode of a directory, if there is one.
    pub fn mode(&self, path: impl AsRef<Path>) -> Option<u32> {
        match self.tree().nodes.get(path.as_ref()) {
            Some(Node::Directory { mode }) => Some(*mode),
            _ => None,
        }
    }

    /// Makes every use of exactly this path fail, until [`MemoryFiles::repair`].
    pub fn fail(&self, path: impl Into<PathBuf>, kind: ErrorKind) {
        self.tree().broken.insert(path.into(), kind);
    }

    /// Makes a path work again.
    pub fn repair(&self, path: impl AsRef<Path>) {
        self.tree().broken.remove(path.as_ref());
    }

    fn put(&self, path: &Path, node: Node) {
        let mut tree = self.tree();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let parent = tree
            .make_directories(Start::Root, parent, 0o755)
            .unwrap_or_else(|kind| panic!("make {}: {kind}", parent.display()));
        let name = path.file_name().expect("a path that can be written has a name");
        tree.nodes.insert(parent.join(name), node);
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryFiles {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a walk begins, and whether it may leave that place.
#[derive(Debug, Clone, Copy)]
enum Start<'a> {
    Root,
    /// Below a path free of links, where the walk must stay at every step.
    Within(&'a Path),
}

impl Tree {
    /// The path without links, of something that exists.
    fn resolve(&self, path: &Path) -> Result<PathBuf, ErrorKind> {
        self.walk(Start::Root, path, |_| false)
    }

    /// Makes what is missing of a path and gives it without links.
    fn make_directories(
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
        self.nodes.extend(absent.into_iter().map(|path| (path, Node::Directory { mode })));
        match self.nodes.get(&resolved) {
            Some(Node::Directory { .. }) => Ok(resolved),
            _ => Err(ErrorKind::AlreadyExists),
        }
    }

    /// Goes along a path, through its links. Where there is nothing, `missing` says whether to go on
    /// as if there were a directory.
    fn walk(
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
                match self.nodes.get(&next) {
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

    fn node(&self, path: &Path) -> Result<(PathBuf, &Node), ErrorKind> {
        if let Some(kind) = self.broken.get(path) {
            return Err(*kind);
        }
        let resolved = self.resolve(path)?;
        let node = self.nodes.get(&resolved).ok_or(ErrorKind::NotFound)?;
        Ok((resolved, node))
    }

    fn list(&self, directory: &Path) -> Result<Vec<String>, ErrorKind> {
        let (directory, node) = self.node(directory)?;
        if !matches!(node, Node::Directory { .. }) {
            return Err(ErrorKind::NotADirectory);
        }
        let children = self.nodes.keys().filter(|path| path.parent() == Some(&*directory));
        let names = children.filter_map(|path| path.file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
        names.sort();
        Ok(names)
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ErrorKind> {
        match self.node(path)?.1 {
            Node::File(content) if content.len() as u64 <= limit => Ok(content.clone()),
            Node::File(_) => Err(ErrorKind::FileTooLarge),
            Node::Directory { .. } => Err(ErrorKind::IsADirectory),
            Node::Special | Node::Link(_) => Err(ErrorKind::InvalidInput),
        }
    }

    fn link(&mut self, target: &Path, link: &Path) -> Result<(), ErrorKind> {
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
        match self.nodes.get(&path) {
            None | Some(Node::Link(_)) => {
                self.nodes.insert(path, Node::Link(target.to_owned()));
                Ok(())
            }
            Some(_) => Err(ErrorKind::AlreadyExists),
        }
    }

    fn create(&mut self, root: &Path, below: &Path, mode: u32) -> Result<(), ErrorKind> {
        if let Some(kind) = self.broken.get(&root.join(below)) {
            return Err(*kind);
        }
        let root = self.make_directories(Start::Root, root, mode)?;
        self.make_directories(Start::Within(&root), below, mode).map(drop)
    }
}

/// The parts of a path, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    parts.rev().collect()
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(ErrorKind) -> FileError {
    let path = path.to_owned();
    move |kind| FileError { operation, path, source: io::Error::from(kind) }
}

#[async_trait]
impl HostFiles for MemoryFiles {
    async fn kind(&self, path: &Path) -> Result<FileKind, FileError> {
        let tree = self.tree();
        let (_, node) = tree.node(path).map_err(failed("inspect", path))?;
        Ok(match node {
            Node::File(_) => FileKind::File,
            Node::Directory { .. } => FileKind::Directory,
            Node::Special | Node::Link(_) => FileKind::Special,
        })
    }

    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        self.tree().list(directory).map_err(failed("list", directory))
    }

    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.tree().read(path, limit).map_err(failed("read", path))
    }

    async fn create_directory(
        &self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), FileError> {
        let path = root.join(below);
        self.tree().create(root, below, mode).map_err(failed("create directory", &path))
    }

    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        self.tree().link(target, link).map_err(failed("link", link))
    }
}

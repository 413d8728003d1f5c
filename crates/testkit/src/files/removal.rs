//! Removes the subjects of verdicts from the files in memory.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use model::pod_directory::PodEntry;
use model::ports::files::Removed;
use model::verdict::Subject;

use super::tree::{Node, Tree};

/// The number of path components from the directories of pods to a volume.
const NAMES_OF_A_VOLUME: usize = 4;

/// A removal.
#[derive(Debug)]
pub(super) struct Removal<'a> {
    pub(super) path: &'a Path,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    Pod,
    Volume,
    Log,
    RotatedLog,
    Link,
}

impl<'a> Removal<'a> {
    /// `None` for a subject that is not a file.
    pub(super) fn of(subject: &'a Subject) -> Option<Self> {
        let (path, kind) = match subject {
            Subject::PodLogs(path) => (path, Kind::Directory),
            Subject::PodDirectory(path) => (path, Kind::Pod),
            Subject::Volume(path) => (path, Kind::Volume),
            Subject::ContainerLog(path) => (path, Kind::Log),
            Subject::RotatedLog(path) => (path, Kind::RotatedLog),
            Subject::LogLink(path) => (path, Kind::Link),
            _ => return None,
        };
        Some(Self { path, kind })
    }

    pub(super) fn run(&self, tree: &mut Tree, root: &Path) -> io::Result<Removed> {
        let (path, is_directory) =
            (self.path, |node: &Node| matches!(node, Node::Directory { .. }));
        if self.kind == Kind::Log {
            return Ok(tree.remove_log(root, path)?);
        }
        if self.kind == Kind::RotatedLog {
            return Ok(tree.remove_rotated_log(root, path)?);
        }
        let root = match self.kind {
            Kind::Volume => &volume_root(root, path)?,
            _ => root,
        };
        if matches!(self.kind, Kind::Volume | Kind::Pod | Kind::Directory) && is_mounted(tree, path)
        {
            return Err(io::Error::new(ErrorKind::ResourceBusy, "something is mounted there"));
        }
        if self.kind == Kind::Pod && path.parent() == Some(root) {
            refuse_foreign(tree, path)?;
        }
        Ok(match self.kind {
            Kind::Link => tree.remove(root, path, |node| matches!(node, Node::Link(_)))?,
            _ => tree.remove(root, path, is_directory)?,
        })
    }
}

fn is_mounted(tree: &Tree, path: &Path) -> bool {
    tree.resolve(path).is_ok_and(|path| tree.has_mounts(&path))
}

/// The directory of a volume.
fn volume_root(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let below = path.strip_prefix(root).map_err(|_| ErrorKind::InvalidInput)?;
    let names: Vec<_> = below.iter().collect();
    if names.len() != NAMES_OF_A_VOLUME || names[1] != "volumes" || names.contains(&"..".as_ref()) {
        return Err(ErrorKind::InvalidInput.into());
    }
    Ok(path.parent().ok_or(ErrorKind::InvalidInput)?.to_owned())
}

/// A pod directory with an unknown entry is kept.
fn refuse_foreign(tree: &Tree, pod: &Path) -> io::Result<()> {
    let pod = match tree.resolve(pod) {
        Err(ErrorKind::NotFound) => return Ok(()),
        pod => tree.stored(&pod?).into_owned(),
    };
    let known = |below: &Path, node: &Node| match PodEntry::at(below) {
        PodEntry::Metadata => true,
        PodEntry::Layout => matches!(node, Node::Directory { .. }),
        PodEntry::Link => matches!(node, Node::Link(_)),
        PodEntry::Empty => match node {
            Node::Directory { .. } => tree.children(&pod.join(below)).next().is_none(),
            Node::File { content, .. } => content.is_empty(),
            Node::Link(_) | Node::Special => false,
        },
        PodEntry::Foreign => {
            below.ancestors().any(|above| PodEntry::at(above) == PodEntry::Metadata)
        }
    };
    for (path, placed) in &tree.nodes {
        let Ok(below) = path.strip_prefix(&pod) else { continue };
        if !below.as_os_str().is_empty() && !known(below, &placed.node) {
            let problem = format!("{}: it is not the agent's", below.display());
            return Err(io::Error::new(ErrorKind::DirectoryNotEmpty, problem));
        }
    }
    Ok(())
}

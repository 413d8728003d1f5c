//! Subpaths of volumes in memory.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use model::ports::volumes::{MountPoint, Subpath, SubpathError};
use model::volume::Place;

use super::{PARENT_MODE, beneath, make_directory, make_parent, other_mount};
use crate::files::{Node, Tree};

/// The state of a mount point before a bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    New,
    Same,
    Other,
}

pub(super) fn refuse_parents(path: &Path) -> io::Result<()> {
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.components().all(is_plain) { Ok(()) } else { Err(ErrorKind::InvalidInput.into()) }
}

/// Bind-mounts a path without links at a mount point, unless there is a mount already.
pub(super) fn bind_resolved(
    tree: &mut Tree,
    source: &Path,
    place: &Place,
    read_only: bool,
) -> io::Result<Bound> {
    let is_directory = matches!(tree.at(source), Some(Node::Directory { .. }));
    let target = make_target(tree, place, is_directory)?;
    let source = tree.stored(source).into_owned();
    if let Some(mounted) = tree.mount_at(&target) {
        let is_same = mounted.source.as_ref() == Some(&source);
        return Ok(if is_same { Bound::Same } else { Bound::Other });
    }
    let options = if read_only { "ro" } else { "rw" }.to_owned();
    let mount =
        MountPoint { path: target, fs_type: "memory".into(), root: source.clone(), options };
    tree.mount_bound(mount, &source);
    Ok(Bound::New)
}

pub(super) fn make_target(
    tree: &mut Tree,
    place: &Place,
    is_directory: bool,
) -> io::Result<PathBuf> {
    if is_directory {
        let found = beneath(tree, place);
        return Ok(match found {
            Ok(path) if matches!(tree.at(&path), Some(Node::Directory { .. })) => path,
            _ => make_directory(tree, place, PARENT_MODE)?,
        });
    }
    let name = place.below.file_name().ok_or(ErrorKind::InvalidInput)?;
    let path = make_parent(tree, place)?.join(name);
    match tree.at(&path) {
        None => tree.insert(&path, Node::File { content: Vec::new(), mode: 0o640 }),
        Some(Node::Link(_)) => return Err(ErrorKind::Other.into()),
        Some(_) => {}
    }
    Ok(path)
}

pub(super) fn bind(tree: &mut Tree, subpath: &Subpath) -> Result<(), SubpathError> {
    let path = &subpath.path;
    let prepare = |source| SubpathError::Prepare { path: path.clone(), source };
    let create = |kind: ErrorKind| SubpathError::Create { path: path.clone(), source: kind.into() };
    refuse_parents(path).map_err(prepare)?;
    let volume = tree.resolve(&subpath.volume).map_err(|kind| prepare(kind.into()))?;
    let mut missing = Vec::new();
    let mut existing = None;
    for ancestor in path.ancestors() {
        match tree.resolve_within(&volume, ancestor) {
            Err(ErrorKind::NotFound) => missing.extend(ancestor.file_name()),
            found => {
                existing = Some(found.map_err(|kind| prepare(kind.into()))?);
                break;
            }
        }
    }
    let mut source = existing.ok_or_else(|| prepare(ErrorKind::NotFound.into()))?;
    let Some(Node::Directory { mode }) = tree.at(&volume).cloned() else {
        return Err(prepare(ErrorKind::NotADirectory.into()));
    };
    for name in missing.into_iter().rev() {
        source.push(name);
        if tree.at(&source).is_some() {
            // A dangling link.
            return Err(create(ErrorKind::Other));
        }
        tree.insert(&source, Node::Directory { mode });
    }
    mount(tree, &source, &subpath.target).map_err(prepare)
}

fn mount(tree: &mut Tree, source: &Path, target: &Place) -> io::Result<()> {
    let is_directory =
        |tree: &Tree, path: &Path| matches!(tree.at(path), Some(Node::Directory { .. }));
    if let Ok(found) = beneath(tree, target)
        && is_directory(tree, &found) != is_directory(tree, source)
    {
        tree.end_mounts(&found);
        tree.prune(&found);
    }
    if bind_resolved(tree, source, target, false)? != Bound::Other {
        return Ok(());
    }
    let path = beneath(tree, target)?;
    tree.end_mounts(&path);
    if bind_resolved(tree, source, target, false)? == Bound::Other {
        return Err(other_mount());
    }
    Ok(())
}

pub(super) fn clean(tree: &mut Tree, subpaths: &Place, volume: &str) -> io::Result<()> {
    let place = subpaths.join(volume);
    let top = match beneath(tree, &place) {
        Err(ErrorKind::NotFound) => return remove_if_empty(tree, subpaths),
        top => top?,
    };
    tree.end_mounts(&top);
    let below: Vec<PathBuf> =
        tree.nodes.keys().filter(|path| path.starts_with(&top)).rev().cloned().collect();
    for path in below {
        let depth = path.strip_prefix(&top).map_or(0, |below| below.iter().count());
        let is_empty = match tree.at(&path) {
            Some(Node::Directory { .. }) => tree.children(&path).next().is_none(),
            Some(Node::File { content, .. }) => content.is_empty(),
            _ => false,
        };
        if depth > 2 || !is_empty {
            let problem = format!("{}: it is not empty", path.display());
            return Err(io::Error::new(ErrorKind::DirectoryNotEmpty, problem));
        }
        tree.prune(&path);
    }
    remove_if_empty(tree, subpaths)
}

fn remove_if_empty(tree: &mut Tree, place: &Place) -> io::Result<()> {
    match beneath(tree, place) {
        Err(ErrorKind::NotFound) => {}
        path => {
            let path = path?;
            if tree.children(&path).next().is_none() {
                tree.prune(&path);
            }
        }
    }
    Ok(())
}

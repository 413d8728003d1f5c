//! Block devices of pods in memory.

use std::io::{self, ErrorKind};
use std::path::Path;

use model::volume::{DevicePlaces, Place};

use super::{beneath, make_parent, other_mount, subpath};
use crate::files::{Node, Tree};

pub(super) fn map(tree: &mut Tree, device: &Path, places: &DevicePlaces) -> io::Result<()> {
    let source = tree.resolve(device)?;
    if subpath::bind_resolved(tree, &source, &places.map, false)? == subpath::Bound::Other {
        return Err(other_mount());
    }
    let name = places.link.below.file_name().ok_or(ErrorKind::InvalidInput)?;
    let path = make_parent(tree, &places.link)?.join(name);
    match tree.at(&path) {
        Some(Node::Link(target)) if target == device => return Ok(()),
        Some(Node::Link(_)) | None => {}
        Some(_) => return Err(ErrorKind::InvalidInput.into()),
    }
    tree.insert(&path, Node::Link(device.to_owned()));
    Ok(())
}

pub(super) fn unmap(tree: &mut Tree, places: &DevicePlaces) -> io::Result<()> {
    if let Some(path) = found(tree, &places.map)? {
        tree.end_mounts(&path);
        match tree.at(&path) {
            Some(Node::File { content, .. }) if content.is_empty() => tree.prune(&path),
            None => {}
            Some(_) => return Err(ErrorKind::InvalidInput.into()),
        }
        let parent = path.parent().filter(|parent| tree.children(parent).next().is_none());
        if let Some(parent) = parent.map(Path::to_owned) {
            tree.prune(&parent);
        }
    }
    // The link itself: `beneath` follows none.
    let parent = Place {
        root: places.link.root.clone(),
        below: places.link.below.parent().map(Path::to_owned).unwrap_or_default(),
    };
    let name = places.link.below.file_name().ok_or(ErrorKind::InvalidInput)?;
    let Some(path) = found(tree, &parent)?.map(|parent| parent.join(name)) else { return Ok(()) };
    match tree.at(&path) {
        Some(Node::Link(_)) => tree.prune(&path),
        None => {}
        Some(_) => return Err(ErrorKind::InvalidInput.into()),
    }
    Ok(())
}

fn found(tree: &Tree, place: &Place) -> io::Result<Option<std::path::PathBuf>> {
    match beneath(tree, place) {
        Err(ErrorKind::NotFound) => Ok(None),
        path => Ok(Some(path?)),
    }
}

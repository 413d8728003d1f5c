//! Files that become the content of a volume in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use model::ports::volumes::Written;
use model::volume::{Ownership, Payload, PayloadFile};

use super::give_to_group;
use crate::files::{Node, Tree};

type Files<'a> = BTreeMap<PathBuf, &'a PayloadFile>;

pub(super) fn write(
    tree: &mut Tree,
    volume: &Path,
    payload: &Payload,
    ownership: Option<Ownership>,
) -> io::Result<Written> {
    let files = cleaned(payload)?;
    let names: BTreeSet<OsString> =
        files.keys().filter_map(|path| path.iter().next()).map(ToOwned::to_owned).collect();
    let data = volume.join("..data");
    let old = match tree.at(&data) {
        Some(Node::Link(target)) => Some(target.clone()).filter(|target| is_timestamp(target)),
        None => None,
        Some(_) => return Err(ErrorKind::InvalidInput.into()),
    };
    for name in &names {
        if !matches!(tree.at(&volume.join(name)), None | Some(Node::Link(_))) {
            return Err(ErrorKind::AlreadyExists.into());
        }
    }
    let is_same = old.as_ref().is_some_and(|old| has_content(tree, &volume.join(old), &files));
    let current = if let Some(old) = old.filter(|_| is_same) {
        old
    } else {
        let new = stage(tree, volume, &files);
        if let Some(ownership) = ownership {
            give_to_group(tree, volume, ownership);
        }
        tree.prune(&data);
        tree.insert(&data, Node::Link(new.clone()));
        new
    };
    tidy(tree, volume, &current, &names);
    Ok(if is_same { Written::Same } else { Written::New })
}

/// Writes the files into a new directory.
fn stage(tree: &mut Tree, volume: &Path, files: &Files<'_>) -> PathBuf {
    let taken = |number: &usize| tree.at(&volume.join(timestamp(*number))).is_some();
    let new = timestamp((0..usize::MAX).find(|number| !taken(number)).unwrap_or_default());
    let directory = volume.join(&new);
    tree.insert(&directory, Node::Directory { mode: 0o755 });
    for (path, file) in files {
        for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            tree.insert(&directory.join(parent), Node::Directory { mode: 0o755 });
        }
        let (path, content) = (directory.join(path), file.content.to_vec());
        tree.insert(&path, Node::File { content, mode: file.mode });
        if let (Some(owner), Some(placed)) = (file.owner, tree.placed_mut(&path)) {
            placed.owner = owner;
        }
    }
    new
}

/// Creates missing links, and removes stale ones and the leftovers of a crash.
fn tidy(tree: &mut Tree, volume: &Path, current: &Path, names: &BTreeSet<OsString>) {
    for name in names {
        let (path, target) = (volume.join(name), Path::new("..data").join(name));
        if tree.at(&path) != Some(&Node::Link(target.clone())) {
            tree.prune(&path);
            tree.insert(&path, Node::Link(target));
        }
    }
    let entries: Vec<OsString> =
        tree.children(volume).filter_map(|path| path.file_name()).map(ToOwned::to_owned).collect();
    for name in entries {
        let path = volume.join(&name);
        let link = Node::Link(Path::new("..data").join(&name));
        let is_stale = tree.at(&path) == Some(&link) && !names.contains(&name);
        let is_old = is_timestamp(Path::new(&name)) && Path::new(&name) != current;
        if is_stale || is_old || name == "..data_tmp" || name == "..data_old" {
            tree.prune(&path);
        }
    }
}

fn timestamp(number: usize) -> PathBuf {
    PathBuf::from(format!("..1970_01_01_00_00_00.{number}"))
}

fn is_timestamp(name: &Path) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix("..")?.split_once('.'));
    name.is_some_and(|(time, random)| {
        let is_number = |part: &str| part.parse::<u64>().is_ok();
        time.split('_').count() == 6 && time.split('_').all(is_number) && is_number(random)
    })
}

fn has_content(tree: &Tree, directory: &Path, files: &Files<'_>) -> bool {
    let stored = tree.stored(directory).into_owned();
    let found: BTreeMap<PathBuf, &[u8]> = tree
        .nodes
        .iter()
        .filter_map(|(path, placed)| match &placed.node {
            Node::File { content, .. } => {
                Some((path.strip_prefix(&stored).ok()?.to_owned(), &**content))
            }
            _ => None,
        })
        .collect();
    matches!(tree.at(directory), Some(Node::Directory { .. }))
        && found.len() == files.len()
        && files.iter().all(|(path, file)| found.get(path) == Some(&&*file.content))
}

fn cleaned(payload: &Payload) -> io::Result<Files<'_>> {
    let mut files = Files::new();
    for (path, file) in &payload.files {
        let mut clean = PathBuf::new();
        for part in Path::new(path).components() {
            match part {
                Component::Normal(name) if name.len() <= 255 => clean.push(name),
                Component::CurDir => {}
                _ => return Err(ErrorKind::InvalidInput.into()),
            }
        }
        let clean_text = clean.to_string_lossy();
        if clean_text.is_empty() || clean_text.starts_with("..") || path.len() > 4096 {
            return Err(ErrorKind::InvalidInput.into());
        }
        files.insert(clean, file);
    }
    let is_directory =
        |path: &PathBuf| path.ancestors().skip(1).any(|above| files.contains_key(above));
    if files.keys().any(is_directory) {
        return Err(ErrorKind::InvalidInput.into());
    }
    Ok(files)
}

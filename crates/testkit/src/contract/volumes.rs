//! The contract of the port to the host's volumes.

mod content;
mod devices;
mod groups;
mod mounting;
mod removing;
mod subpaths;

use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use model::ports::files::{FileError, HostFiles};
use model::ports::volumes::{HostPathError, HostPathKind, VolumeHost};
use model::volume::Place;

use super::{Play, Report};
use content::{
    equal_payload_is_not_written_again_but_missing_links_are_made,
    leftovers_of_a_crash_are_removed, payload_is_read_through_links_with_its_modes,
    payload_leading_out_of_the_volume_is_refused,
    payload_over_a_foreign_file_is_refused_and_old_content_stays,
    payload_replaces_the_one_before_with_its_links, planted_links_are_not_followed_by_a_payload,
};
use devices::device_is_mapped_for_a_pod_and_taken_back;
use groups::{
    group_is_set_on_files_directories_and_links, group_is_set_on_new_payload,
    group_of_a_fitting_root_is_left_alone, other_mounts_keep_their_group,
};
use mounting::{
    bind_mount_shows_its_source_and_is_made_once, file_is_bound_to_a_file,
    huge_pages_of_another_size_are_refused, memory_is_mounted_once_and_covers_what_was_there,
    mounts_are_ended_with_those_below, mounts_of_a_missing_directory_are_none,
    shared_directory_keeps_its_mounts,
};
use removing::{
    mounted_volume_is_not_removed, pod_directory_with_a_foreign_file_is_kept_whole,
    pod_directory_with_empty_volumes_is_removed, volume_is_removed_with_its_content,
};
use subpaths::{
    file_in_a_volume_is_read_through_inner_links, links_inside_the_volume_lead_to_their_target,
    links_out_of_the_volume_are_refused, missing_directory_is_made_with_the_mode_of_the_root,
    subpath_mounts_are_cleaned_with_their_places, subpath_that_changed_is_mounted_again,
};

/// The environment of a case, created for each one.
pub trait Harness: Debug + Send + Sync {
    /// The volumes.
    fn volumes(&self) -> Arc<dyn VolumeHost>;

    /// The files of the same host.
    fn files(&self) -> Arc<dyn HostFiles>;

    /// An empty directory for this case; its path has no links.
    fn directory(&self) -> PathBuf;

    /// Writes a file, and creates its directories.
    fn write(&self, path: &Path, content: &[u8]);

    /// Creates a link to a target, which need not exist.
    fn put_link(&self, path: &Path, target: &Path);

    /// Creates a socket.
    fn put_socket(&self, path: &Path);

    /// Removes a file or link.
    fn remove(&self, path: &Path);

    /// Mode bits of a file or directory.
    fn mode(&self, path: &Path) -> u32;

    /// The group of a file, directory or link.
    fn group(&self, path: &Path) -> u32;
}

/// A case of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn Harness) -> Play<'a>,
}

/// Runs all cases, each in a new harness.
pub async fn run<W: Harness>(mut new_harness: impl FnMut() -> W) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        let harness = new_harness();
        reports.push(Report::of(case.name, (case.play)(&harness).await));
    }
    reports
}

cases! {
    directory_is_made_with_exactly_its_mode
    special_bits_of_a_directory_stay
    mount_point_outside_its_root_is_refused
    directories_are_listed_without_files_and_links
    host_path_must_be_of_its_kind
    host_path_is_made_where_its_kind_says_so
    memory_is_mounted_once_and_covers_what_was_there
    mounts_are_ended_with_those_below
    mounts_of_a_missing_directory_are_none
    huge_pages_of_another_size_are_refused
    bind_mount_shows_its_source_and_is_made_once
    file_is_bound_to_a_file
    device_is_mapped_for_a_pod_and_taken_back
    shared_directory_keeps_its_mounts
    payload_is_read_through_links_with_its_modes
    payload_replaces_the_one_before_with_its_links
    equal_payload_is_not_written_again_but_missing_links_are_made
    payload_leading_out_of_the_volume_is_refused
    payload_over_a_foreign_file_is_refused_and_old_content_stays
    planted_links_are_not_followed_by_a_payload
    leftovers_of_a_crash_are_removed
    group_is_set_on_files_directories_and_links
    group_of_a_fitting_root_is_left_alone
    other_mounts_keep_their_group
    group_is_set_on_new_payload
    missing_directory_is_made_with_the_mode_of_the_root
    links_inside_the_volume_lead_to_their_target
    links_out_of_the_volume_are_refused
    subpath_that_changed_is_mounted_again
    subpath_mounts_are_cleaned_with_their_places
    file_in_a_volume_is_read_through_inner_links
    volume_is_removed_with_its_content
    mounted_volume_is_not_removed
    pod_directory_with_empty_volumes_is_removed
    pod_directory_with_a_foreign_file_is_kept_whole
}

/// A mount point below the directory of a case.
fn place(harness: &dyn Harness, below: &str) -> Place {
    Place { root: harness.directory(), below: below.into() }
}

/// Like `place`, with its directory created.
async fn made(harness: &dyn Harness, below: &str) -> Result<Place> {
    let place = place(harness, below);
    harness.volumes().make_directory(&place, 0o755).await?;
    Ok(place)
}

/// The error of a call that must fail; it must name the path of the call.
fn refused<T: Debug>(result: Result<T, FileError>, path: &Path) -> Result<FileError> {
    match result {
        Ok(answer) => bail!("expected an error about {}, got {answer:?}", path.display()),
        Err(error) => {
            ensure!(error.path == path, "{error:?} is not about {}", path.display());
            ensure!(!error.operation.is_empty(), "{error:?} has no operation");
            Ok(error)
        }
    }
}

async fn directory_is_made_with_exactly_its_mode(harness: &dyn Harness) -> Result<()> {
    let (volumes, place) = (harness.volumes(), place(harness, "uid/volumes/plugin/data"));
    for mode in [0o777, 0o700, 0o700] {
        volumes.make_directory(&place, mode).await?;
        let found = harness.mode(&place.path()) & 0o7777;
        ensure!(found == mode, "{found:o}");
    }
    for parent in ["uid", "uid/volumes", "uid/volumes/plugin"] {
        let found = harness.mode(&harness.directory().join(parent)) & 0o7777;
        ensure!(found == 0o750, "{parent}: {found:o}");
    }
    Ok(())
}

async fn special_bits_of_a_directory_stay(harness: &dyn Harness) -> Result<()> {
    let (volumes, place) = (harness.volumes(), made(harness, "data").await?);
    volumes.make_directory(&place, 0o2777).await?;
    volumes.make_directory(&place, 0o777).await?;
    let found = harness.mode(&place.path()) & 0o7777;
    ensure!(found == 0o2777, "{found:o}");
    Ok(())
}

async fn mount_point_outside_its_root_is_refused(harness: &dyn Harness) -> Result<()> {
    let volumes = harness.volumes();
    made(harness, "outside/data").await?;
    made(harness, "root").await?;
    let root = harness.directory().join("root");
    harness.put_link(&root.join("link"), &harness.directory().join("outside"));
    for below in ["../outside/data", "link/data", "/outside/data"] {
        let place = Place { root: root.clone(), below: below.into() };
        let path = place.path();
        refused(volumes.make_directory(&place, 0o700).await, &path)?;
        refused(volumes.directories(&place).await, &path)?;
        refused(volumes.bind(&harness.directory(), &place, false).await, &path)?;
        refused(volumes.unmount(&place).await, &path)?;
        let memory = model::ports::volumes::FileSystem::Tmpfs { size: Some(65536), no_swap: false };
        refused(volumes.mount(&place, &memory).await, &path)?;
        refused(
            volumes.write_payload(&place, &content::payload(&[("a", "b")]), None).await,
            &path,
        )?;
    }
    ensure!(volumes.mounts(&harness.directory()).await?.is_empty());
    let data = harness.directory().join("outside/data");
    ensure!(harness.mode(&data) & 0o777 == 0o755);
    ensure!(harness.files().list(&data).await?.is_empty());
    Ok(())
}

async fn directories_are_listed_without_files_and_links(harness: &dyn Harness) -> Result<()> {
    let (volumes, top) = (harness.volumes(), place(harness, "top"));
    ensure!(volumes.directories(&top).await?.is_empty());
    for below in ["top/b", "top/a"] {
        made(harness, below).await?;
    }
    harness.write(&top.path().join("file"), b"text");
    harness.put_link(&top.path().join("link"), Path::new("a"));
    ensure!(volumes.directories(&top).await? == ["a", "b"]);
    Ok(())
}

async fn host_path_must_be_of_its_kind(harness: &dyn Harness) -> Result<()> {
    let (volumes, root) = (harness.volumes(), harness.directory());
    made(harness, "directory").await?;
    harness.write(&root.join("file"), b"text");
    harness.put_socket(&root.join("socket"));
    harness.put_link(&root.join("link"), Path::new("directory"));
    let rows = [
        ("directory", HostPathKind::Directory, None),
        ("directory", HostPathKind::DirectoryOrCreate, None),
        ("link", HostPathKind::Directory, None),
        ("file", HostPathKind::File, None),
        ("file", HostPathKind::FileOrCreate, None),
        ("socket", HostPathKind::Socket, None),
        ("missing", HostPathKind::Any, None),
        ("file", HostPathKind::Directory, Some("directory")),
        ("file", HostPathKind::DirectoryOrCreate, Some("directory")),
        ("missing", HostPathKind::Directory, Some("directory")),
        ("directory", HostPathKind::File, Some("file")),
        ("directory", HostPathKind::FileOrCreate, Some("file")),
        ("missing", HostPathKind::File, Some("file")),
        ("file", HostPathKind::Socket, Some("socket file")),
        ("file", HostPathKind::CharDevice, Some("character device")),
        ("file", HostPathKind::BlockDevice, Some("block device")),
    ];
    for (name, kind, expected) in rows {
        let path = root.join(name);
        let found = match volumes.check_host_path(&path, kind).await {
            Ok(()) => None,
            Err(HostPathError::WrongKind { path: named, expected }) if named == path => {
                Some(expected)
            }
            Err(error) => bail!("{name} as {kind:?}: {error}"),
        };
        ensure!(found == expected, "{name} as {kind:?}: {found:?}");
    }
    let up = root.join("directory/../file");
    ensure!(volumes.check_host_path(&up, HostPathKind::File).await.is_err());
    Ok(())
}

async fn host_path_is_made_where_its_kind_says_so(harness: &dyn Harness) -> Result<()> {
    let (volumes, root) = (harness.volumes(), harness.directory());
    let (directory, file) = (root.join("new/directory"), root.join("new/file"));
    let without_parent = root.join("missing/file");
    volumes.check_host_path(&directory, HostPathKind::DirectoryOrCreate).await?;
    volumes.check_host_path(&file, HostPathKind::FileOrCreate).await?;
    ensure!(harness.mode(&directory) & 0o7777 == 0o755, "{:o}", harness.mode(&directory));
    ensure!(harness.mode(&file) & 0o7777 == 0o644, "{:o}", harness.mode(&file));
    ensure!(harness.files().read(&file, 10).await?.is_empty());
    match volumes.check_host_path(&without_parent, HostPathKind::FileOrCreate).await {
        Err(HostPathError::File(error)) => ensure!(error.source.kind() == ErrorKind::NotFound),
        other => bail!("created without its directory: {other:?}"),
    }
    Ok(())
}

//! Volumes of this host: mounts, and the content of directories that containers may write to.

mod bind;
mod device;
mod helper_mount;
mod host_path;
mod listing;
mod memory_mount;
mod mount_table;
mod ownership;
mod payload;
mod place;
mod subpath;
mod unmount;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use blocking::{Call, Pool};
use model::ports::files::FileError;
use model::ports::volumes::{
    FileSystem, HostPathError, HostPathKind, MountPoint, Progress, Subpath, SubpathError,
    VolumeHost, Written,
};
use model::volume::{DevicePlaces, Ownership, Payload, Place};
use rustix::fs::{OFlags, fstat};
use rustix::mount::UnmountFlags;

use crate::{Host, program};
use helper_mount::Request;
use mount_table::MountTable;

/// The timeout of the walk over a volume, which may have millions of files.
const WALK: Duration = Duration::from_hours(24);

/// How long a server may take to unmount before a forced unmount.
const SERVER: Duration = Duration::from_mins(1);

/// The volumes of this host.
#[derive(Debug, Clone)]
pub struct HostVolumes {
    host: Host,
    /// The threads that wait for programs, and for unresponsive servers.
    programs: Arc<Pool>,
}

impl HostVolumes {
    pub(crate) fn new(host: Host) -> Self {
        Self { host, programs: Arc::new(program::pool()) }
    }

    /// The threads that wait for programs.
    pub fn pool(&self) -> &Pool {
        &self.programs
    }

    /// Runs an operation on a place.
    async fn at<T: Send + 'static>(
        &self,
        operation: &'static str,
        place: &Place,
        work: impl FnOnce(&Place) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileError> {
        let (path, place) = (place.path(), place.clone());
        self.host.call(operation, &path, move |_| work(&place)).await
    }

    async fn mount_by_program(
        &self,
        place: &Place,
        file_system: &FileSystem,
        request: Request,
    ) -> Result<(), FileError> {
        let failed = |source| FileError { operation: "mount", path: place.path(), source };
        let found = self.at("list mounts of", place, |place| {
            drop(place::open_place(place, place::NAMED | OFlags::DIRECTORY)?);
            let path = place::real_path(place)?;
            let fs_type = MountTable::read()?.at(&path).map(|line| line.mount.fs_type.clone());
            Ok((path, fs_type))
        });
        let target = match found.await? {
            (_, Some(fs_type)) if request.is_kind(&fs_type) => return Ok(()),
            (_, Some(_)) => return Err(failed(memory_mount::other_mount())),
            (path, None) => path,
        };
        if let FileSystem::Device { device, fs_type, read_only, .. } = file_system {
            let prepared =
                helper_mount::prepare_device(&self.programs, device, fs_type, *read_only);
            prepared.await.map_err(failed)?;
        }
        request.mount(&self.programs, &target).await.map_err(failed)
    }
}

/// The path of a directory as in the mount table.
fn real(directory: &Path) -> io::Result<Option<PathBuf>> {
    let found = |path: io::Result<PathBuf>| match path {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        path => path.map(Some),
    };
    // The mount itself is not accessed: its server may be unresponsive.
    if let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) {
        let Some(parent) = found(parent.canonicalize())? else { return Ok(None) };
        let path = parent.join(name);
        if MountTable::read()?.at(&path).is_some() {
            return Ok(Some(path));
        }
    }
    found(directory.canonicalize())
}

fn mounts(directory: &Path) -> io::Result<Vec<MountPoint>> {
    let Some(real) = real(directory)? else { return Ok(Vec::new()) };
    let table = MountTable::read()?;
    let named = |mut mount: MountPoint| {
        // With the path that the caller knows.
        if let Ok(below) = mount.path.strip_prefix(&real) {
            mount.path = if below.as_os_str().is_empty() {
                directory.to_owned()
            } else {
                directory.join(below)
            };
        }
        mount
    };
    Ok(table.within(&real).into_iter().map(|line| named(line.mount.clone())).collect())
}

fn is_on_server(place: &Place) -> io::Result<bool> {
    let Ok(path) = place::real_path(place) else { return Ok(false) };
    let table = MountTable::read()?;
    Ok(table.at(&path).is_some_and(|line| line.mount.fs_type.starts_with("nfs")))
}

#[async_trait]
impl VolumeHost for HostVolumes {
    async fn mounts(&self, below: &Path) -> Result<Vec<MountPoint>, FileError> {
        self.host.call("list mounts below", below, mounts).await
    }

    async fn directories(&self, place: &Place) -> Result<Vec<String>, FileError> {
        self.at("list", place, listing::directories).await
    }

    async fn make_directory(&self, place: &Place, mode: u32) -> Result<(), FileError> {
        let work = move |place: &Place| place::make_directory(place, mode).map(drop);
        self.at("create directory", place, work).await
    }

    async fn exists(&self, place: &Place) -> Result<bool, FileError> {
        let work = |place: &Place| match place::open_place(place, place::NAMED) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            opened => opened.map(|_| true),
        };
        self.at("stat", place, work).await
    }

    async fn make_file(&self, place: &Place) -> Result<(), FileError> {
        let work = |place: &Place| place::make_target(place, false).map(drop);
        self.at("create file", place, work).await
    }

    async fn mount(&self, place: &Place, file_system: &FileSystem) -> Result<(), FileError> {
        if let Some(request) = Request::of(file_system) {
            return self.mount_by_program(place, file_system, request).await;
        }
        let file_system = file_system.clone();
        let work = move |place: &Place| match &file_system {
            FileSystem::HugePages { page_size } => memory_mount::mount_huge_pages(place, page_size),
            FileSystem::Tmpfs { size, no_swap } => {
                memory_mount::mount_tmpfs(place, *size, *no_swap)
            }
            FileSystem::Nfs { .. } | FileSystem::Device { .. } => {
                Err(place::refused("a program mounts it"))
            }
        };
        self.at("mount", place, work).await
    }

    async fn bind(&self, source: &Path, place: &Place, read_only: bool) -> Result<(), FileError> {
        let source = source.to_owned();
        self.at("bind mount", place, move |place| bind::bind(&source, place, read_only)).await
    }

    async fn map_device(&self, device: &Path, places: &DevicePlaces) -> Result<(), FileError> {
        let (device, owned) = (device.to_owned(), places.clone());
        let work = move |_: &Path| device::map(&device, &owned);
        self.host.call("map device at", &places.link.path(), work).await
    }

    async fn unmap_device(&self, places: &DevicePlaces) -> Result<(), FileError> {
        for attached in
            self.at("look for loop devices of", &places.map, device::attached_loops).await?
        {
            helper_mount::detach(&self.programs, &attached).await.map_err(|source| FileError {
                operation: "detach",
                path: attached,
                source,
            })?;
        }
        let owned = places.clone();
        let work = move |_: &Path| device::unmap(&owned);
        self.host.call("unmap device at", &places.link.path(), work).await
    }

    async fn unmount(&self, place: &Place) -> Result<(), FileError> {
        let path = place.path();
        let end = |flags| {
            let place = place.clone();
            move |_: &Path| unmount::end(&place, flags)
        };
        if !self.at("list mounts of", place, is_on_server).await? {
            return self.host.call("unmount", &path, end(UnmountFlags::empty())).await;
        }
        let work = end(UnmountFlags::empty());
        let ended = self.host.call_within(SERVER, "unmount", &path, work).await;
        if !ended.as_ref().is_err_and(|error| error.source.kind() == io::ErrorKind::TimedOut) {
            return ended;
        }
        // On other threads: the unmount waits for the server.
        let (call, work) = (
            Call { operation: "unmount", subject: &path, limit: SERVER },
            end(UnmountFlags::FORCE | UnmountFlags::DETACH),
        );
        let subject = path.clone();
        let forced = self.programs.run(call, move || work(&subject)).await;
        let forced = forced.unwrap_or_else(|error| Err(error.into()));
        forced.map_err(|source| FileError { operation: "unmount", path, source })
    }

    async fn write_payload(
        &self,
        place: &Place,
        payload: &Payload,
        ownership: Option<&Ownership>,
    ) -> Result<Written, FileError> {
        let (payload, ownership) = (payload.clone(), ownership.copied());
        let work = move |place: &Place| payload::write(place, &payload, ownership);
        self.at("write files of", place, work).await
    }

    async fn set_ownership(
        &self,
        place: &Place,
        ownership: &Ownership,
        progress: Progress,
    ) -> Result<(), FileError> {
        let (path, place, ownership) = (place.path(), place.clone(), *ownership);
        let work = move |_: &Path| {
            ownership::apply(place::open_place(&place, place::LISTED)?, ownership, &*progress)
        };
        self.host.call_within(WALK, "set the group of", &path, work).await
    }

    async fn group(&self, place: &Place) -> Result<u32, FileError> {
        let work = |place: &Place| Ok(fstat(&place::open_place(place, place::NAMED)?)?.st_gid);
        self.at("stat", place, work).await
    }

    async fn check_host_path(&self, path: &Path, kind: HostPathKind) -> Result<(), HostPathError> {
        let wrong = self.host.call("stat", path, move |path| host_path::check(path, kind)).await?;
        match wrong {
            Some(expected) => Err(HostPathError::WrongKind { path: path.to_owned(), expected }),
            None => Ok(()),
        }
    }

    async fn bind_subpath(&self, subpath: &Subpath) -> Result<(), SubpathError> {
        let (target, owned) = (subpath.target.path(), subpath.clone());
        let work = move |_: &Path| Ok(subpath::bind(&owned));
        let done = self.host.call("bind mount", &target, work).await;
        done.unwrap_or_else(|error| {
            Err(SubpathError::Prepare { path: subpath.path.clone(), source: error.source })
        })
    }

    async fn clean_subpaths(&self, subpaths: &Place, volume: &str) -> Result<(), FileError> {
        let volume = volume.to_owned();
        self.at("clean", subpaths, move |subpaths| subpath::clean(subpaths, &volume)).await
    }

    async fn read_in_volume(
        &self,
        volume: &Path,
        path: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, FileError> {
        let (whole, volume, path) = (volume.join(path), volume.to_owned(), path.to_owned());
        self.host.call("read", &whole, move |_| subpath::read(&volume, &path, limit)).await
    }

    async fn share_mounts(&self, directory: &Path) -> Result<(), FileError> {
        self.host.call("share mounts of", directory, bind::share).await
    }
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;

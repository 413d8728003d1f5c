//! Rotation of log files: sizes, names, compression.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use blocking::Call;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::ports::files::FileError;
use model::ports::log_files::{Cancel, LogFile, LogFiles, Written};
use model::rotated_log::{compressed_name, unfinished_name};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, ResolveFlags, Stat, Timespec, Timestamps,
    fchmod, fstat, futimens, openat2, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::HostLogs;
use crate::beneath::{NAMES_OF_A_LOG, open_directory};
use crate::calls::{call, within};

/// How much is compressed between two checks for cancellation.
const CHUNK: usize = 64 * 1024;

/// Log text shrinks to a tenth; higher levels gain little and take several times as long.
const LEVEL: u32 = 3;

/// The base timeout of a compression, without the time for its bytes.
const SHORTEST_LIMIT: Duration = Duration::from_secs(30);

/// The assumed minimum compression speed in bytes per second.
const SLOWEST: u64 = 4 << 20;

#[async_trait]
impl LogFiles for HostLogs {
    async fn size(&self, file: &Path) -> Result<u64, FileError> {
        call(self.watches.pool(), "stat log", file, |file| {
            let (directory, name) = place(file)?;
            let stat = regular(&directory, name)?;
            Ok(size_of(&stat))
        })
        .await
    }

    async fn list(&self, log: &Path) -> Result<Vec<LogFile>, FileError> {
        call(self.watches.pool(), "list the files of the log", log, list).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        let to = to.to_owned();
        call(self.watches.pool(), "rename the log", from, move |from| {
            let (directory, old) = place(from)?;
            let new = name_beside(from, &to)?;
            regular(&directory, old)?;
            rename(&directory, old, new)
        })
        .await
    }

    async fn compress(&self, file: &Path, cancel: &Cancel) -> Result<u64, FileError> {
        let size = self.size(file).await?;
        let limit = SHORTEST_LIMIT + Duration::from_secs(size / SLOWEST);
        let compress = Call { operation: "compress the rotated log", subject: file, limit };
        let cancel = cancel.clone();
        within(self.watches.pool(), compress, move |file| run_compression(file, &cancel)).await
    }

    async fn watch(&self, log: &Path) -> Result<Written, FileError> {
        let watch = self.watches.watch_write(log).await?;
        Ok(watch.first_event().boxed())
    }

    fn local_time(&self, at: Timestamp) -> DateTime {
        at.to_zoned(TimeZone::system()).datetime()
    }
}

fn refuse<T>(problem: &str) -> io::Result<T> {
    Err(io::Error::new(ErrorKind::InvalidInput, problem))
}

/// The directory of a log file, opened without following links below the root, and the file name.
fn place(file: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let root = file.ancestors().nth(NAMES_OF_A_LOG).filter(|root| root.is_absolute());
    let (Some(root), Some(directory), Some(name)) = (root, file.parent(), file.file_name()) else {
        return refuse("it is not the path of a container's log");
    };
    let below = directory.strip_prefix(root).expect("an ancestor is a prefix");
    Ok((open_directory(root, below)?, name))
}

/// The name of a file in the directory of another.
fn name_beside<'a>(file: &Path, other: &'a Path) -> io::Result<&'a OsStr> {
    match other.file_name() {
        Some(name) if other.parent() == file.parent() => Ok(name),
        _ => refuse("it must stay in its directory"),
    }
}

/// The stat of a regular file; links are refused.
fn regular(directory: &OwnedFd, name: &OsStr) -> io::Result<Stat> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        return Ok(stat);
    }
    refuse("it is not a file")
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn list(log: &Path) -> io::Result<Vec<LogFile>> {
    let (directory, _) = place(log)?;
    let (mut files, mut buffer) = (Vec::new(), Vec::with_capacity(8192));
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        names.extend(entry?.file_name().to_str().ok().map(ToOwned::to_owned));
    }
    for name in names {
        match regular(&directory, OsStr::new(&name)) {
            Ok(stat) => files.push(LogFile { size: size_of(&stat), name }),
            // Not a file, or removed since.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
            }
            Err(error) => return Err(error),
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// Renames a file without replacing another.
fn rename(directory: &OwnedFd, old: &OsStr, new: &OsStr) -> io::Result<()> {
    match renameat_with(directory, old, directory, new, RenameFlags::NOREPLACE) {
        // Some file systems do not support the atomic check. Only the agent creates such names.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(directory, new, AtFlags::SYMLINK_NOFOLLOW)
        {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(Errno::NOENT) => Ok(renameat(directory, old, directory, new)?),
            Err(error) => Err(error.into()),
        },
        result => Ok(result?),
    }
}

/// Compresses a file in its directory; only a complete gzip file gets the final name, and only then the
/// original is removed.
fn run_compression(file: &Path, cancel: &Cancel) -> io::Result<u64> {
    let (directory, name) = place(file)?;
    let text = name.to_str().ok_or(ErrorKind::InvalidInput)?;
    let (draft, gzip) = (PathBuf::from(unfinished_name(text)), compressed_name(text));
    let made = write_gzip(&directory, Path::new(name), &draft, cancel);
    let named = made.and_then(|size| {
        rename(&directory, draft.as_os_str(), OsStr::new(&gzip))?;
        Ok(size)
    });
    if named.is_err() {
        // A full disk needs the space; a remaining draft is removed before the next rotation.
        unlinkat(&directory, &draft, AtFlags::empty()).ok();
    }
    let size = named?;
    unlinkat(&directory, name, AtFlags::empty())?;
    Ok(size)
}

fn write_gzip(directory: &OwnedFd, name: &Path, draft: &Path, cancel: &Cancel) -> io::Result<u64> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut from = File::from(openat2(directory, name, flags, Mode::empty(), resolve)?);
    let stat = fstat(&from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return refuse("it is not a file");
    }
    match unlinkat(directory, draft, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = File::from(openat2(directory, draft, flags, mode, resolve)?);
    fchmod(&to, mode)?;
    let mut encoder = GzEncoder::new(to, Compression::new(LEVEL));
    let mut chunk = vec![0; CHUNK];
    loop {
        if cancel.is_cancelled() {
            return Err(io::Error::new(ErrorKind::Interrupted, "it was cancelled"));
        }
        let length = from.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        encoder.write_all(&chunk[..length])?;
    }
    let to = encoder.finish()?;
    // The time of the last line: readers use it to skip files and to find the next one.
    let modified = Timespec { tv_sec: stat.st_mtime, tv_nsec: nanoseconds(&stat) };
    futimens(&to, &Timestamps { last_access: modified, last_modification: modified })?;
    // The original is removed next, so the compressed file must be on disk.
    to.sync_all()?;
    if cancel.is_cancelled() {
        return Err(io::Error::new(ErrorKind::Interrupted, "it was cancelled"));
    }
    Ok(size_of(&fstat(&to)?))
}

fn nanoseconds(stat: &Stat) -> i64 {
    i64::try_from(stat.st_mtime_nsec).unwrap_or(0)
}

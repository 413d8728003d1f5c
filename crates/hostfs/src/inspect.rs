//! Stats and reads files, including consistent reads of one version.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use model::ports::files::{Entry, FileError, FileKind, FileVersion, FoundFile};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

/// How often a read is repeated because the file changed.
const TRIES: usize = 3;

pub(crate) fn found(path: &Path) -> io::Result<FoundFile> {
    let metadata = std::fs::metadata(path)?;
    Ok(FoundFile { kind: kind(&metadata), version: version(&metadata) })
}

fn kind(metadata: &Metadata) -> FileKind {
    let kind = metadata.file_type();
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else {
        FileKind::Special
    }
}

fn version(metadata: &Metadata) -> FileVersion {
    FileVersion {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

pub(crate) fn entries(directory: &Path) -> io::Result<Vec<Entry>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut listing = Dir::new(rustix::fs::open(directory, flags, Mode::empty())?)?;
    let mut entries = Vec::new();
    while let Some(entry) = listing.read() {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        // Relative to the directory, which saves the path lookup.
        let stat = rustix::fs::statat(listing.fd()?, entry.file_name(), AtFlags::empty());
        let found = stat.map(|stat| found_by(&stat)).map_err(|error| FileError {
            operation: "stat",
            path: directory.join(&name),
            source: error.into(),
        });
        entries.push(Entry { name, found });
    }
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

fn found_by(stat: &Stat) -> FoundFile {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Special,
    };
    let nanoseconds = |of: u64| i64::try_from(of).unwrap_or_default();
    let version = FileVersion {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        changed: (stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
    };
    FoundFile { kind, version }
}

/// Opens a regular file, and nothing else: opening a pipe waits for its writer, and opening a device may have
/// side effects.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    refuse_other_kinds(&std::fs::metadata(path)?)?;
    // A pipe that replaced it since must not block either.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).expect("flags of open are small numbers");
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    refuse_other_kinds(&file.metadata()?)?;
    Ok(file)
}

fn refuse_other_kinds(metadata: &Metadata) -> io::Result<()> {
    match kind(metadata) {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(io::ErrorKind::IsADirectory.into()),
        FileKind::Special => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
        }
    }
}

/// The content of an open file. Its reported size is not trusted: the file may grow, and some files report
/// zero.
pub(crate) fn read(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let message = format!("larger than {limit} bytes");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
    };
    let size = file.metadata()?.size();
    if size > limit {
        return too_large();
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // One extra byte distinguishes "fits exactly" from "too long".
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit { too_large() } else { Ok(content) }
}

/// The content of a file that did not change during the read.
pub(crate) fn read_version(path: &Path, limit: u64) -> io::Result<(FileVersion, Vec<u8>)> {
    for _ in 0..TRIES {
        let file = open(path)?;
        let before = version(&file.metadata()?);
        let content = read(&file, limit)?;
        if version(&file.metadata()?) == before {
            return Ok((before, content));
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "it changes while it is read"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, mknodat};

    use super::*;

    #[test]
    fn pipe_is_refused_without_blocking() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(found(&path).unwrap().kind, FileKind::Special);
        assert_eq!(read_version(&path, 10).unwrap_err().to_string(), "it is not a regular file");
        // With a writer at the other end of the pipe, there would be data to read.
        let _both_ends = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(open(&path).is_err());
    }

    #[test]
    fn listed_entries_equal_individual_stats() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::write(path("b"), "some").unwrap();
        std::fs::create_dir(path("a")).unwrap();
        std::os::unix::fs::symlink(path("b"), path("c")).unwrap();
        std::os::unix::fs::symlink("nowhere", path("d")).unwrap();
        let entries = entries(root.path()).unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry.name.to_str().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        for entry in &entries[..3] {
            let path = root.path().join(&entry.name);
            assert_eq!(*entry.found.as_ref().unwrap(), found(&path).unwrap(), "{path:?}");
        }
        let dangling = entries[3].found.as_ref().unwrap_err();
        assert!(dangling.is_not_found() && dangling.path == path("d"), "{dangling:?}");
    }

    #[test]
    fn device_is_refused() {
        assert!(open("/dev/zero".as_ref()).is_err());
    }

    #[test]
    fn file_that_reports_size_zero_is_read() {
        let content = read(&open("/proc/self/cmdline".as_ref()).unwrap(), 1 << 20).unwrap();
        assert!(!content.is_empty());
    }

    #[test]
    fn file_changed_during_a_read_is_read_completely_or_not_at_all() {
        const MOST_WRITES: usize = 5000;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, "").unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = OpenOptions::new().append(true).open(&path).unwrap();
                // Bounded: a delayed reader must not fill the disk.
                for _ in 0..MOST_WRITES {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    file.write_all(&[b'x'; 1000]).unwrap();
                }
            });
            for _ in 0..100 {
                match read_version(&path, u64::MAX) {
                    Ok((version, content)) => assert_eq!(version.size, content.len() as u64),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::ResourceBusy),
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

//! Numbered append-only files for a journal.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::ports::files::FileError;
use model::ports::segments::{Segment, SegmentInfo, Segments};
use rustix::fs::{FallocateFlags, OFlags, fallocate};

/// The suffix of segments.
const SUFFIX: &str = ".jsonl";

/// The segments in a directory of the host: `00000001.jsonl` and so on.
#[derive(Debug, Clone)]
pub struct HostSegments {
    directory: PathBuf,
}

impl HostSegments {
    /// The segments in this directory, which is created with the first of them.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:08}{SUFFIX}"))
    }
}

/// The number in the name of a segment; `None` for other files.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let plain = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError { operation, path: path.to_owned(), source }
}

fn list(directory: &Path) -> io::Result<Vec<SegmentInfo>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut existing = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(number_of) else { continue };
        match entry.metadata() {
            Ok(found) if found.is_file() => {
                existing.push(SegmentInfo { number, size: found.len() });
            }
            // Not a file, or removed meanwhile.
            _ => {}
        }
    }
    existing.sort_unstable();
    Ok(existing)
}

impl Segments for HostSegments {
    fn list(&self) -> Result<Vec<SegmentInfo>, FileError> {
        list(&self.directory).map_err(failed("list", &self.directory))
    }

    fn append_to(&self, number: u64) -> Result<Arc<dyn Segment>, FileError> {
        let path = self.path(number);
        let open = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            let mut options = OpenOptions::new();
            options.create(true).append(true).mode(0o600);
            options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&path)
        };
        let file = open().map_err(failed("write", &path))?;
        let named = AtomicBool::new(false);
        Ok(Arc::new(HostSegment { file, directory: self.directory.clone(), named }))
    }

    fn read(&self, number: u64) -> Result<Box<dyn BufRead + Send>, FileError> {
        let path = self.path(number);
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let file = options.open(&path).map_err(failed("read", &path))?;
        Ok(Box::new(BufReader::new(file)))
    }

    fn remove(&self, number: u64) -> Result<(), FileError> {
        let path = self.path(number);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    fn beside(&self, name: &str) -> Arc<dyn Segments> {
        let ours = self.directory.file_name().unwrap_or_default().to_string_lossy();
        Arc::new(Self::new(self.directory.with_file_name(format!("{ours}-{name}"))))
    }
}

#[derive(Debug)]
struct HostSegment {
    file: File,
    directory: PathBuf,
    /// Whether its directory entry is on disk.
    named: AtomicBool,
}

impl Segment for HostSegment {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let size = self.file.metadata()?.len();
        match length.checked_sub(size) {
            None | Some(0) => self.file.set_len(size),
            Some(more) => Ok(fallocate(&self.file, FallocateFlags::KEEP_SIZE, size, more)?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if !self.named.swap(true, Ordering::Relaxed) {
            File::open(&self.directory)?.sync_all()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn reserved_space_is_allocated_without_changing_the_length() {
        let root = tempfile::tempdir().unwrap();
        let segments = HostSegments::new(root.path().to_owned());
        let segment = segments.append_to(1).unwrap();
        segment.append(b"text\n").unwrap();
        segment.reserve(1 << 20).unwrap();
        let taken =
            || std::fs::metadata(root.path().join("00000001.jsonl")).unwrap().blocks() * 512;
        assert!(taken() >= 1 << 20, "{} bytes", taken());
        assert_eq!(segments.list().unwrap(), [SegmentInfo { number: 1, size: 5 }]);
        segment.append(b"more\n").unwrap();
        assert_eq!(segments.list().unwrap(), [SegmentInfo { number: 1, size: 10 }]);
        segment.reserve(0).unwrap();
        assert!(taken() < 1 << 20, "{} bytes", taken());
        assert_eq!(segments.list().unwrap(), [SegmentInfo { number: 1, size: 10 }]);
    }

    #[test]
    fn segments_are_private_and_other_files_are_ignored() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("ferrolet/journal");
        let segments = HostSegments::new(directory.clone());
        segments.append_to(3).unwrap().append(b"text\n").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join("00000003.jsonl")), 0o600);
        for name in ["1.jsonl", "00000001.json", "+0000001.jsonl", "notes"] {
            std::fs::write(directory.join(name), "x").unwrap();
        }
        std::fs::create_dir(directory.join("00000009.jsonl")).unwrap();
        assert_eq!(segments.list().unwrap(), [SegmentInfo { number: 3, size: 5 }]);
        segments.beside("more").append_to(7).unwrap().append(b"text\n").unwrap();
        assert!(root.path().join("ferrolet/journal-more/00000007.jsonl").is_file());
        assert_eq!(segments.list().unwrap().len(), 1);
    }
}

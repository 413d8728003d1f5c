//! The rotated files of a log: `0.log.20261118-134200`, and `0.log.20261118-120000.gz` after compression.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use jiff::Timestamp;
use model::ports::logs::LogRequest;

use super::tail::last_lines;
use crate::beneath;

/// How many rotated files of a log are read. The agent and the upstream kubelet keep fewer.
const MOST_FILES: usize = 100;

/// The size of one read.
const CHUNK: usize = 64 * 1024;

/// The suffix of a compressed file.
const COMPRESSED: &str = ".gz";

/// A rotated file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RotatedName {
    /// The time of the rotation in its name.
    time: String,
    compressed: bool,
}

impl RotatedName {
    fn parse(log: &str, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(log)?.strip_prefix('.')?;
        let (time, compressed) = match rest.strip_suffix(COMPRESSED) {
            Some(time) => (time, true),
            None => (rest, false),
        };
        let is_digit = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (date, clock) = time.split_once('-')?;
        let is_time = date.len() == 8 && clock.len() == 6 && is_digit(date) && is_digit(clock);
        is_time.then(|| Self { time: time.to_owned(), compressed })
    }

    fn file_name(&self, log: &str) -> String {
        let ending = if self.compressed { COMPRESSED } else { "" };
        format!("{log}.{}{ending}", self.time)
    }
}

/// The rotated files in a directory listing, oldest first. A file that is being compressed appears twice; the
/// uncompressed one is read.
fn rotated_names(log: &str, names: impl Iterator<Item = String>) -> Vec<RotatedName> {
    let mut rotated: Vec<RotatedName> =
        names.filter_map(|name| RotatedName::parse(log, &name)).collect();
    rotated.sort();
    rotated.dedup_by(|later, earlier| later.time == earlier.time);
    let skipped = rotated.len().saturating_sub(MOST_FILES);
    rotated.split_off(skipped)
}

fn list(log: &Path) -> io::Result<Vec<(RotatedName, PathBuf)>> {
    let (Some(directory), Some(name)) =
        (log.parent(), log.file_name().and_then(|name| name.to_str()))
    else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in directory.read_dir()? {
        names.extend(entry?.file_name().into_string());
    }
    let rotated = rotated_names(name, names.into_iter());
    Ok(rotated.into_iter().map(|one| (one.clone(), directory.join(one.file_name(name)))).collect())
}

/// The rotated files after a given one.
#[derive(Debug, Default)]
pub(super) struct LaterFiles {
    /// Complete files, oldest first.
    pub(super) parts: Vec<Part>,
    /// The newest, if the runtime may still write its last lines.
    pub(super) last: Option<File>,
}

/// The rotated files after an open file of the log, which may be compressed or removed by now. A compressed
/// file keeps the time of its last line, which orders it.
pub(super) fn later_parts(log: &Path, open: &Metadata) -> io::Result<LaterFiles> {
    let (mut files, mut is_found) = (Vec::new(), false);
    for (name, path) in list(log)? {
        let Some((file, compressed)) = open_rotated(&name, &path)? else { continue };
        let found = file.metadata()?;
        if (found.dev(), found.ino()) == (open.dev(), open.ino()) {
            files.clear();
            is_found = true;
        } else if is_found || modified(&found) > modified(open) {
            files.push((file, compressed));
        }
    }
    let last = files.pop_if(|(_, compressed)| !*compressed).map(|(file, _)| file);
    let parts = files.into_iter().map(|(file, compressed)| Part::whole(file, compressed));
    Ok(LaterFiles { parts: parts.collect::<io::Result<_>>()?, last })
}

/// Opens a file that may be removed: a rotation removes the oldest file.
fn opened(path: &Path) -> io::Result<Option<File>> {
    match beneath::open_log(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a rotated file and returns whether it is compressed, which may have happened since the listing.
fn open_rotated(name: &RotatedName, path: &Path) -> io::Result<Option<(File, bool)>> {
    let file = opened(path)?;
    if file.is_some() || name.compressed {
        return Ok(file.map(|file| (file, name.compressed)));
    }
    let mut gzip = path.as_os_str().to_owned();
    gzip.push(COMPRESSED);
    Ok(opened(Path::new(&gzip))?.map(|file| (file, true)))
}

/// A range of a rotated file.
#[derive(Debug)]
pub(super) enum Part {
    Plain { file: File, position: u64, end: u64 },
    Compressed { decoder: Box<MultiGzDecoder<BufReader<File>>>, skip: u64 },
}

impl Part {
    /// A complete file.
    fn whole(file: File, compressed: bool) -> io::Result<Self> {
        Ok(if compressed {
            Self::compressed(file, 0)
        } else {
            let end = file.metadata()?.len();
            Self::Plain { file, position: 0, end }
        })
    }

    fn compressed(file: File, skip: u64) -> Self {
        Self::Compressed { decoder: Box::new(MultiGzDecoder::new(BufReader::new(file))), skip }
    }

    /// The last lines of a file, and their number.
    fn last(file: File, compressed: bool, lines: u64) -> io::Result<(Self, u64)> {
        if compressed {
            // Lines of compressed files are found only by reading everything, so the file is read twice.
            let again = file.try_clone()?;
            let count = count_lines(MultiGzDecoder::new(BufReader::new(file)))?;
            io::Seek::rewind(&mut &again)?;
            return Ok((Self::compressed(again, count.saturating_sub(lines)), count.min(lines)));
        }
        let size = file.metadata()?.len();
        let last = last_lines(lines, size, |at, block| file.read_exact_at(block, at))?;
        Ok((Self::Plain { file, position: last.range.start, end: last.range.end }, last.count))
    }

    /// The next bytes; empty at the end.
    pub(super) fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; CHUNK];
        match self {
            Self::Plain { file, position, end } => {
                let most =
                    usize::try_from(end.saturating_sub(*position)).unwrap_or(CHUNK).min(CHUNK);
                let length = file.read_at(&mut bytes[..most], *position)?;
                *position += length as u64;
                bytes.truncate(length);
            }
            Self::Compressed { decoder, skip } => loop {
                let length = decoder.read(&mut bytes)?;
                let skipped = skip_lines(&bytes[..length], skip);
                if length == 0 || skipped < length {
                    bytes.truncate(length);
                    bytes.drain(..skipped);
                    break;
                }
            },
        }
        Ok(bytes)
    }
}

/// The length of the lines that are to be skipped.
fn skip_lines(bytes: &[u8], skip: &mut u64) -> usize {
    let mut skipped = 0;
    while *skip > 0 {
        match bytes[skipped..].iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                skipped += end + 1;
                *skip -= 1;
            }
            None => return bytes.len(),
        }
    }
    skipped
}

fn count_lines(mut from: impl Read) -> io::Result<u64> {
    let mut bytes = vec![0; CHUNK];
    let mut count = 0;
    loop {
        let length = from.read(&mut bytes)?;
        if length == 0 {
            return Ok(count);
        }
        // There is one more piece than line ends.
        count += bytes[..length].split(|byte| *byte == b'\n').count() as u64 - 1;
    }
}

/// What is read before the current file of a log, oldest first. `current` is its inode: it may have been
/// rotated since it was opened. `lines` is the number of requested lines; `None` for all. A rotated file that
/// cannot be read hides itself and older ones, not the log.
pub(super) fn earlier_parts(
    log: &Path,
    current: (u64, u64),
    request: &LogRequest,
    mut lines: Option<u64>,
) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for (name, path) in list(log)?.into_iter().rev() {
        if lines == Some(0) {
            break;
        }
        let (file, compressed) = match open_rotated(&name, &path) {
            Ok(Some(opened)) => opened,
            Ok(None) => continue,
            Err(_) => break,
        };
        let found = file.metadata()?;
        if (found.dev(), found.ino()) == current {
            continue;
        }
        if request.since.is_some_and(|since| modified(&found) < since) {
            break;
        }
        match &mut lines {
            None => parts.push(Part::whole(file, compressed)?),
            Some(lines) => {
                let Ok((part, count)) = Part::last(file, compressed, *lines) else { break };
                parts.push(part);
                *lines -= count;
            }
        }
    }
    parts.reverse();
    Ok(parts)
}

/// The modification time of a file; the maximum if it is out of range.
fn modified(file: &Metadata) -> Timestamp {
    let nanoseconds = i32::try_from(file.mtime_nsec()).unwrap_or(0);
    Timestamp::new(file.mtime(), nanoseconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<String> {
        let names = all.iter().map(|name| (*name).to_owned());
        let rotated = rotated_names("0.log", names);
        rotated.iter().map(|one| one.file_name("0.log")).collect()
    }

    #[test]
    fn rotated_files_are_found_by_name_and_sorted_by_time() {
        let all = [
            "0.log",
            "0.log.20261118-134200",
            "0.log.20261117-000000.gz",
            "0.log.20261118-120000.gz",
            "0.log.20261118-134200.gz",
            "0.log.20261118-134200.tmp",
            "0.log.20261118-134200.gz.tmp",
            "1.log.20261118-134200",
            "0.log.2026118-134200",
            "0.log.x",
            "10.log.20261118-134200",
        ];
        let expected =
            ["0.log.20261117-000000.gz", "0.log.20261118-120000.gz", "0.log.20261118-134200"];
        assert_eq!(names(&all), expected);
    }

    #[test]
    fn file_that_was_compressed_since_it_was_listed_is_opened_as_a_gzip() {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("ns_pod_uid/main/0.log");
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        let name = RotatedName { time: "20261118-134200".to_owned(), compressed: false };
        let path = log.with_file_name(name.file_name("0.log"));
        assert!(open_rotated(&name, &path).unwrap().is_none());
        std::fs::write(log.with_file_name("0.log.20261118-134200.gz"), "gzip").unwrap();
        assert!(open_rotated(&name, &path).unwrap().unwrap().1);
        std::fs::write(&path, "plain").unwrap();
        assert!(!open_rotated(&name, &path).unwrap().unwrap().1);
    }

    #[test]
    fn lines_are_skipped_across_pieces() {
        let mut skip = 2;
        assert_eq!(skip_lines(b"a\nb", &mut skip), 3);
        assert_eq!(skip, 1);
        assert_eq!(skip_lines(b"b\nc\nd", &mut skip), 2);
        assert_eq!(skip, 0);
        assert_eq!(skip_lines(b"e\n", &mut skip), 0);
    }
}

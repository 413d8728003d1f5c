//! Reads a log file, once or following it.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blocking::Pool;
use model::ports::files::FileError;
use model::ports::logs::{Ended, LogRequest};

use super::notice::Notice;
use super::rotated::{LaterFiles, Part, earlier_parts, later_parts};
use super::tail::{LastLines, last_lines};
use super::text::Text;
use crate::beneath;
use crate::calls::call;
use crate::watch::Watches;

/// The size of one read.
const CHUNK: usize = 64 * 1024;

/// A log reader.
pub(super) struct Reader {
    path: PathBuf,
    /// Rotated files to read before the open one, oldest first.
    earlier: VecDeque<Part>,
    file: Arc<File>,
    position: u64,
    text: Text,
    until: ReadUntil,
    pool: Pool,
    /// Whether the last check found the file removed.
    was_removed: bool,
}

/// When reading ends.
enum ReadUntil {
    /// At a position in the file: later content was not requested.
    Position(u64),
    /// When the container has terminated and everything is read.
    Ended { ended: Ended, notice: Notice },
    /// The container has terminated; at the end of the file.
    Drained,
}

/// What to read at the end of a file.
enum Next {
    Nothing,
    /// The log was removed without a replacement.
    Removed,
    /// The file was replaced, and had been written before that.
    MoreOfThis,
    /// It was replaced: read rotated files, and then the new file.
    Other(Vec<Part>, File),
}

impl Reader {
    pub(super) async fn open(
        path: &Path,
        request: &LogRequest,
        follow: Option<Ended>,
        watches: &Watches,
    ) -> Result<Self, FileError> {
        // Before the first read, so that no later write is missed.
        let until = match follow {
            Some(ended) => {
                Some(ReadUntil::Ended { ended, notice: Notice::of(path, watches).await })
            }
            None => None,
        };
        let wanted = request.clone();
        let opened = call(watches.pool(), "read the log", path, move |path| open(path, &wanted));
        let Opened { earlier, file, range } = opened.await?;
        Ok(Self {
            path: path.to_owned(),
            earlier: earlier.into(),
            file: Arc::new(file),
            position: range.start,
            text: Text::new(request),
            until: until.unwrap_or(ReadUntil::Position(range.end)),
            pool: watches.pool().clone(),
            was_removed: false,
        })
    }

    /// The next text; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        loop {
            if self.text.is_full() {
                return Ok(None);
            }
            let text = match self.read_any().await? {
                Some(text) => text,
                None => match self.next_file().await? {
                    Some(text) => text,
                    None if self.is_over().await => return Ok(None),
                    None => continue,
                },
            };
            if !text.is_empty() {
                return Ok(Some(text));
            }
        }
    }

    /// The next text of rotated files, then of the open one; `None` at its end.
    async fn read_any(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let Some(mut part) = self.earlier.pop_front() else {
            let bytes = self.read().await?;
            return Ok(bytes.map(|bytes| self.text.push(&bytes)));
        };
        // The rest of a damaged file is skipped.
        let read = move |_: &Path| {
            let bytes = part.read().unwrap_or_default();
            Ok((part, bytes))
        };
        let (part, bytes) = call(&self.pool, "read the rotated log", &self.path, read).await?;
        if bytes.is_empty() {
            return Ok(Some(self.text.restart()));
        }
        self.earlier.push_front(part);
        Ok(Some(self.text.push(&bytes)))
    }

    /// The next bytes of the open file; `None` at its end.
    async fn read(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let most = match self.until {
            ReadUntil::Position(end) => {
                usize::try_from(end.saturating_sub(self.position)).unwrap_or(CHUNK).min(CHUNK)
            }
            ReadUntil::Ended { .. } | ReadUntil::Drained => CHUNK,
        };
        if most == 0 {
            return Ok(None);
        }
        let (file, position) = (Arc::clone(&self.file), self.position);
        let bytes = call(&self.pool, "read the log", &self.path, move |_| {
            let mut bytes = vec![0; most];
            let length = file.read_at(&mut bytes, position)?;
            bytes.truncate(length);
            Ok(bytes)
        })
        .await?;
        self.position += bytes.len() as u64;
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// At the end of the file: continues with its replacement, or at its start if it was truncated. Returns the
    /// text that this adds; `None` if there is no more to read.
    async fn next_file(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        if matches!(self.until, ReadUntil::Position(_)) {
            return Ok(None);
        }
        let (open, position) = (Arc::clone(&self.file), self.position);
        let next = call(&self.pool, "stat log", &self.path, move |path| {
            let old = open.metadata()?;
            let new = match beneath::open_log(path) {
                Ok(file) => file,
                // During a rotation, or after the removal of the log.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(if old.nlink() == 0 { Next::Removed } else { Next::Nothing });
                }
                Err(error) => return Err(error),
            };
            let found = new.metadata()?;
            let replaced = inode(&found) != inode(&old);
            Ok(if replaced && old.len() > position {
                Next::MoreOfThis
            } else if replaced {
                // A slow reader may be several rotations behind.
                let LaterFiles { parts, last } = later_parts(path, &old)?;
                Next::Other(parts, last.unwrap_or(new))
            } else if found.len() < position {
                Next::Other(Vec::new(), new)
            } else {
                Next::Nothing
            })
        })
        .await?;
        // After a rotation whose rotated file was removed, a new log may appear soon. So the removal counts only
        // after a second check.
        let is_over = matches!(next, Next::Removed) && self.was_removed;
        self.was_removed = matches!(next, Next::Removed);
        match next {
            Next::Removed if is_over => {
                self.until = ReadUntil::Drained;
                Ok(None)
            }
            Next::Nothing | Next::Removed => Ok(None),
            Next::MoreOfThis => Ok(Some(Vec::new())),
            Next::Other(parts, file) => {
                self.earlier = parts.into();
                self.file = Arc::new(file);
                self.position = 0;
                Ok(Some(self.text.restart()))
            }
        }
    }

    /// Nothing left to read: returns whether the log has ended. Waits if more may come.
    async fn is_over(&mut self) -> bool {
        let ReadUntil::Ended { ended, notice } = &mut self.until else {
            return true;
        };
        // Biased: the end is not delayed by notices, and the rest of the log is read after it.
        let has_ended = tokio::select! {
            biased;
            () = ended => true,
            () = notice.wait() => false,
        };
        if has_ended {
            self.until = ReadUntil::Drained;
        }
        false
    }
}

/// A log at its start position.
struct Opened {
    earlier: Vec<Part>,
    file: File,
    /// The range to read, unless the log is followed.
    range: Range<u64>,
}

/// Opens a log and the rotated files that are needed. Blocks.
fn open(path: &Path, request: &LogRequest) -> io::Result<Opened> {
    let file = beneath::open_log(path)?;
    let metadata = file.metadata()?;
    let size = metadata.len();
    let (range, missing) = match request.tail_lines {
        None => (0..size, None),
        Some(lines) => {
            let LastLines { range, count } =
                last_lines(lines, size, |at, block| file.read_exact_at(block, at))?;
            (range, Some(lines - count))
        }
    };
    let earlier = earlier_parts(path, inode(&metadata), request, missing)?;
    Ok(Opened { earlier, file, range })
}

fn inode(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

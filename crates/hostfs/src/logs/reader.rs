//! Reading a log file, once or as long as it is written.

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
use super::rotated::{Later, Part, earlier_parts, later_parts};
use super::tail::{LastLines, last_lines};
use super::text::Text;
use crate::beneath;
use crate::calls::call;
use crate::watch::Watches;

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// A log that is being read.
pub(super) struct Reader {
    path: PathBuf,
    /// Rotated files that are read before the open one, the oldest first.
    earlier: VecDeque<Part>,
    file: Arc<File>,
    position: u64,
    text: Text,
    until: Until,
    pool: Pool,
    /// Whether the file was found removed when it was last looked at.
    was_removed: bool,
}

/// When reading ends.
enum Until {
    /// At a place in the file: what comes later was not asked for.
    Position(u64),
    /// When the container has ended and all is read.
    Ended { ended: Ended, notice: Notice },
    /// The container has ended; at the end of what is there.
    Drained,
}

/// What to read at the end of a file.
enum Next {
    Nothing,
    /// It was removed, and no other one is in its place.
    Removed,
    /// It was replaced, but something had been written into it before.
    MoreOfThis,
    /// It was replaced: whole rotated files, and then another one.
    Other(Vec<Part>, File),
}

impl Reader {
    pub(super) async fn open(
        path: &Path,
        request: &LogRequest,
        follow: Option<Ended>,
        watches: &Watches,
    ) -> Result<Self, FileError> {
        // Before the first look, so that nothing is written unnoticed after it.
        let until = match follow {
            Some(ended) => Some(Until::Ended { ended, notice: Notice::of(path, watches).await }),
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
            until: until.unwrap_or(Until::Position(range.end)),
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

    /// The next text of rotated files, then of the one that is open; `None` at the end of that.
    async fn read_any(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let Some(mut part) = self.earlier.pop_front() else {
            let bytes = self.read().await?;
            return Ok(bytes.map(|bytes| self.text.push(&bytes)));
        };
        // The rest of a damaged file is left out.
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

    /// The next bytes of the file that is open; `None` at its end.
    async fn read(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let most = match self.until {
            Until::Position(end) => {
                usize::try_from(end.saturating_sub(self.position)).unwrap_or(CHUNK).min(CHUNK)
            }
            Until::Ended { .. } | Until::Drained => CHUNK,
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

    /// At the end of the file: goes on with the one that took its place, or with the same one from
    /// its start if it was cut. Gives what that adds to the text; `None` if there is no more to read.
    async fn next_file(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        if matches!(self.until, Until::Position(_)) {
            return Ok(None);
        }
        let (open, position) = (Arc::clone(&self.file), self.position);
        let next = call(&self.pool, "look at the log", &self.path, move |path| {
            let old = open.metadata()?;
            let new = match beneath::open_log(path) {
                Ok(file) => file,
                // Between the steps of a rotation, or after the log's removal.
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
                // A slow reader may be more than one rotation behind.
                let Later { parts, last } = later_parts(path, &old)?;
                Next::Other(parts, last.unwrap_or(new))
            } else if found.len() < position {
                Next::Other(Vec::new(), new)
            } else {
                Next::Nothing
            })
        })
        .await?;
        // A log that was rotated and whose rotated file was removed may be made again in a moment: seen twice, it was not.
        let is_over = matches!(next, Next::Removed) && self.was_removed;
        self.was_removed = matches!(next, Next::Removed);
        match next {
            Next::Removed if is_over => {
                self.until = Until::Drained;
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

    /// With nothing left to read: whether that was all. Waits for more if it may come.
    async fn is_over(&mut self) -> bool {
        let Until::Ended { ended, notice } = &mut self.until else {
            return true;
        };
        // Biased: an end is not missed for notices, and after it all that is there is still read.
        let has_ended = tokio::select! {
            biased;
            () = ended => true,
            () = notice.wait() => false,
        };
        if has_ended {
            self.until = Until::Drained;
        }
        false
    }
}

/// A log at its beginning.
struct Opened {
    earlier: Vec<Part>,
    file: File,
    /// What is read of the file, unless it is followed.
    range: Range<u64>,
}

/// Opens a log and as many of its rotated files as are needed. Blocks.
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

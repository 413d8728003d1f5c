//! The files of a log: which are deleted, which is compressed, and the name of the next one.

use jiff::ToSpan as _;
use jiff::civil::DateTime;
use model::ports::log_files::LogFile;
use model::rotated_log::{LogFileKind, RotatedName};

/// A rotated file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotatedFile {
    /// The suffix of its name.
    pub name: RotatedName,
    /// Its size in bytes.
    pub size: u64,
}

/// A file to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// Its name.
    pub file: String,
    /// Its size in bytes.
    pub size: u64,
    /// Why it is deleted.
    pub reason: Reason,
}

/// Why a file of a log is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The file is a leftover of a killed compression: a draft, or an original that is compressed
    /// already.
    Leftover,
    /// There are more rotated files than `containerLogMaxFiles` allows.
    MaxFiles,
    /// The logs of the pod take more than `logs.maxBytesPerPod`.
    PodLimit,
}

impl Reason {
    /// The rule in verdicts.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Leftover => "rotation-leftover",
            Self::MaxFiles => "log-max-files",
            Self::PodLimit => "pod-log-limit",
        }
    }
}

/// The files of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogDirectory {
    /// The size of the live file, if it exists.
    pub live: Option<u64>,
    /// Rotated files, oldest first.
    pub rotated: Vec<RotatedFile>,
    /// Files left by a killed agent.
    pub leftovers: Vec<Deletion>,
    /// The size of the draft of the current compression.
    pub draft: u64,
    /// Other files in the directory: logs of earlier instances.
    pub others: Vec<LogFile>,
}

impl LogDirectory {
    /// Sorts the files of a directory. `compressing` is the rotated file that is being compressed.
    pub fn read(log: &str, files: Vec<LogFile>, compressing: Option<RotatedName>) -> Self {
        let mut this = Self::default();
        let draft =
            compressing.map(|name| model::rotated_log::unfinished_name(&name.file_name(log)));
        for file in files {
            match LogFileKind::of(log, &file.name) {
                LogFileKind::Live => this.live = Some(file.size),
                LogFileKind::Rotated(name) => {
                    this.rotated.push(RotatedFile { name, size: file.size });
                }
                LogFileKind::Unfinished if draft.as_ref() == Some(&file.name) => {
                    this.draft = file.size;
                }
                LogFileKind::Unfinished => this.leftovers.push(leftover(file.name, file.size)),
                LogFileKind::Other => this.others.push(file),
            }
        }
        this.rotated.sort_by_key(|file| file.name);
        let mut doubled = Vec::new();
        for pair in this.rotated.windows(2) {
            // The plain file sorts first. Its gzip is complete: only a complete one has that name.
            if pair[0].name.time == pair[1].name.time {
                doubled.push(pair[0]);
            }
        }
        this.rotated.retain(|file| !doubled.contains(file));
        let doubled = doubled.iter().filter(|file| Some(file.name) != compressing);
        this.leftovers.extend(doubled.map(|file| leftover(file.name.file_name(log), file.size)));
        this
    }

    /// The files to delete so that the live file and `max_files - 1` rotated ones stay; the oldest is deleted
    /// first, the newest never.
    pub fn surplus(&self, log: &str, max_files: usize) -> Vec<Deletion> {
        let kept = max_files.saturating_sub(1).max(1);
        let oldest = self.rotated.len().saturating_sub(kept);
        let oldest = self.rotated[..oldest].iter().map(|file| Deletion {
            file: file.name.file_name(log),
            size: file.size,
            reason: Reason::MaxFiles,
        });
        self.leftovers.iter().cloned().chain(oldest).collect()
    }

    /// The next file to compress: the newest plain one except the last rotated, which readers may still read
    /// and the runtime may still write.
    pub fn compressible(&self) -> Option<RotatedName> {
        let (_, older) = self.rotated.split_last()?;
        older.iter().rev().find(|file| !file.name.compressed).map(|file| file.name)
    }

    /// The name of the next rotated file: the time, or later if a file has that or a later one. So names are in
    /// the order of rotations, even if clocks are set back.
    pub fn next_name(&self, now: DateTime) -> RotatedName {
        let now = now.with().subsec_nanosecond(0).build().unwrap_or(now);
        let newest = self.rotated.last().map(|file| file.name.time.saturating_add(1.second()));
        RotatedName::plain(newest.map_or(now, |newest| newest.max(now)))
    }

    /// The size of all rotated files.
    pub fn rotated_bytes(&self) -> u64 {
        self.rotated.iter().map(|file| file.size).sum()
    }

    /// The size of other files in the directory.
    pub fn other_bytes(&self) -> u64 {
        let leftovers: u64 = self.leftovers.iter().map(|file| file.size).sum();
        let others: u64 = self.others.iter().map(|file| file.size).sum();
        leftovers + others + self.draft
    }
}

fn leftover(file: String, size: u64) -> Deletion {
    Deletion { file, size, reason: Reason::Leftover }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

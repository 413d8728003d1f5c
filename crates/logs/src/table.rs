//! The files of all logs, as last listed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use model::ids::{ContainerId, PodName, PodUid};
use model::ports::log_files::Cancel;
use model::rotated_log::{LogFileKind, RotatedName, kind_by_name};

use crate::decide::directory::LogDirectory;
use crate::decide::pod_limit::{ContainerFiles, OldFile};

/// The log directory of a container: all its instances write there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogKey {
    pub(crate) uid: PodUid,
    pub(crate) container: Arc<str>,
}

/// A log for rotation.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) key: LogKey,
    pub(crate) id: ContainerId,
    pub(crate) pod: PodName,
    /// The live file.
    pub(crate) path: PathBuf,
    /// Its file name.
    pub(crate) name: String,
}

/// The disk usage of a container's logs, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogUse {
    /// The pod.
    pub uid: PodUid,
    /// Its namespace and name.
    pub pod: PodName,
    /// The container.
    pub container: Arc<str>,
    /// The file that the runtime writes.
    pub live: u64,
    /// Rotated files.
    pub rotated: u64,
    /// Files of earlier instances.
    pub others: u64,
}

impl LogUse {
    /// All of them.
    pub fn bytes(&self) -> u64 {
        self.live + self.rotated + self.others
    }
}

/// The known files of a directory.
#[derive(Debug)]
struct Entry {
    /// Written by the driver of the latest instance, and by its workers.
    log: Arc<Log>,
    is_running: bool,
    directory: LogDirectory,
    compressing: Option<(RotatedName, Cancel)>,
}

/// The files of all logs.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<LogKey, Entry>,
}

impl Table {
    /// A container was started. Its entry replaces that of earlier instances.
    pub(crate) fn start(&mut self, log: &Arc<Log>) {
        let before = self.entries.remove(&log.key);
        let (directory, compressing) =
            before.map(|entry| (entry.directory, entry.compressing)).unwrap_or_default();
        let entry = Entry { log: Arc::clone(log), is_running: true, directory, compressing };
        self.entries.insert(log.key.clone(), entry);
    }

    /// A container has terminated.
    pub(crate) fn end(&mut self, log: &Log) {
        if let Some(entry) = self.entry(log) {
            entry.is_running = false;
        }
    }

    /// Removes entries of removed containers of a pod, with their logs.
    pub(crate) fn retain_of(&mut self, uid: &PodUid, keep: impl Fn(&Arc<str>) -> bool) {
        self.entries.retain(|key, _| key.uid != *uid || keep(&key.container));
    }

    /// The entry of a log, unless a later instance has it.
    fn entry(&mut self, log: &Log) -> Option<&mut Entry> {
        self.entries.get_mut(&log.key).filter(|entry| entry.log.id == log.id)
    }

    pub(crate) fn store(&mut self, log: &Log, directory: LogDirectory) {
        if let Some(entry) = self.entry(log) {
            entry.directory = directory;
        }
    }

    pub(crate) fn store_size(&mut self, log: &Log, size: u64) {
        if let Some(entry) = self.entry(log) {
            entry.directory.live = Some(size);
        }
    }

    /// Marks the file that is being compressed.
    pub(crate) fn compress(&mut self, log: &Log, name: RotatedName) -> Cancel {
        let cancel = Cancel::default();
        if let Some(entry) = self.entry(log) {
            entry.compressing = Some((name, cancel.clone()));
        }
        cancel
    }

    pub(crate) fn compressed(&mut self, log: &Log) {
        if let Some(entry) = self.entries.get_mut(&log.key) {
            entry.compressing = None;
        }
    }

    /// The file that is being compressed.
    pub(crate) fn compressing(&self, key: &LogKey) -> Option<RotatedName> {
        self.entries.get(key)?.compressing.as_ref().map(|(name, _)| *name)
    }

    /// Stops the compression of a file, if it is in progress.
    pub(crate) fn cancel(&self, log: &Log, file: &str) {
        let compressing = self.entries.get(&log.key).and_then(|entry| entry.compressing.as_ref());
        if let Some((name, cancel)) = compressing
            && name.file_name(&log.name) == file
        {
            cancel.cancel();
        }
    }

    /// The logs of a pod with their files.
    pub(crate) fn of_pod(&self, uid: &PodUid) -> (Vec<Arc<Log>>, Vec<ContainerFiles>) {
        let of_pod = self.entries.iter().filter(|(key, _)| key.uid == *uid);
        of_pod.map(|(_, entry)| (Arc::clone(&entry.log), entry.files())).unzip()
    }

    /// The disk usage of all logs.
    pub(crate) fn used(&self) -> Vec<LogUse> {
        let used = self.entries.values().map(|entry| LogUse {
            uid: entry.log.key.uid.clone(),
            pod: entry.log.pod.clone(),
            container: Arc::clone(&entry.log.key.container),
            live: entry.directory.live.unwrap_or(0),
            rotated: entry.directory.rotated_bytes(),
            others: entry.directory.other_bytes(),
        });
        used.collect()
    }
}

impl Entry {
    fn files(&self) -> ContainerFiles {
        let LogDirectory { live, rotated, others, .. } = &self.directory;
        let live = live.unwrap_or(0);
        let mut files = ContainerFiles::default();
        let mut old: Vec<OldFile> = Vec::new();
        for file in rotated {
            let name = file.name.file_name(&self.log.name);
            old.push(OldFile { file: name, name: file.name, size: file.size });
        }
        if self.is_running {
            files.live = Some(live);
            files.newest = old.pop().map_or(0, |newest| newest.size);
        }
        for file in others {
            if let LogFileKind::Rotated(name) = kind_by_name(&file.name) {
                old.push(OldFile { file: file.name.clone(), name, size: file.size });
            }
        }
        files.rotated = old;
        let deletable: u64 = files.rotated.iter().map(|file| file.size).sum();
        let all = live + self.directory.rotated_bytes() + self.directory.other_bytes();
        files.fixed = all - deletable - files.newest - files.live.unwrap_or(0);
        files
    }
}

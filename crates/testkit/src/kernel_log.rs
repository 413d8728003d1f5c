//! The log of a kernel, in memory.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use model::ports::files::FileError;
use model::ports::kernel_log::{KernelLog, KernelLogItem, KernelLogReader};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};

/// How many lines are kept for slow readers.
const KEPT: usize = 512;

/// A log that a test writes.
#[derive(Debug)]
pub struct MemoryKernelLog {
    /// None is a failed read.
    lines: Sender<Option<KernelLogItem>>,
    is_denied: AtomicBool,
}

impl Default for MemoryKernelLog {
    fn default() -> Self {
        Self { lines: broadcast::channel(KEPT).0, is_denied: AtomicBool::new(false) }
    }
}

impl MemoryKernelLog {
    /// Writes lines of the kernel.
    pub fn write(&self, text: &str) {
        for line in text.lines() {
            self.send(KernelLogItem::Line { by_kernel: true, text: line.to_owned() });
        }
    }

    /// Writes a line of a program.
    pub fn write_as_program(&self, text: &str) {
        self.send(KernelLogItem::Line { by_kernel: false, text: text.to_owned() });
    }

    /// Overwrites lines before they are read.
    pub fn overrun(&self) {
        self.send(KernelLogItem::Overrun);
    }

    /// Fails the next read of each reader.
    pub fn fail(&self) {
        self.lines.send(None).ok();
    }

    /// Refuses to be opened from now on.
    pub fn deny(&self) {
        self.is_denied.store(true, Ordering::Relaxed);
    }

    /// How many readers there are.
    pub fn readers(&self) -> usize {
        self.lines.receiver_count()
    }

    fn send(&self, item: KernelLogItem) {
        // Without readers no line is missed.
        self.lines.send(Some(item)).ok();
    }
}

#[async_trait]
impl KernelLog for MemoryKernelLog {
    async fn open(&self) -> Result<Box<dyn KernelLogReader>, FileError> {
        if self.is_denied.load(Ordering::Relaxed) {
            let source = io::Error::from(ErrorKind::PermissionDenied);
            return Err(FileError { operation: "open", path: "/dev/kmsg".into(), source });
        }
        Ok(Box::new(Reader(self.lines.subscribe())))
    }
}

#[derive(Debug)]
struct Reader(Receiver<Option<KernelLogItem>>);

#[async_trait]
impl KernelLogReader for Reader {
    async fn next(&mut self) -> Result<KernelLogItem, FileError> {
        match self.0.recv().await {
            Ok(Some(item)) => Ok(item),
            Ok(None) => {
                let source = io::Error::other("input/output error");
                Err(FileError { operation: "read", path: "/dev/kmsg".into(), source })
            }
            Err(RecvError::Lagged(_)) => Ok(KernelLogItem::Overrun),
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::kernel_log::kernel_log_contract;

    #[tokio::test(start_paused = true)]
    async fn memory_adapter_passes_the_contract() {
        let log = MemoryKernelLog::default();
        kernel_log_contract(&log, |text| log.write_as_program(text)).await.unwrap();
        log.deny();
        assert!(log.open().await.is_err());
    }

    #[tokio::test]
    async fn slow_reader_has_an_overrun() {
        let log = MemoryKernelLog::default();
        let mut reader = log.open().await.unwrap();
        for _ in 0..=KEPT {
            log.write("line");
        }
        assert_eq!(reader.next().await.unwrap(), KernelLogItem::Overrun);
        assert!(matches!(reader.next().await.unwrap(), KernelLogItem::Line { .. }));
    }
}

//! The log of the kernel.

use std::fmt::Debug;

use async_trait::async_trait;

use super::files::FileError;

/// What a reader of the log gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelLogItem {
    /// A line.
    Line {
        /// Whether the kernel wrote it; programs may write lines too.
        by_kernel: bool,
        /// Its text.
        text: String,
    },
    /// Lines were overwritten before they were read.
    Overrun,
}

/// Opens the log.
#[async_trait]
pub trait KernelLog: Debug + Send + Sync {
    /// Opens the log at its end: lines that are written later are read.
    async fn open(&self) -> Result<Box<dyn KernelLogReader>, FileError>;
}

/// Reads the log in order.
#[async_trait]
pub trait KernelLogReader: Debug + Send {
    /// Waits for the next item. Cancel safe: no item is lost.
    async fn next(&mut self) -> Result<KernelLogItem, FileError>;
}

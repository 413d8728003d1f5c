//! The contract of kernel logs.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use model::ports::kernel_log::{KernelLog, KernelLogItem, KernelLogReader};

/// The limit of a wait. The kernel passes lines on at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// The next line that a program wrote for this contract.
async fn own_line(reader: &mut dyn KernelLogReader) -> Result<String> {
    let next = async {
        loop {
            if let KernelLogItem::Line { by_kernel, text } = reader.next().await?
                && text.starts_with("contract: ")
            {
                ensure!(!by_kernel, "a program wrote {text:?}");
                return Ok(text);
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.context("no line in time")?
}

/// Checks a log to which a program writes lines.
pub async fn kernel_log_contract(log: &dyn KernelLog, write: impl Fn(&str)) -> Result<()> {
    write("contract: before");
    let (mut one, mut other) = (log.open().await?, log.open().await?);
    write("contract: first");
    write("contract: second");
    // It begins at the end, and readers do not take lines from each other.
    for reader in [&mut one, &mut other] {
        let lines = [own_line(&mut **reader).await?, own_line(&mut **reader).await?];
        ensure!(lines == ["contract: first", "contract: second"], "{lines:?}");
    }
    let waiting = tokio::time::timeout(Duration::from_millis(50), own_line(&mut *one)).await;
    ensure!(waiting.is_err(), "there is no further line: {waiting:?}");
    write("contract: third");
    let line = own_line(&mut *one).await?;
    ensure!(line == "contract: third", "a cancelled wait lost nothing: {line}");
    Ok(())
}

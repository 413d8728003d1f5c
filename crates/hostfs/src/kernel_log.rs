//! The log of the kernel: `/dev/kmsg`.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::ports::files::FileError;
use model::ports::kernel_log::{KernelLog, KernelLogItem, KernelLogReader};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The device.
const KMSG: &str = "/dev/kmsg";

/// The kernel refuses to read a record into less; its longest records are half of this.
const BUFFER: usize = 16 << 10;

/// The log of this machine's kernel. A reader costs one descriptor, and is woken by the kernel.
#[derive(Debug, Clone)]
pub struct HostKernelLog {
    path: PathBuf,
}

impl Default for HostKernelLog {
    fn default() -> Self {
        Self { path: KMSG.into() }
    }
}

impl HostKernelLog {
    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> FileError {
        let path = self.path.clone();
        move |source| FileError { operation, path: path.clone(), source }
    }
}

#[async_trait]
impl KernelLog for HostKernelLog {
    async fn open(&self) -> Result<Box<dyn KernelLogReader>, FileError> {
        let device = open_at_end(&self.path).map_err(self.failed("open"))?;
        let device = watched(device).map_err(self.failed("watch"))?;
        Ok(Box::new(Reader { log: self.clone(), device, buffer: vec![0; BUFFER] }))
    }
}

fn open_at_end(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::seek(&device, SeekFrom::End(0))?;
    Ok(device)
}

fn watched(device: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    #[allow(unsafe_code, reason = "tokio has no other interface for a descriptor")]
    // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped.
    let watched = unsafe { AsyncFd::register_with_interest(device, Interest::READABLE) };
    Ok(watched?)
}

#[derive(Debug)]
struct Reader {
    log: HostKernelLog,
    device: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
}

#[async_trait]
impl KernelLogReader for Reader {
    async fn next(&mut self) -> Result<KernelLogItem, FileError> {
        loop {
            let mut ready = self.device.readable().await.map_err(self.log.failed("watch"))?;
            let buffer = &mut self.buffer;
            let read = ready.try_io(|device| Ok(rustix::io::read(device, &mut *buffer)?));
            match read {
                // Not readable after all.
                Err(_) => {}
                Ok(Ok(length)) => {
                    let record = String::from_utf8_lossy(&self.buffer[..length]);
                    if let Some(item) = line(&record) {
                        return Ok(item);
                    }
                }
                Ok(Err(error)) => match Errno::from_io_error(&error) {
                    Some(Errno::PIPE) => return Ok(KernelLogItem::Overrun),
                    Some(Errno::INTR) => {}
                    _ => return Err(self.log.failed("read")(error)),
                },
            }
        }
    }
}

/// The line of a record: `PRIORITY,NUMBER,MICROSECONDS,FLAGS[,...];TEXT`, followed by lines that begin with a space.
fn line(record: &str) -> Option<KernelLogItem> {
    let (head, rest) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let text = rest.lines().next().unwrap_or_default().to_owned();
    // The low three bits are the level. The kernel refuses its own facility, zero, to programs.
    Some(KernelLogItem::Line { by_kernel: priority >> 3 == 0, text })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::contract::kernel_log::kernel_log_contract;

    use super::*;

    #[test]
    fn record_is_split_into_facility_and_text() {
        let rows = [
            ("6,1,5140900,-;NET: Registered\n SUBSYSTEM=net\n", Some((true, "NET: Registered"))),
            ("12,339,5140900,-;written; by a program\n", Some((false, "written; by a program"))),
            ("30,1,2,c,caller=T1;text\n", Some((false, "text"))),
            ("no record", None),
            ("x,1,2,-;text\n", None),
        ];
        for (record, expected) in rows {
            let expected = expected
                .map(|(by_kernel, text)| KernelLogItem::Line { by_kernel, text: text.to_owned() });
            assert_eq!(line(record), expected, "{record:?}");
        }
    }

    // behaviour: OOM-6
    #[tokio::test]
    async fn missing_device_is_an_error_that_names_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("kmsg");
        let error = HostKernelLog { path: path.clone() }.open().await.unwrap_err();
        assert_eq!(error.to_string(), format!("open {}", path.display()));
        assert!(error.is_not_found());
    }

    #[tokio::test]
    async fn kernel_log_passes_the_contract() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // With its end, or the next line may continue it.
        let write = |text: &str| fs::write(KMSG, format!("<12>{text}\n")).unwrap();
        kernel_log_contract(&HostKernelLog::default(), write).await.unwrap();
    }
}

//! File systems that host programs mount: network and disk file systems.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use blocking::Pool;
use model::ports::volumes::FileSystem;

use super::place::refused;
use crate::program::run;

/// The timeout of a program: formatting a large disk takes long.
const LIMIT: Duration = Duration::from_mins(5);

/// The exit code of `blkid` if it found nothing.
const NOTHING_FOUND: i32 = 2;

/// How much of a disk must be readable before it is formatted: `blkid` finds nothing on a broken disk either.
const READABLE: u64 = 1 << 20;

/// The arguments of `mount`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    kind: String,
    source: String,
    options: String,
}

impl Request {
    /// `None` for file systems in memory, which need no program.
    pub(super) fn of(file_system: &FileSystem) -> Option<Self> {
        let (kind, source, read_only, options) = match file_system {
            FileSystem::Tmpfs { .. } | FileSystem::HugePages { .. } => return None,
            FileSystem::Nfs { server, path, read_only, options } => {
                let is_bare = server.contains(':') && !server.starts_with('[');
                let server = if is_bare { format!("[{server}]") } else { server.clone() };
                ("nfs".to_owned(), format!("{server}:{path}"), *read_only, options)
            }
            FileSystem::Device { device, fs_type, read_only, options } => {
                (fs_type.clone(), device.to_string_lossy().into_owned(), *read_only, options)
            }
        };
        let first = if read_only { "ro" } else { "rw" };
        let options: Vec<&str> =
            [first].into_iter().chain(options.iter().map(String::as_str)).collect();
        Some(Self { kind, source, options: options.join(",") })
    }

    /// Whether a mount has the requested file system type.
    pub(super) fn is_kind(&self, fs_type: &str) -> bool {
        fs_type == self.kind || (self.kind == "nfs" && fs_type == "nfs4")
    }

    /// Mounts it.
    pub(super) async fn mount(&self, programs: &Pool, target: &Path) -> io::Result<()> {
        let target = target.to_str().ok_or_else(|| refused("the path is not text"))?;
        let arguments = ["-t", &self.kind, "-o", &self.options, "--", &self.source, target];
        succeed(programs, "mount", &arguments).await
    }
}

/// Formats an empty device; checks the file system of another.
pub(super) async fn prepare_device(
    programs: &Pool,
    device: &Path,
    fs_type: &str,
    read_only: bool,
) -> io::Result<()> {
    if fs_type.is_empty() || !fs_type.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(refused("the kind of the file system is not a plain name"));
    }
    let path = device.to_str().ok_or_else(|| refused("the path is not text"))?;
    let found = code(programs, "blkid", &["-p", "-s", "TYPE", "-s", "PTTYPE", "--", path]).await?;
    if found != Some(NOTHING_FOUND) {
        return if read_only { Ok(()) } else { check(programs, path).await };
    }
    if read_only {
        return Err(refused("the disk is not formatted and cannot be, as it is mounted read-only"));
    }
    is_readable(device.to_owned()).await?;
    let options: &[&str] = match fs_type {
        "ext3" | "ext4" => &["-F", "-m0"],
        "xfs" => &["-f"],
        _ => &[],
    };
    let arguments: Vec<&str> = options.iter().copied().chain([path]).collect();
    succeed(programs, &format!("mkfs.{fs_type}"), &arguments).await
}

/// Detaches a loop device.
pub(super) async fn detach(programs: &Pool, device: &Path) -> io::Result<()> {
    let path = device.to_str().ok_or_else(|| refused("the path is not text"))?;
    succeed(programs, "losetup", &["--detach", path]).await
}

async fn is_readable(device: PathBuf) -> io::Result<()> {
    let work = move || {
        let mut start = Vec::new();
        std::fs::File::open(&device)?.take(READABLE).read_to_end(&mut start)?;
        if start.is_empty() { Err(refused("the disk is empty of bytes")) } else { Ok(()) }
    };
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Repairs a file system. Some types have no such program.
async fn check(programs: &Pool, device: &str) -> io::Result<()> {
    /// Uncorrected errors.
    const UNCORRECTED: i32 = 4;
    match code(programs, "fsck", &["-a", "--", device]).await {
        Ok(Some(code)) if code & UNCORRECTED != 0 => {
            Err(refused("fsck found errors that it could not correct"))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

async fn code(programs: &Pool, program: &str, arguments: &[&str]) -> io::Result<Option<i32>> {
    let ended = run(programs, OsStr::new(program), arguments, String::new(), LIMIT).await?;
    Ok(ended.ok_or(io::ErrorKind::TimedOut)?.status.code())
}

async fn succeed(programs: &Pool, program: &str, arguments: &[&str]) -> io::Result<()> {
    let ended = run(programs, OsStr::new(program), arguments, String::new(), LIMIT).await?;
    let ended = ended.ok_or(io::ErrorKind::TimedOut)?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(io::Error::other(format!("{program}: {}: {}", ended.status, said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_source_and_options() {
        let nfs = |server: &str| FileSystem::Nfs {
            server: server.to_owned(),
            path: "/exports".to_owned(),
            read_only: true,
            options: vec!["nfsvers=4.1".to_owned()],
        };
        let device = FileSystem::Device {
            device: "/dev/loop0".into(),
            fs_type: "ext4".to_owned(),
            read_only: false,
            options: Vec::new(),
        };
        let rows = [
            (nfs("server"), "nfs", "server:/exports", "ro,nfsvers=4.1"),
            (nfs("fd00::1"), "nfs", "[fd00::1]:/exports", "ro,nfsvers=4.1"),
            (device, "ext4", "/dev/loop0", "rw"),
        ];
        for (file_system, kind, source, options) in rows {
            let request = Request::of(&file_system).unwrap();
            let found = (&*request.kind, &*request.source, &*request.options);
            assert_eq!(found, (kind, source, options));
        }
        assert_eq!(Request::of(&FileSystem::Tmpfs { size: None, no_swap: true }), None);
    }
}

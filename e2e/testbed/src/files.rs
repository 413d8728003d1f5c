//! Files inside an instance, read from the host without starting a program.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;

/// The file tree of pid 1 of an instance.
///
/// Paths resolve as they do inside: an absolute symbolic link stays in the instance.
#[derive(Debug)]
pub(crate) struct Files {
    /// `/proc/<pid>` of pid 1. Once that process has ended, this is invalid, even if its pid is reused.
    init: OwnedFd,
    pid: u32,
}

impl Files {
    /// The files of the process that listens on this socket.
    pub(crate) fn of_listener(socket: &Path) -> io::Result<Self> {
        let listener = socket_peercred(UnixStream::connect(socket)?)?.pid;
        let pid = listener.as_raw_nonzero().get().unsigned_abs();
        let init = open(format!("/proc/{pid}"), DIRECTORY, Mode::empty())?;
        Ok(Self { init, pid })
    }

    /// The host's number of that process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let root = openat(&self.init, "root", DIRECTORY, Mode::empty())?;
        loop {
            let flags = flags | OFlags::CLOEXEC;
            match openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
                // Something was mounted or renamed meanwhile.
                Err(Errno::AGAIN) => {}
                opened => return Ok(opened?),
            }
        }
    }

    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::from(self.open(path, OFlags::RDONLY)?).read_to_end(&mut content)?;
        Ok(content)
    }

    pub(crate) fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.open(path, OFlags::PATH) {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn names_in(&self, directory: &Path) -> io::Result<Vec<String>> {
        let opened = match self.open(directory, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut names = Vec::new();
        for entry in Dir::new(opened)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn missing_paths_are_not_errors_except_for_a_read() {
        let directory = std::env::temp_dir().join(format!("testbed-files-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        // This process listens, so these are the files that it sees itself.
        let files = Files::of_listener(&socket).unwrap();
        std::fs::write(directory.join("file"), "content").unwrap();
        assert_eq!(files.read(&directory.join("file")).unwrap(), b"content");
        assert_eq!(files.names_in(&directory).unwrap(), ["file", "socket"]);
        assert!(files.exists(&socket).unwrap());
        for missing in [directory.join("missing"), directory.join("file/below")] {
            assert!(!files.exists(&missing).unwrap());
            assert!(files.names_in(&missing).unwrap().is_empty());
            files.read(&missing).unwrap_err();
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}

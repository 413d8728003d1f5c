//! The sockets of the agent.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, chmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The longest path of a Unix socket on Linux: the kernel's field has 108 bytes, including the terminating
/// zero.
pub const LONGEST_SOCKET_PATH: usize = 107;

/// The length of the accept queue.
const BACKLOG: i32 = 64;

/// Why a socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long for clients.
    #[error(
        "socket path {path} has {length} bytes, the system takes {LONGEST_SOCKET_PATH} at most; \
         use a shorter root directory",
        path = .path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
    /// The path is not a socket, and stays unchanged.
    #[error("{} exists and is not a socket", .0.display())]
    InTheWay(PathBuf),
    /// Another process accepts connections there.
    #[error("another process listens on {}", .0.display())]
    Taken(PathBuf),
    /// A system call failed.
    #[error("{step} socket {path}", path = .path.display())]
    System {
        /// The failed step.
        step: &'static str,
        /// The socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The mode of private sockets.
const OWN: u32 = 0o600;

/// A listening socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file: a later file at the path is not removed.
    identity: (u64, u64),
}

/// Listens at a path, only for the agent's user. A stale socket is replaced.
pub fn listen(path: &Path) -> Result<Socket, SocketError> {
    listen_with_mode(path, OWN)
}

/// Like [`listen`], with a file mode. A process that may write to the socket may connect.
pub fn listen_with_mode(path: &Path, mode: u32) -> Result<Socket, SocketError> {
    let length = path.as_os_str().len();
    if length > LONGEST_SOCKET_PATH {
        return Err(SocketError::TooLong { path: path.to_owned(), length });
    }
    let failed = |step: &'static str| {
        move |source: io::Error| SocketError::System { step, path: path.to_owned(), source }
    };
    clear(path)?;
    // In separate steps: no client can connect before `listen`, and by then the mode is set.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|error| failed("open")(error.into()))?;
    let address = SocketAddrUnix::new(path).map_err(|error| failed("name")(error.into()))?;
    rustix::net::bind(&socket, &address).map_err(|error| failed("bind")(error.into()))?;
    chmod(path, Mode::from_raw_mode(mode))
        .map_err(|error| failed("set the mode of")(error.into()))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|error| failed("listen on")(error.into()))?;
    let identity = identity(path).map_err(failed("stat"))?;
    Ok(Socket { listener: socket.into(), path: path.to_owned(), identity })
}

/// Removes a socket without a listener.
fn clear(path: &Path) -> Result<(), SocketError> {
    let failed =
        |step| move |source: io::Error| SocketError::System { step, path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("stat")(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::InTheWay(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::Taken(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed("remove the old"))
        }
        Err(error) => Err(failed("try the old")(error)),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Socket {
    /// The listener, in non-blocking mode for async runtimes.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // A remaining file is replaced at the next start.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn socket_is_private_and_removed_with_its_holder() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("agent.sock");
        let socket = listen(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        assert_eq!(socket.listener().unwrap().local_addr().unwrap().as_pathname(), Some(&*path));
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn socket_has_the_requested_mode_for_any_umask() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("kubelet.sock");
        for mode in [0o755, 0o666] {
            let _socket = listen_with_mode(&path, mode).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn only_stale_sockets_are_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("agent.sock");
        drop(UnixListener::bind(&path).unwrap());
        let first = listen(&path).unwrap();
        assert!(matches!(listen(&path), Err(SocketError::Taken(_))));
        UnixStream::connect(&path).unwrap();
        drop(first);
        std::fs::write(&path, "notes").unwrap();
        assert!(matches!(listen(&path), Err(SocketError::InTheWay(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"notes");
    }

    #[test]
    fn holder_does_not_remove_a_later_socket() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("agent.sock");
        let old = listen(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _new = listen(&path).unwrap();
        drop(old);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn overlong_socket_path_is_refused_with_its_length() {
        let root = tempfile::tempdir().unwrap();
        let space = LONGEST_SOCKET_PATH - root.path().as_os_str().len() - 1;
        let longest = root.path().join("x".repeat(space));
        let socket = listen(&longest).unwrap();
        UnixStream::connect(&longest).unwrap();
        drop(socket);
        let error = listen(&root.path().join("x".repeat(space + 1))).unwrap_err();
        assert!(error.to_string().contains("has 108 bytes"), "{error}");
    }
}

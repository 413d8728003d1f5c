//! The paths of the parts, and of an instance's files.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::control_plane::Component;
use crate::error::{AtPath, PathError};

/// Directories of the host that an instance covers with its own.
pub(crate) const MASKED: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// A unix socket address holds 108 bytes, the last of which ends the string.
const SOCKET_PATH_MAX: usize = 107;

/// Why the cache directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("neither XDG_CACHE_HOME nor HOME is set to an absolute path")]
    NoHome,
    #[error("cannot prepare it")]
    Prepare(#[source] PathError),
    #[error("{} lies below {mask}, which instances cover with a directory of their own: set XDG_CACHE_HOME to another place", path.display())]
    Masked { path: PathBuf, mask: &'static str },
    #[error("the socket path {} has {length} bytes, but {SOCKET_PATH_MAX} is the most a socket can have: set XDG_CACHE_HOME to a shorter path", path.display())]
    SocketPath { path: PathBuf, length: usize },
    #[error("{} is not plain text: set XDG_CACHE_HOME to another place", path.display())]
    NotText { path: PathBuf },
    #[error("{} is missing: run `make testbed`", path.display())]
    PartMissing { path: PathBuf },
}

/// `${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet`.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache of this user; made when absent. A relative path counts as not set.
    pub fn from_env() -> Result<Self, CacheError> {
        let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = set("XDG_CACHE_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".cache")))
            .ok_or(CacheError::NoHome)?;
        Self::at(&base.join("ferrolet"))
    }

    fn at(root: &Path) -> Result<Self, CacheError> {
        refuse_masked(root)?;
        fs::create_dir_all(root).at("make", root).map_err(CacheError::Prepare)?;
        // Links are resolved, so that a masked directory behind them is noticed.
        let root = fs::canonicalize(root).at("resolve", root).map_err(CacheError::Prepare)?;
        refuse_masked(&root)?;
        // The path appears in configuration files and messages.
        if root.to_str().is_none() {
            return Err(CacheError::NotText { path: root });
        }
        Ok(Self { root })
    }

    /// The directory of the instances' files, one directory per slot.
    pub fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }

    /// The directory of one instance, with checked lengths of its socket paths.
    pub(crate) fn instance(&self, slot: u8) -> Result<InstanceDir, CacheError> {
        let dir = InstanceDir { root: self.instances().join(slot.to_string()) };
        for path in [dir.init_socket(), dir.containerd_socket(), dir.ttrpc_socket()] {
            let length = path.as_os_str().len();
            if length > SOCKET_PATH_MAX {
                return Err(CacheError::SocketPath { path, length });
            }
        }
        Ok(dir)
    }

    /// The programs and images that `make testbed` builds.
    pub fn parts(&self) -> Parts {
        Parts { root: self.root.join("testbed") }
    }
}

fn refuse_masked(path: &Path) -> Result<(), CacheError> {
    match MASKED.into_iter().find(|mask| path.starts_with(mask)) {
        Some(mask) => Err(CacheError::Masked { path: path.to_owned(), mask }),
        None => Ok(()),
    }
}

/// The results of `make testbed` in the cache.
#[derive(Debug, Clone)]
pub struct Parts {
    root: PathBuf,
}

impl Parts {
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    pub fn cni(&self) -> PathBuf {
        self.root.join("cni")
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.bin().join(name)
    }

    /// Fails with the first missing program.
    pub(crate) fn check(&self) -> Result<(), CacheError> {
        let programs = ["containerd", "containerd-shim-runc-v2", "ctr", "runc"];
        let plugins = ["bridge", "host-local", "loopback", "portmap"];
        let programs = programs.into_iter().map(|name| self.program(name));
        let plugins = plugins.into_iter().map(|name| self.cni().join(name));
        match programs.chain(plugins).find(|path| !path.is_file()) {
            Some(path) => Err(CacheError::PartMissing { path }),
            None => Ok(()),
        }
    }

    /// Like `check`, for the programs of a control plane.
    pub(crate) fn check_control_plane(&self) -> Result<(), CacheError> {
        let mut programs =
            Component::ALL.iter().map(|component| component.program()).chain(["kubectl"]);
        match programs.find(|name| !self.program(name).is_file()) {
            Some(name) => Err(CacheError::PartMissing { path: self.program(name) }),
            None => Ok(()),
        }
    }

    /// Upstream's end-to-end suite, which `make conformance` builds.
    pub fn conformance(&self) -> PathBuf {
        self.root.join("conformance")
    }

    /// The parts of a virtual machine: its kernel, and its first program.
    pub fn vm(&self) -> PathBuf {
        self.root.join("vm")
    }

    /// The directory of the image archives.
    pub fn images_dir(&self) -> PathBuf {
        self.root.join("images")
    }

    /// The image archives, in name order; none at all is a missing part.
    pub(crate) fn images(&self) -> Result<Vec<PathBuf>, CacheError> {
        let dir = self.images_dir();
        let mut archives: Vec<PathBuf> = fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "tar"))
            .collect();
        archives.sort();
        if archives.is_empty() {
            return Err(CacheError::PartMissing { path: dir.join("*.tar") });
        }
        Ok(archives)
    }
}

/// The directory of one instance. Its name is short because it contains sockets.
#[derive(Debug, Clone)]
pub struct InstanceDir {
    root: PathBuf,
}

impl InstanceDir {
    pub(crate) fn open(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    pub(crate) fn init_socket(&self) -> PathBuf {
        self.root.join("init.sock")
    }

    pub fn containerd_socket(&self) -> PathBuf {
        self.root.join("containerd.sock")
    }

    pub(crate) fn ttrpc_socket(&self) -> PathBuf {
        self.root.join("containerd.sock.ttrpc")
    }

    /// The data of containerd: images and snapshots.
    pub(crate) fn containerd_root(&self) -> PathBuf {
        self.root.join("root")
    }

    /// The data of a control plane: its certificates and etcd's data.
    pub(crate) fn control_plane(&self) -> PathBuf {
        self.root.join("control-plane")
    }

    /// The output of spawned programs.
    pub fn logs(&self) -> PathBuf {
        self.root.join("log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_below_a_masked_directory_is_rejected() {
        let error = Cache::at(Path::new("/run/ferrolet-testbed-unit")).unwrap_err();
        assert!(!Path::new("/run/ferrolet-testbed-unit").exists());
        assert!(matches!(error, CacheError::Masked { mask: "/run", .. }), "{error}");
    }

    #[test]
    fn socket_paths_above_the_limit_are_rejected() {
        // The longest socket name below an instance's directory takes 34 bytes.
        let cache =
            |length: usize| Cache { root: PathBuf::from(format!("/{}", "x".repeat(length - 1))) };
        assert!(cache(73).instance(7).is_ok());
        let error = cache(74).instance(7).unwrap_err();
        assert!(matches!(error, CacheError::SocketPath { length: 108, .. }), "{error}");
    }

    #[test]
    fn missing_part_error_names_the_command_that_builds_it() {
        let parts = Parts { root: PathBuf::from("/nonexistent") };
        let text = parts.check().unwrap_err().to_string();
        assert_eq!(text, "/nonexistent/bin/containerd is missing: run `make testbed`");
        let text = parts.check_control_plane().unwrap_err().to_string();
        assert_eq!(text, "/nonexistent/bin/etcd is missing: run `make testbed`");
        let text = parts.images().unwrap_err().to_string();
        assert_eq!(text, "/nonexistent/images/*.tar is missing: run `make testbed`");
    }
}

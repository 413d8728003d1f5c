//! Kernel settings (sysctls).

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::text::read_text;

/// The directory of the settings.
const SETTINGS: &str = "/proc/sys";

/// The id map of processes in the initial user namespace.
const ALL_USERS: [u64; 3] = [0, 0, 4_294_967_295];

/// The settings of this kernel.
#[derive(Debug, Clone)]
pub struct KernelSettings {
    directory: PathBuf,
}

impl Default for KernelSettings {
    fn default() -> Self {
        Self { directory: SETTINGS.into() }
    }
}

impl KernelSettings {
    /// The settings in a directory, for tests.
    pub fn below(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The value of a setting with a name like `vm/overcommit_memory`.
    pub fn get(&self, name: &str) -> io::Result<i64> {
        let text = read_text(self.directory.join(name))?;
        text.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Sets a value.
    pub fn set(&self, name: &str, value: i64) -> io::Result<()> {
        fs::write(self.directory.join(name), value.to_string())
    }
}

/// Whether the agent runs in a user namespace, which has no access to many settings.
pub fn in_user_namespace() -> bool {
    is_own_namespace(Path::new("/proc/self/uid_map"))
}

fn is_own_namespace(map: &Path) -> bool {
    // A kernel without user namespaces lacks this file.
    let Ok(map) = read_text(map) else { return false };
    let ids: Vec<u64> = map.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    ids != ALL_USERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_setting_is_written_and_read_back() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("vm")).unwrap();
        let settings = KernelSettings::below(place.path());
        let missing = settings.get("vm/overcommit_memory").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        settings.set("vm/overcommit_memory", 1).unwrap();
        assert_eq!(settings.get("vm/overcommit_memory").unwrap(), 1);
        fs::write(place.path().join("vm/overcommit_memory"), "many\n").unwrap();
        let strange = settings.get("vm/overcommit_memory").unwrap_err();
        assert_eq!(strange.kind(), io::ErrorKind::InvalidData);
        KernelSettings::default().get("vm/overcommit_memory").unwrap();
    }

    #[test]
    fn user_namespace_is_detected_by_its_id_map() {
        let place = tempfile::tempdir().unwrap();
        let map = place.path().join("uid_map");
        assert!(!is_own_namespace(&map));
        for (text, own) in [
            ("         0          0 4294967295\n", false),
            ("         0       1000          1\n", true),
            ("0 1000 1\n1 100000 65536\n", true),
        ] {
            fs::write(&map, text).unwrap();
            assert_eq!(is_own_namespace(&map), own, "{text}");
        }
    }
}

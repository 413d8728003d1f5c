//! The initial layout of the agent's root directory, on which other programs rely.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::beneath;

/// Directories and their modes, as upstream creates them. Drivers and plugins expect their directories; those
/// for pull records stay empty.
const DIRECTORIES: [(&str, u32); 7] = [
    ("pods", 0o750),
    ("plugins", 0o750),
    ("plugins_registry", 0o750),
    ("pod-resources", 0o750),
    ("checkpoints", 0o700),
    ("image_manager/pulled", 0o700),
    ("image_manager/pulling", 0o700),
];

/// Creates the root directory and its subdirectories. Existing ones stay unchanged.
pub fn lay_out(root: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o750).create(root)?;
    DIRECTORIES.iter().try_for_each(|(name, mode)| beneath::create(root, Path::new(name), *mode))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn directories_have_upstreams_modes_and_existing_ones_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("kubelet");
        let mode = |name: &str| fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o777;
        lay_out(&root).unwrap();
        assert_eq!(DIRECTORIES.map(|(name, _)| mode(name)), DIRECTORIES.map(|(_, mode)| mode));
        fs::set_permissions(root.join("plugins"), Permissions::from_mode(0o755)).unwrap();
        lay_out(&root).unwrap();
        assert_eq!(mode("plugins"), 0o755);
        // Nothing is created behind a link.
        fs::remove_dir(root.join("pods")).unwrap();
        std::os::unix::fs::symlink("/nowhere", root.join("pods")).unwrap();
        assert!(lay_out(&root).is_err());
    }
}

//! Small files of the agent's own, written whole or not at all.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use model::ports::files::draft_of;
use rustix::fs::OFlags;

/// Writes a file that only the agent's user reads, in place of what is there. After a crash at any
/// moment there is the old content or the new, on disk.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_directory(directory)?;
    let draft = directory.join(draft_of(&name.to_string_lossy()));
    // The draft of an earlier crash may be there; nobody reads it.
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    File::open(directory)?.sync_all()
}

/// Writes a file where it is, following no link, and gives it the mode whatever the umask says.
pub(crate) fn overwrite(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(mode)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Makes a directory for the agent's user alone, with its parents, and sees to it that they are on
/// disk.
fn make_directory(directory: &Path) -> io::Result<()> {
    let existing = directory.ancestors().find(|ancestor| ancestor.exists());
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let made = directory.ancestors().take_while(|ancestor| Some(*ancestor) != existing);
    for parent in made.filter_map(Path::parent) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Removes such a file. What is not there is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        // On disk too: what came back after a crash would be taken for the last word.
        Ok(()) => File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::replace;

    #[test]
    fn a_file_is_replaced_whole_and_leaves_no_draft() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state/runtime.json");
        replace(&path, b"first and long").unwrap();
        replace(&path, b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let names: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1);
    }

    #[test]
    fn what_a_crash_left_is_no_obstacle() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(".a.new"), "half of somethi").unwrap();
        replace(&root.path().join("a"), b"new").unwrap();
        assert_eq!(std::fs::read(root.path().join("a")).unwrap(), b"new");
    }
}

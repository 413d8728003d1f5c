//! Small files of the agent, written atomically.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use model::ports::files::draft_of;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

/// Replaces a private file. After a crash at any moment, the old or the new content is on disk.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with_mode(path, content, 0o600)
}

/// Like `replace`, with another mode, independent of the umask.
pub fn replace_with_mode(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_directory(directory)?;
    let draft = directory.join(draft_of(&name.to_string_lossy()));
    // The draft of an earlier crash may exist; it is not needed.
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    if mode != 0o600 {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    File::open(directory)?.sync_all()
}

/// Overwrites a file without following links, and sets its mode independently of the umask. Concurrent readers
/// never find it empty: equal content is not written, and space for other content is allocated before the first
/// write, so that a full disk leaves the old content.
pub(crate) fn overwrite(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(mode)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)?;
    if !has_content(&mut file, content)? {
        allocate(&file, content.len() as u64)?;
        file.rewind()?;
        file.write_all(content)?;
        file.set_len(content.len() as u64)?;
    }
    file.set_permissions(Permissions::from_mode(mode))
}

fn has_content(file: &mut File, content: &[u8]) -> io::Result<bool> {
    if file.metadata()?.len() != content.len() as u64 {
        return Ok(false);
    }
    let mut found = Vec::with_capacity(content.len());
    file.take(content.len() as u64).read_to_end(&mut found)?;
    Ok(found == content)
}

/// Allocates space for this many bytes without changing the length of the file.
fn allocate(file: &File, length: u64) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
        // Some file systems do not support it.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        result => Ok(result?),
    }
}

/// Creates a private directory with its parents, and syncs them to disk.
fn make_directory(directory: &Path) -> io::Result<()> {
    let existing = directory.ancestors().find(|ancestor| ancestor.exists());
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let made = directory.ancestors().take_while(|ancestor| Some(*ancestor) != existing);
    for parent in made.filter_map(Path::parent) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Removes such a file. A missing file is not an error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        // Synced to disk: a file that reappears after a crash would count as current.
        Ok(()) => File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::fs::PermissionsExt as _;

    use std::sync::atomic::{AtomicBool, Ordering};

    use model::ports::files::HostFiles as _;

    use super::{overwrite, replace};
    use crate::Host;
    use crate::test_mount::Mount;

    #[test]
    fn file_is_replaced_atomically_and_leaves_no_draft() {
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
    fn draft_of_a_crash_is_overwritten() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(".a.new"), "half of somethi").unwrap();
        replace(&root.path().join("a"), b"new").unwrap();
        assert_eq!(std::fs::read(root.path().join("a")).unwrap(), b"new");
    }

    #[test]
    fn reader_of_an_overwritten_file_never_finds_it_empty() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("etc-hosts");
        overwrite(&path, b"first", 0o644).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for content in [b"first".as_slice(), b"second and longer"].iter().cycle().take(4000)
                {
                    overwrite(&path, content, 0o644).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                assert!(!std::fs::read(&path).unwrap().is_empty());
            }
        });
    }

    // behaviour: CON-89
    #[tokio::test]
    async fn full_disk_leaves_the_old_content_whole_and_the_error_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        let Some(_mount) = Mount::tmpfs(root.path(), "64k") else { return };
        let (files, path) = (Host::default(), root.path().join("etc-hosts"));
        files.overwrite(&path, b"127.0.0.1\tlocalhost\n", 0o644).await.unwrap();
        let full = std::fs::write(root.path().join("filler"), vec![b'x'; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let longer = b"10.0.0.1\tother\n".repeat(1000);
        let error = files.overwrite(&path, &longer, 0o644).await.unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull, "{error:?}");
        assert!(error.to_string().contains("etc-hosts"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"127.0.0.1\tlocalhost\n");
        files.overwrite(&path, b"127.0.0.1\tother\n", 0o644).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"127.0.0.1\tother\n");
    }

    #[test]
    fn equal_content_is_not_written_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("etc-hosts");
        overwrite(&path, b"same", 0o600).unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        overwrite(&path, b"same", 0o644).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.modified().unwrap(), long_ago);
        assert_eq!(metadata.permissions().mode() & 0o777, 0o644);
        overwrite(&path, b"else", 0o644).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"else");
    }
}

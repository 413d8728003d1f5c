//! Checks and creates host paths.

use std::fs::{DirBuilder, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Component, Path};

use model::ports::volumes::HostPathKind;

use super::place::refused;

const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// The required type that the path does not have; `None` if it matches.
pub(super) fn check(path: &Path, kind: HostPathKind) -> io::Result<Option<&'static str>> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(refused("it must not contain '..'"));
    }
    let (expected, is_expected): (_, fn(&Metadata) -> bool) = match kind {
        HostPathKind::Any => return Ok(None),
        HostPathKind::Directory | HostPathKind::DirectoryOrCreate => {
            ("directory", |found| found.is_dir())
        }
        HostPathKind::File | HostPathKind::FileOrCreate => ("file", |found| found.is_file()),
        HostPathKind::Socket => ("socket file", |found| found.file_type().is_socket()),
        HostPathKind::CharDevice => {
            ("character device", |found| found.file_type().is_char_device())
        }
        HostPathKind::BlockDevice => ("block device", |found| found.file_type().is_block_device()),
    };
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path, kind)?,
        found => Some(found?),
    };
    Ok((!found.is_some_and(|found| is_expected(&found))).then_some(expected))
}

/// Creates a missing path if its type requires that.
fn make(path: &Path, kind: HostPathKind) -> io::Result<Option<Metadata>> {
    match kind {
        HostPathKind::DirectoryOrCreate => {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)?;
            // Independent of the umask.
            std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))?;
        }
        HostPathKind::FileOrCreate => {
            let file =
                OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
            file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        }
        _ => return Ok(None),
    }
    std::fs::metadata(path).map(Some)
}
